"""The worker: owns one GPU or CPU slot, runs one job at a time, and signs what it verified.

In: jobs from a dispatcher. Out: signed artifacts, or typed failures. The compile itself happens in
a sandbox; what comes back is checked here before it is signed, because the sandbox ran a stranger's
graph and the key's word is what clients believe.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from compile_farm import __version__
from compile_farm.artifact import pack
from compile_farm.errors import CompileFarmError
from compile_farm.targets import describe
from compile_farm.v1 import artifact_pb2, compiler_pb2, sandbox_pb2, target_pb2
from compiler_service.security.signing import SigningKey
from compiler_service.worker.checks import ManifestError, checked_manifest, read_files
from compiler_service.worker.cxx import find_compiler
from compiler_service.worker.gpu import resolve_device
from compiler_service.worker.limits import Limits
from compiler_service.worker.plan import CHILD_MODULE, SandboxPlan
from compiler_service.worker.preflight import preflight
from compiler_service.worker.protocol import Built, JobSpec, StageListener
from compiler_service.worker.sandbox import Sandbox, SandboxDied
from compiler_service.worker.scratch import Scratch
from compiler_service.worker.self_test import explain

log = logging.getLogger(__name__)


class SandboxWorker:
    """Implements ``worker.protocol.Worker`` with a warm child process."""

    def __init__(
        self,
        name: str,
        *,
        device: str,
        signing_key: SigningKey,
        work_dir: Path,
        limits: Limits | None = None,
        confined: bool = True,
        libraries: Sequence[str] = (),
        child_module: str = CHILD_MODULE,
    ) -> None:
        """``device``: "cpu", "cuda:0", or "auto" for the first GPU if there is one.

        ``work_dir`` holds the caches, which are worth keeping, and the running job's files. The
        sandbox may write there and nowhere else, unless ``confined`` is False; raises ValueError if
        the signing key's file lies in it. ``libraries`` are modules of custom operators that graphs
        may call.
        """
        self._name = name
        self._signing_key = signing_key
        self._work_dir = work_dir.absolute()
        self._limits = limits or Limits()
        self._plan = SandboxPlan(
            device=device,
            work_dir=self._work_dir,
            limits=self._limits,
            child_module=child_module,
            confined=confined,
            libraries=tuple(libraries),
            hidden=tuple(path for path in (signing_key.path,) if path is not None),
        )
        self._startable = False
        self._scratch: Scratch | None = None
        self._sandbox: Sandbox | None = None
        self._target = target_pb2.Target()
        self._state, self._problem = "starting", ""
        self._lock = asyncio.Lock()
        self._replacing: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """As it stands in the status."""
        return self._name

    def status(self) -> compiler_pb2.WorkerStatus:
        """What it serves, and whether it can."""
        return compiler_pb2.WorkerStatus(
            name=self._name, target=self._target, state=self._state, problem=self._problem
        )

    async def start(self) -> None:
        """Finds a compiler, starts the sandbox, and has it compile and run a small graph."""
        try:
            self._scratch = await asyncio.to_thread(Scratch, self._work_dir / "scratch")
            compiler = await asyncio.to_thread(find_compiler, self._work_dir)
        except OSError as error:
            self._fail(f"its folder can't be used: {error}; give it another by --data")
            return
        failed = [check for check in preflight(self._work_dir, compiler) if not check.passed]
        if failed:
            self._fail("; ".join(f"{one.name}: {one.detail}; {one.remedy}" for one in failed))
            return
        if compiler.cured:
            log.warning("worker %s: %s", self._name, compiler.detail)
        environment = self._plan.environment(self._scratch.folder("gpu-"))
        device = await asyncio.to_thread(resolve_device, self._plan.device, environment)
        self._plan = replace(self._plan, cxx=compiler.path, device=device)
        self._startable = True
        async with self._lock:
            await self._ensure_sandbox()
        self._replace_soon()

    async def run(self, job: JobSpec, on_stage: StageListener) -> Built | compiler_pb2.Failure:
        """One job. Cancelling the task kills the sandbox, which is then replaced."""
        async with self._lock:
            await self._ensure_sandbox()
            if self._sandbox is None or self._scratch is None:
                return self._unhealthy()
            if job.target != self._target:
                return _wrong_target(job.target, self._target)
            self._state = "busy"
            try:
                return await self._run(self._sandbox, self._scratch, job, on_stage)
            except SandboxDied as death:
                log.warning("worker %s: job %s: %s", self._name, job.key[:16], death)
                await self._drop()
                return death.failure
            except OSError as error:
                return _disk_failed(self._work_dir, error)
            except BaseException:
                # Cancelled, or the listener broke: the child is in the middle of the job.
                await asyncio.shield(self._drop())
                raise
            finally:
                if self._state == "busy":
                    self._state = "idle"
                if self._sandbox is not None and self._sandbox.jobs >= self._limits.jobs_per_child:
                    await asyncio.shield(self._drop())
                self._replace_soon()

    async def stop(self) -> None:
        """Ends the sandbox; a running job's task must have been cancelled before."""
        self._startable = False
        self._state = "stopped"
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.gather(self._replacing, return_exceptions=True)
        await self._drop()
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.close)

    async def _run(
        self, sandbox: Sandbox, scratch: Scratch, job: JobSpec, on_stage: StageListener
    ) -> Built | compiler_pb2.Failure:
        output = scratch.folder("job-")
        # Opened before the child knows of it, which could put a link in its place.
        folder = os.open(output, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            request = sandbox_pb2.SandboxCompile(
                job_id=job.job_id,
                key=job.key,
                capture=job.capture,
                target=job.target,
                options=job.options,
                output_dir=str(output),
            )
            answer = await sandbox.compile(request, on_stage)
            if isinstance(answer, compiler_pb2.Failure):
                return answer
            on_stage(compiler_pb2.Stage(name="package", fraction=0.97, detail="check and sign"))
            try:
                return Built(await asyncio.to_thread(self._sign, answer, job, folder))
            except (ManifestError, CompileFarmError) as error:
                # The child is not what it was: nothing that it says can be signed.
                raise SandboxDied(_not_asked_for(error)) from error
        finally:
            os.close(folder)
            await asyncio.to_thread(shutil.rmtree, output, ignore_errors=True)

    def _sign(self, manifest: artifact_pb2.Manifest, job: JobSpec, folder: int) -> bytes:
        """The artifact of what the child left; raises ManifestError or CorruptArtifactError."""
        begin = time.perf_counter()
        files = read_files(manifest, folder)
        checked = checked_manifest(manifest, job, files)
        checked.created = int(time.time())
        checked.builder = __version__
        checked.stages.add(stage="check", seconds=time.perf_counter() - begin)
        return pack(checked, files, self._signing_key.sign)

    async def _ensure_sandbox(self) -> None:
        """Starts a child unless there is one; afterwards the state tells whether there is."""
        if self._sandbox is not None and not self._sandbox.alive:
            await self._drop()
        if not self._startable or self._scratch is None or self._sandbox is not None:
            return
        try:
            self._sandbox = await Sandbox.start(self._plan, self._scratch.folder("child-"))
        except SandboxDied as death:
            check = explain(death.failure, self._plan)
            self._fail(f"the self-test failed: {check.detail}; {check.remedy}")
            return
        except OSError as error:
            self._fail(f"its folder can't be used: {error}")
            return
        self._sandbox.on_end(self._replace_soon)
        hello = self._sandbox.hello
        self._target = hello.target
        self._state, self._problem = "idle", ""
        for note in hello.notes:
            log.warning("worker %s: %s", self._name, note)
        log.info(
            "worker %s is ready: %s; its first compile took %.1f s",
            self._name,
            describe(hello.target),
            hello.seconds,
        )

    def _replace_soon(self) -> None:
        """Sees to it that a child gets warm before anybody asks for it."""
        running = self._replacing is not None and not self._replacing.done()
        ready = self._sandbox is not None and self._sandbox.alive
        if self._startable and not ready and not running:
            self._replacing = asyncio.create_task(self._replace())

    async def _replace(self) -> None:
        """Tries until there is one: what ended the last, memory for instance, may pass."""
        attempt = 0
        while True:
            if self._state == "unhealthy":
                waits = self._limits.restart_seconds
                await asyncio.sleep(waits[min(attempt, len(waits) - 1)])
                attempt += 1
            async with self._lock:
                await self._ensure_sandbox()
                if self._sandbox is not None:
                    return

    async def _drop(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.kill()

    def _fail(self, problem: str) -> None:
        self._state, self._problem = "unhealthy", problem
        log.error("worker %s takes no work: %s", self._name, problem)

    def _unhealthy(self) -> compiler_pb2.Failure:
        return compiler_pb2.Failure(
            reason=compiler_pb2.REASON_NO_WORKER,
            message=f"the worker {self._name} is {self._state}: {self._problem}",
            remedy="run `compile-farm doctor` on the worker's host",
            retryable=True,
        )


def _wrong_target(asked: target_pb2.Target, served: target_pb2.Target) -> compiler_pb2.Failure:
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_NO_WORKER,
        message=f"this worker builds for {describe(served)}, not for {describe(asked)}",
        remedy="ask a farm that serves the target",
        retryable=True,
    )


def _not_asked_for(error: Exception) -> compiler_pb2.Failure:
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_CRASHED,
        message=f"the sandbox handed over what was not asked for: {error}",
        remedy="nothing was signed, and the worker has replaced it",
        stage="package",
        retryable=True,
    )


def _disk_failed(work_dir: Path, error: OSError) -> compiler_pb2.Failure:
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_INTERNAL,
        message=f"the worker's own disk failed: {error}",
        remedy=f"look at the disk of {work_dir}",
        retryable=True,
    )
