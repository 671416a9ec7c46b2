"""Dispatch on one machine: a queue in memory, and the workers of this process.

In: keys with their captures. Out: events. One job per key, whoever asks; a bounded queue in order
of arrival; each free worker takes the first job of its target. A built artifact is published to the
store before anybody hears of it; when the store takes nothing, the answer carries the artifact
itself, so that the request is answered all the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from compile_farm.targets import describe, why_incompatible
from compile_farm.v1 import artifact_pb2, compiler_pb2, target_pb2
from compiler_service.dispatch.failure_memory import FailureMemory
from compiler_service.dispatch.job import Job
from compiler_service.errors import BusyError, NotFoundError
from compiler_service.storage.artifact_store import ArtifactStore
from compiler_service.storage.errors import StoreError
from compiler_service.worker.protocol import Built, JobSpec, Worker

log = logging.getLogger(__name__)

# A client that lost its connection finds its job's end for so long, in seconds.
_KEEP_ENDED = 120.0
# Without a store that took it, an artifact travels inside the answer, if it fits a message.
_MAX_INLINE = 60 * 1024**2


class LocalDispatcher:
    """Implements ``dispatch.protocol.Dispatcher``; made and used in one event loop."""

    def __init__(
        self,
        workers: Sequence[Worker],
        store: ArtifactStore,
        *,
        queue_length: int = 1000,
        memory: FailureMemory | None = None,
    ) -> None:
        self._workers = list(workers)
        self._store = store
        self._queue_length = queue_length
        self._memory = memory or FailureMemory()
        self._jobs: dict[str, Job] = {}
        self._by_key: dict[str, Job] = {}
        self._queue: list[Job] = []
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._failures: Counter[compiler_pb2.Reason] = Counter()
        self.compiled = 0

    async def start(self) -> None:
        """Starts every worker, and what feeds it, in the background."""
        self._tasks = [asyncio.create_task(self._serve(worker)) for worker in self._workers]

    async def stop(self) -> None:
        """Cancels what runs and stops the workers."""
        for task in self._tasks:
            task.cancel()
        running = [job.task for job in self._jobs.values() if job.task is not None]
        for job in running:
            job.cancel()
        await asyncio.gather(*self._tasks, *running, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self._workers), return_exceptions=True)

    async def events(
        self,
        key: str,
        capture: bytes,
        target: target_pb2.Target,
        options: target_pb2.Options,
    ) -> AsyncIterator[compiler_pb2.Event]:
        """See the protocol."""
        job = self._by_key.get(key)
        if job is None:
            remembered = self._memory.recall(key)
            if remembered is not None:
                yield compiler_pb2.Event(key=key, failure=remembered)
                return
            job = self._enqueue(JobSpec(secrets.token_hex(8), key, capture, target, options))
        async with aclosing(self._follow(job)) as events:
            async for event in events:
                yield event

    async def watch(self, job_id: str) -> AsyncIterator[compiler_pb2.Event]:
        """See the protocol."""
        async with aclosing(self._follow(self._find(job_id))) as events:
            async for event in events:
                yield event

    def cancel(self, job_id: str) -> bool:
        """See the protocol."""
        job = self._find(job_id)
        if job.ended or job.waiters:
            return False
        self._abandon(job)
        return True

    def targets(self) -> list[target_pb2.Target]:
        """See the protocol."""
        found: list[target_pb2.Target] = []
        for worker in self._workers:
            status = worker.status()
            if status.state in ("idle", "busy") and status.target not in found:
                found.append(status.target)
        return found

    def jobs(self) -> list[compiler_pb2.JobStatus]:
        """See the protocol."""
        now = time.monotonic()
        return [
            compiler_pb2.JobStatus(
                job_id=job.spec.job_id,
                key=job.spec.key,
                state="running" if job.running else "queued",
                stage=job.latest.stage.name,
                fraction=job.latest.stage.fraction,
                seconds=now - job.created,
                waiters=job.waiters,
            )
            for job in self._by_key.values()
        ]

    def workers(self) -> list[compiler_pb2.WorkerStatus]:
        """See the protocol."""
        return [worker.status() for worker in self._workers]

    def failures(self) -> list[compiler_pb2.ReasonCount]:
        """See the protocol."""
        return [
            compiler_pb2.ReasonCount(reason=reason, count=count)
            for reason, count in sorted(self._failures.items())
        ]

    def _enqueue(self, spec: JobSpec) -> Job:
        if len(self._queue) >= self._queue_length:
            raise BusyError(f"{len(self._queue)} jobs wait already; try again later")
        self._forget_ended()
        job = Job(spec)
        self._jobs[spec.job_id] = self._by_key[spec.key] = job
        self._queue.append(job)
        job.tell(queued=compiler_pb2.Queued(position=len(self._queue)))
        self._fail_unserved()
        self._changed.set()
        return job

    def _find(self, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job is None:
            raise NotFoundError(f"there is no job {job_id[:64]!r}; ask for its key again")
        return job

    async def _follow(self, job: Job) -> AsyncGenerator[compiler_pb2.Event]:
        try:
            # Closed before anything else happens: a generator that is only dropped would go on
            # counting as a waiter until the garbage collector finds it.
            async with aclosing(job.watch()) as events:
                async for event in events:
                    yield event
        finally:
            if not job.ended and not job.waiters:
                log.info("job %s: nobody waits for it any more", job.spec.key[:16])
                self._abandon(job)

    def _abandon(self, job: Job) -> None:
        if job.task is not None:
            job.task.cancel()
        else:
            self._queue.remove(job)
            self._end(job, _cancelled())
            self._tell_positions()

    def _end(self, job: Job, failure: compiler_pb2.Failure) -> None:
        self._failures[failure.reason] += 1
        self._memory.remember(job.spec.key, failure)
        self._by_key.pop(job.spec.key, None)
        job.tell(failure=failure)
        log.info(
            "job %s failed: %s: %s",
            job.spec.key[:16],
            compiler_pb2.Reason.Name(failure.reason),
            failure.message.splitlines()[0] if failure.message else "",
        )

    def _forget_ended(self) -> None:
        limit = time.monotonic() - _KEEP_ENDED
        for job_id in [
            job_id
            for job_id, job in self._jobs.items()
            if job.ended_at is not None and job.ended_at < limit
        ]:
            del self._jobs[job_id]

    def _tell_positions(self) -> None:
        for position, job in enumerate(self._queue, start=1):
            if job.latest.queued.position != position:
                job.tell(queued=compiler_pb2.Queued(position=position))

    def _fail_unserved(self) -> None:
        """Ends the jobs that no worker will ever take, once all workers have come up."""
        states = [worker.status() for worker in self._workers]
        if any(status.state == "starting" for status in states):
            return
        served = self.targets()
        for job in list(self._queue):
            if job.spec.target not in served:
                self._queue.remove(job)
                self._end(job, _no_worker(job.spec.target, served, states))
        self._tell_positions()

    async def _serve(self, worker: Worker) -> None:
        """Feeds one worker for its whole life."""
        try:
            await worker.start()
        except Exception:
            log.exception("worker %s could not be started", worker.name)
            return
        finally:
            self._fail_unserved()
            self._changed.set()
        while True:
            job = self._take(worker)
            if job is None:
                self._changed.clear()
                await self._changed.wait()
                continue
            job.running = True
            job.task = asyncio.create_task(self._run(worker, job))
            self._tell_positions()
            await asyncio.gather(job.task, return_exceptions=True)
            self._fail_unserved()
            self._changed.set()

    def _take(self, worker: Worker) -> Job | None:
        status = worker.status()
        if status.state not in ("idle", "busy"):
            return None
        for job in self._queue:
            if job.spec.target == status.target:
                self._queue.remove(job)
                return job
        return None

    async def _run(self, worker: Worker, job: Job) -> None:
        log.info("job %s starts on %s", job.spec.key[:16], worker.name)
        try:
            outcome = await worker.run(job.spec, lambda stage: job.tell(stage=stage))
            if isinstance(outcome, Built):
                await self._publish(job, outcome)
            else:
                self._end(job, outcome)
        except asyncio.CancelledError:
            self._end(job, _cancelled())
            raise
        except Exception as error:
            log.exception("job %s: the dispatcher failed", job.spec.key[:16])
            self._end(job, _internal(f"the farm failed: {error!r}"))

    async def _publish(self, job: Job, built: Built) -> None:
        job.tell(stage=compiler_pb2.Stage(name="store", fraction=0.98))
        key = job.spec.key
        reference = artifact_pb2.ArtifactRef(
            key=key,
            digest=hashlib.sha256(built.data).hexdigest(),
            size=len(built.data),
            tier="built",
        )
        try:
            entry = await self._store.publish(key, built.data)
            if entry.missed:
                log.warning("job %s: not taken by %s", key[:16], ", ".join(entry.missed))
        except StoreError as error:
            log.error("job %s: the store took nothing: %s", key[:16], error)
            if len(built.data) > _MAX_INLINE:
                self._end(job, _internal(f"the artifact was built, and no store took it: {error}"))
                return
            reference.inline = built.data
        self.compiled += 1
        self._memory.forget(key)
        self._by_key.pop(key, None)
        job.tell(done=compiler_pb2.Done(artifact=reference))
        seconds = time.monotonic() - job.created
        log.info("job %s done in %.1f s: %d bytes", key[:16], seconds, len(built.data))


def _cancelled() -> compiler_pb2.Failure:
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_CANCELLED,
        message="the job was cancelled: nobody waited for it any more",
        retryable=True,
    )


def _internal(message: str) -> compiler_pb2.Failure:
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_INTERNAL, message=message, retryable=True
    )


def _no_worker(
    target: target_pb2.Target,
    served: Sequence[target_pb2.Target],
    workers: Sequence[compiler_pb2.WorkerStatus],
) -> compiler_pb2.Failure:
    """Which targets are served, and what sets them apart from the one that was asked for."""
    lines = [f"no worker builds for {describe(target)}"]
    lines += [f"served is {describe(one)}: {why_incompatible(one, target)}" for one in served]
    lines += [f"{one.name} is {one.state}: {one.problem}" for one in workers if one.problem]
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_NO_WORKER,
        message="; ".join(lines),
        remedy="run a worker for this target, or use the client's environment of a served one",
        retryable=True,
    )
