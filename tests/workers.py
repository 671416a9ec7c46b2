"""Workers for tests of what surrounds a worker: they follow a script instead of compiling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from compile_farm.v1 import compiler_pb2, target_pb2
from compiler_service.worker.protocol import Built, JobSpec, StageListener
from tests import captures

Outcome = Built | compiler_pb2.Failure


class ScriptedWorker:
    """Answers each job with ``outcome(job)`` after ``gate`` opens; counts what it ran."""

    def __init__(
        self,
        outcome: Callable[[JobSpec], Outcome] = lambda job: Built(
            b"artifact of " + job.key.encode()
        ),
        *,
        target: target_pb2.Target | None = None,
        problem: str = "",
    ) -> None:
        self._outcome = outcome or (lambda job: Built(b"artifact of " + job.key.encode()))
        self._target = target or captures.target()
        self._state = "unhealthy" if problem else "idle"
        self._problem = problem
        self.runs: list[str] = []
        self.cancelled: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.started = asyncio.Event()

    @property
    def name(self) -> str:
        """For the status."""
        return "scripted"

    def status(self) -> compiler_pb2.WorkerStatus:
        """As it was made."""
        return compiler_pb2.WorkerStatus(
            name=self.name, target=self._target, state=self._state, problem=self._problem
        )

    async def start(self) -> None:
        """Is ready at once."""

    async def stop(self) -> None:
        """Has nothing to stop."""

    async def run(self, job: JobSpec, on_stage: StageListener) -> Outcome:
        """Tells a stage, waits for the gate, answers."""
        self.runs.append(job.key)
        on_stage(compiler_pb2.Stage(name="lower", fraction=0.5))
        self.started.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(job.key)
            raise
        return self._outcome(job)


def failing(
    reason: compiler_pb2.Reason, message: str = "by script"
) -> Callable[[JobSpec], Outcome]:
    """An outcome that is always this failure."""
    return lambda job: compiler_pb2.Failure(reason=reason, message=message)
