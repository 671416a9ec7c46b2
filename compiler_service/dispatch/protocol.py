"""What a gateway needs of a dispatcher, on one machine or across a fleet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from compile_farm.v1 import compiler_pb2, target_pb2


class Dispatcher(Protocol):
    """One job per key: whoever asks for a key joins the job that is on its way."""

    def events(
        self,
        key: str,
        capture: bytes,
        target: target_pb2.Target,
        options: target_pb2.Options,
    ) -> AsyncIterator[compiler_pb2.Event]:
        """Events of the key's job, begun if need be, up to the final one.

        Leaving the iterator leaves the job, which is cancelled once nobody watches it.
        Raises BusyError when the queue is full.
        """
        ...

    def watch(self, job_id: str) -> AsyncIterator[compiler_pb2.Event]:
        """The same for a job that is known; raises NotFoundError."""
        ...

    def cancel(self, job_id: str) -> bool:
        """Stops a job that nobody watches; False if somebody does or it has ended.

        Raises NotFoundError.
        """
        ...

    def targets(self) -> Sequence[target_pb2.Target]:
        """Targets of healthy workers."""
        ...

    def jobs(self) -> Sequence[compiler_pb2.JobStatus]:
        """Queued and running jobs."""
        ...

    def workers(self) -> Sequence[compiler_pb2.WorkerStatus]:
        """All workers."""
        ...

    def failures(self) -> Sequence[compiler_pb2.ReasonCount]:
        """Failures since the start, by reason."""
        ...

    @property
    def compiled(self) -> int:
        """Artifacts built since the start."""
        ...
