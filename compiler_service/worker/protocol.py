"""What a dispatcher needs of a worker, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from compile_farm.v1 import compiler_pb2, target_pb2


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One compile of one key: ``capture`` is a serialised, validated, uncompressed Capture."""

    job_id: str
    key: str
    capture: bytes
    target: target_pb2.Target
    options: target_pb2.Options


@dataclass(frozen=True, slots=True)
class Built:
    """A verified, signed artifact: the whole zip."""

    data: bytes


StageListener = Callable[[compiler_pb2.Stage], None]


class Worker(Protocol):
    """Owns one GPU or CPU slot and serves one target; one job at a time.

    ``run`` may be cancelled as an asyncio task: the sandbox is then killed and replaced. It never
    raises for a job's own fault; that is a Failure.
    """

    @property
    def name(self) -> str: ...

    def status(self) -> compiler_pb2.WorkerStatus: ...

    async def start(self) -> None:
        """Start the sandbox and run its self-test; afterwards ``status`` tells the outcome."""

    async def run(self, job: JobSpec, on_stage: StageListener) -> Built | compiler_pb2.Failure: ...

    async def stop(self) -> None: ...
