"""One job: its latest event, and everybody who waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from compile_farm.v1 import compiler_pb2
from compiler_service.worker.protocol import JobSpec

FINAL = ("done", "failure")


class Job:
    """State of one compile of one key; changed only from the event loop."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.created = time.monotonic()
        self.running = False
        self.latest = compiler_pb2.Event(job_id=spec.job_id, key=spec.key)
        self.task: asyncio.Task[None] | None = None
        self._watchers: set[asyncio.Queue[compiler_pb2.Event]] = set()
        self.ended_at: float | None = None

    @property
    def ended(self) -> bool:
        """Whether its last event was final."""
        return self.ended_at is not None

    @property
    def waiters(self) -> int:
        """How many watch it now."""
        return len(self._watchers)

    def tell(self, **kind: object) -> None:
        """A new event for everybody: queued=, stage=, done= or failure=."""
        event = compiler_pb2.Event(
            job_id=self.spec.job_id,
            key=self.spec.key,
            **kind,  # type: ignore[arg-type]
        )
        self.latest = event
        if event.WhichOneof("kind") in FINAL:
            self.ended_at = time.monotonic()
        for watcher in self._watchers:
            watcher.put_nowait(event)

    async def watch(self) -> AsyncGenerator[compiler_pb2.Event]:
        """The latest event and all that follow, to the final one."""
        queue: asyncio.Queue[compiler_pb2.Event] = asyncio.Queue()
        self._watchers.add(queue)
        try:
            event = self.latest
            if event.WhichOneof("kind") is not None:
                yield event
            while event.WhichOneof("kind") not in FINAL:
                event = await queue.get()
                yield event
        finally:
            self._watchers.discard(queue)
