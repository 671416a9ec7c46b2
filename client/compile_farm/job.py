"""A job as its client sees it: events, progress, and in the end an artifact or the reason why not.

In: a request that a farm is asked to compile. Out: ``Job``, whose stream of events is read by a
thread of its own. A connection that breaks is no failure: the job is joined again where the farm
still knows it, and asked for again where not, which its key makes harmless.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from compile_farm.errors import (
    ArtifactNotFoundError,
    CompileFailedError,
    CompileFarmError,
    FarmUnavailableError,
    JobTimeoutError,
)
from compile_farm.v1 import artifact_pb2, compiler_pb2

if TYPE_CHECKING:
    from compile_farm.fetched import Artifact
    from compile_farm.transport import EventStream

log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
# How long a farm may stay away before its jobs are given up; a restart takes seconds.
PATIENCE_SECONDS = 120.0


class Progress(NamedTuple):
    """``fraction`` is 0 to 1 over the whole job; ``stage`` is "queued", "lower", ..., "done"."""

    fraction: float
    stage: str
    detail: str = ""


class JobCalls(Protocol):
    """What a job needs of a transport."""

    def compile(self, request: compiler_pb2.CompileRequest) -> EventStream: ...

    def watch(self, job_id: str) -> EventStream: ...

    def cancel(self, job_id: str) -> bool: ...


class Job:
    """One compile of one key, going on in the farm. Every method may be called from any thread.

    Attributes:
        key: what is compiled, and what ``Farm.artifact`` takes later.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._changed = threading.Condition()
        self._events: list[compiler_pb2.Event] = []
        self._ended = False
        self._artifact: Artifact | None = None
        self._error: CompileFarmError | None = None
        self._callbacks: list[Callable[[Job], object]] = []
        self._calls: JobCalls | None = None
        self._stream: EventStream | None = None
        self._cancelled = False

    @classmethod
    def finished(cls, key: str, artifact: Artifact) -> Job:
        """A job that was over before it began: the artifact lay in the local cache."""
        job = cls(key)
        ref = artifact_pb2.ArtifactRef(key=key, digest=artifact.digest, tier="local")
        job._note(compiler_pb2.Event(key=key, done=compiler_pb2.Done(artifact=ref, hit=True)))
        job._end(artifact, None)
        return job

    @classmethod
    def start(
        cls,
        request: compiler_pb2.CompileRequest,
        calls: JobCalls,
        fetch: Callable[[artifact_pb2.ArtifactRef], Artifact],
        patience: float = PATIENCE_SECONDS,
    ) -> Job:
        """Asks for ``request`` in a thread; ``fetch`` gets the artifact once it is there."""
        job = cls(request.key)
        job._calls = calls
        thread = threading.Thread(
            target=job._run, args=(request, fetch, patience), name=f"job-{job.key[:8]}", daemon=True
        )
        thread.start()
        return job

    @property
    def progress(self) -> Progress:
        """Where it stands now."""
        with self._changed:
            if self._ended:
                return Progress(1.0, "failed" if self._error else "done")
            return _progress(self._events)

    @property
    def hit(self) -> bool:
        """Whether the artifact was there before the request came; False until that is known."""
        with self._changed:
            return any(event.done.hit for event in self._events)

    def done(self) -> bool:
        """Whether ``result`` returns at once."""
        return self._ended

    def events(self) -> Iterator[compiler_pb2.Event]:
        """All events from the first on, as they come, until the job ends."""
        position = 0
        while True:
            with self._changed:
                while not self._ended and len(self._events) == position:
                    self._changed.wait()
                fresh = self._events[position:]
                position += len(fresh)
                if not fresh:
                    return
            yield from fresh

    def wait_for_lookup(self, timeout: float | None = None) -> bool:
        """Waits until the farm has said whether it has the artifact; True if it has.

        A hit's bytes may still be on their way: ``result`` waits for them.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._ended or bool(self._events), timeout)
        return self.hit

    def result(self, timeout: float | None = None) -> Artifact:
        """The artifact, waiting for it.

        Raises:
            CompileFailedError: the farm tried and could not; carries the reason.
            JobTimeoutError: not within ``timeout`` seconds; the job goes on.
            CompileFarmError: another of errors.py: the farm went away, the artifact is not trusted.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended, timeout):
                stage = _progress(self._events).stage
                raise JobTimeoutError(
                    f"the compile of {self.key[:16]} is not done after {timeout:g} s ({stage})",
                    remedy="it goes on: call result() again",
                    retryable=True,
                )
        if self._error is not None:
            raise self._error
        assert self._artifact is not None
        return self._artifact

    def cancel(self) -> bool:
        """Gives the job up. True if that stopped it; False if it goes on for others or had ended.

        Afterwards ``result`` raises CompileFailedError with the reason "cancelled".
        """
        with self._changed:
            if self._ended:
                return False
            self._cancelled = True
            stream = self._stream
            job_id = self._events[-1].job_id if self._events else ""
        if stream is not None:
            stream.cancel()
        stopped = False
        if job_id and self._calls is not None:
            try:
                stopped = self._calls.cancel(job_id)
            except CompileFarmError as error:
                log.debug("cancelling %s: %s", job_id, error)
        self._end(None, _cancelled_error(self.key))
        return stopped

    def add_done_callback(self, callback: Callable[[Job], object]) -> None:
        """Calls ``callback(job)`` when it ends, in the job's thread; at once if it has ended."""
        with self._changed:
            if not self._ended:
                self._callbacks.append(callback)
                return
        self._call(callback)

    def _run(
        self,
        request: compiler_pb2.CompileRequest,
        fetch: Callable[[artifact_pb2.ArtifactRef], Artifact],
        patience: float,
    ) -> None:
        try:
            ref = self._follow(request, patience)
            artifact = fetch(ref)
        except CompileFarmError as error:
            self._end(None, error)
        except Exception as error:
            # A thread that dies silently would leave everyone waiting.
            log.exception("the job %s failed in this client", self.key[:16])
            self._end(None, CompileFarmError(f"the client failed: {type(error).__name__}: {error}"))
        else:
            self._end(artifact, None)

    def _follow(
        self, request: compiler_pb2.CompileRequest, patience: float
    ) -> artifact_pb2.ArtifactRef:
        """Reads events until the job ends, over as many connections as that takes."""
        job_id, pause = "", _FIRST_PAUSE_SECONDS
        last_sign = time.monotonic()
        while True:
            try:
                for event in self._connect(request, job_id):
                    self._note(event)
                    job_id, pause, last_sign = event.job_id, _FIRST_PAUSE_SECONDS, time.monotonic()
                    kind = event.WhichOneof("kind")
                    if kind == "done":
                        return event.done.artifact
                    if kind == "failure":
                        raise CompileFailedError(event.failure)
                broken = FarmUnavailableError(
                    "the farm ended the stream before the job was done", retryable=True
                )
            except ArtifactNotFoundError:
                # It forgot the job: it was restarted, or the job ended long ago.
                if not job_id:
                    raise
                job_id = ""
                continue
            except FarmUnavailableError as error:
                broken = error
            except CompileFarmError:
                if self._cancelled:
                    raise _cancelled_error(self.key) from None
                raise
            if self._cancelled:
                raise _cancelled_error(self.key)
            if time.monotonic() - last_sign > patience:
                raise broken
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _connect(
        self, request: compiler_pb2.CompileRequest, job_id: str
    ) -> Iterator[compiler_pb2.Event]:
        assert self._calls is not None
        with self._changed:
            if self._cancelled:
                raise _cancelled_error(self.key)
            stream = self._calls.watch(job_id) if job_id else self._calls.compile(request)
            self._stream = stream
        return iter(stream)

    def _note(self, event: compiler_pb2.Event) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    def _end(self, artifact: Artifact | None, error: CompileFarmError | None) -> None:
        with self._changed:
            if self._ended:
                return
            self._artifact, self._error, self._ended = artifact, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[Job], object]) -> None:
        try:
            callback(self)
        except Exception:
            log.exception("a callback of the job %s failed", self.key[:16])


def _progress(events: list[compiler_pb2.Event]) -> Progress:
    if not events:
        return Progress(0.0, "asking")
    event = events[-1]
    kind = event.WhichOneof("kind")
    if kind == "queued":
        return Progress(0.0, "queued", f"position {event.queued.position}")
    if kind == "stage":
        return Progress(event.stage.fraction, event.stage.name, event.stage.detail)
    return Progress(1.0, "fetch" if kind == "done" else "failed")


def _cancelled_error(key: str) -> CompileFailedError:
    return CompileFailedError(
        compiler_pb2.Failure(
            reason=compiler_pb2.REASON_CANCELLED,
            message=f"the compile of {key[:16]} was cancelled by this client",
            retryable=True,
        )
    )
