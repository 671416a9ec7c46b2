"""The worker: owns one GPU or CPU slot, runs one job at a time, and signs what it verified.

In: jobs from a dispatcher. Out: signed artifacts, or typed failures. The compile itself happens in
a sandbox; what comes back is checked here before it is signed, because the sandbox ran a stranger's
graph and the key's word is what clients believe.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import stat
import time
from importlib import metadata
from pathlib import Path

from compile_farm.artifact import pack
from compile_farm.targets import describe
from compile_farm.v1 import artifact_pb2, compiler_pb2, sandbox_pb2, target_pb2
from compiler_service.security.signing import SigningKey
from compiler_service.worker.checks import ManifestError, checked_manifest
from compiler_service.worker.cxx import find_compiler
from compiler_service.worker.limits import Limits
from compiler_service.worker.protocol import Built, JobSpec, StageListener
from compiler_service.worker.sandbox import CHILD_MODULE, Sandbox, SandboxDied, SandboxPlan

log = logging.getLogger(__name__)

_MAX_FILE_BYTES = 1024**3


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
        child_module: str = CHILD_MODULE,
    ) -> None:
        """``device``: "cpu", "cuda:0", or "auto" for the first GPU if there is one.

        ``work_dir`` holds the caches, which are worth keeping, and the running job's files.
        """
        self._name = name
        self._device = device
        self._signing_key = signing_key
        self._work_dir = work_dir.absolute()
        self._limits = limits or Limits()
        self._child_module = child_module
        self._plan: SandboxPlan | None = None
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
        self._work_dir.mkdir(parents=True, exist_ok=True)
        compiler = await asyncio.to_thread(find_compiler, self._work_dir)
        if compiler.problem:
            self._fail(f"{compiler.problem}; {compiler.remedy}")
            return
        if compiler.cured:
            log.warning("worker %s: %s", self._name, compiler.detail)
        self._plan = SandboxPlan(
            self._device, self._work_dir, self._limits, compiler.path, self._child_module
        )
        async with self._lock:
            await self._start_sandbox()

    async def run(self, job: JobSpec, on_stage: StageListener) -> Built | compiler_pb2.Failure:
        """One job. Cancelling the task kills the sandbox, which is then replaced."""
        async with self._lock:
            output = self._work_dir / "jobs" / job.job_id
            try:
                sandbox = await self._ready_sandbox()
                if sandbox is None:
                    return self._unhealthy()
                self._state = "busy"
                output.mkdir(parents=True)
                return await self._run(sandbox, job, output, on_stage)
            except SandboxDied as death:
                log.warning("worker %s: job %s: %s", self._name, job.key[:16], death)
                await self._drop()
                return death.failure
            except asyncio.CancelledError:
                await asyncio.shield(self._drop())
                raise
            except OSError as error:
                return compiler_pb2.Failure(
                    reason=compiler_pb2.REASON_INTERNAL,
                    message=f"the worker's own disk failed: {error}",
                    remedy=f"look at the disk of {self._work_dir}",
                    retryable=True,
                )
            finally:
                await asyncio.to_thread(shutil.rmtree, output, ignore_errors=True)
                if self._state == "busy":
                    self._state = "idle"
                if self._sandbox is None and self._state == "idle":
                    self._replacing = asyncio.create_task(self._replace())

    async def stop(self) -> None:
        """Ends the sandbox; a running job's task must have been cancelled before."""
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.gather(self._replacing, return_exceptions=True)
        await self._drop()
        self._state = "stopped"

    async def _run(
        self, sandbox: Sandbox, job: JobSpec, output: Path, on_stage: StageListener
    ) -> Built | compiler_pb2.Failure:
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
        try:
            files = await asyncio.to_thread(_read_files, answer, output)
            manifest = checked_manifest(answer, job, files)
        except ManifestError as error:
            # The child is not what it was: nothing that it says can be signed.
            await self._drop()
            return compiler_pb2.Failure(
                reason=compiler_pb2.REASON_CRASHED,
                message=f"the sandbox handed over what was not asked for: {error}",
                stage="package",
                retryable=True,
            )
        manifest.created = int(time.time())
        manifest.builder = _version()
        return Built(await asyncio.to_thread(pack, manifest, files, self._signing_key.sign))

    async def _ready_sandbox(self) -> Sandbox | None:
        sandbox = self._sandbox
        if sandbox is not None and (
            not sandbox.alive or sandbox.jobs >= self._limits.jobs_per_child
        ):
            await self._drop()
            sandbox = None
        if sandbox is None:
            await self._start_sandbox()
        return self._sandbox

    async def _start_sandbox(self) -> None:
        if self._plan is None or self._sandbox is not None:
            return
        try:
            self._sandbox = await Sandbox.start(self._plan)
        except SandboxDied as death:
            self._fail(f"the self-test failed: {death.failure.message}")
            return
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

    async def _replace(self) -> None:
        """Warms the next child before anybody asks for it."""
        async with self._lock:
            await self._start_sandbox()

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
            message=f"the worker {self._name} is unhealthy: {self._problem}",
            remedy="run `compile-farm doctor` on the worker's host",
            retryable=True,
        )


def _read_files(manifest: artifact_pb2.Manifest, output: Path) -> dict[str, bytes]:
    """The files that the child left; plain ones in its folder, and no links out of it."""
    files: dict[str, bytes] = {}
    for entry in manifest.files:
        if "/" in entry.name or entry.name.startswith("."):
            raise ManifestError(f"a file called {entry.name[:80]!r}")
        path = output / entry.name
        try:
            status = path.lstat()
        except OSError as error:
            raise ManifestError(f"the file {entry.name!r} is not there") from error
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE_BYTES:
            raise ManifestError(f"{entry.name!r} is no plain file, or {status.st_size} bytes long")
        files[entry.name] = path.read_bytes()
    return files


def _version() -> str:
    try:
        return metadata.version("compile-farm")
    except metadata.PackageNotFoundError:
        return "0+unknown"
