"""A sandbox, seen from the worker: one child process, its messages, its limits and its end.

In: a compile request. Out: a manifest, a Failure, or SandboxDied with what killed it. Whatever the
child sends is only believed as far as the schema goes; noise on the socket counts as a crash.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from compile_farm.v1 import artifact_pb2, compiler_pb2, sandbox_pb2
from compiler_service.worker import framing
from compiler_service.worker.limits import Limits

log = logging.getLogger(__name__)

CHILD_MODULE = "compiler_service.worker.child"

# Variables of the worker that a child may see; everything else, tokens too, stays outside.
_PASSED = (
    "PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONPATH", "VIRTUAL_ENV",
    "COMPILE_FARM_ISA", "CXX", "CC", "TRITON_PTXAS_PATH",
)  # fmt: skip
_TAIL_LINES = 30
_MEMORY_INTERVAL = 0.5


class SandboxDied(Exception):
    """The child is gone. ``failure`` says why, for the client."""

    def __init__(self, failure: compiler_pb2.Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True)
class SandboxPlan:
    """How to start a child: on what device, where, and with which limits."""

    device: str
    work_dir: Path
    limits: Limits
    cxx: str = ""
    child_module: str = CHILD_MODULE

    def environment(self) -> dict[str, str]:
        """The child's variables; caches lie in the worker's own folder and survive the child."""
        cache = self.work_dir / "cache"
        kept = {name: os.environ[name] for name in _PASSED if name in os.environ}
        temporary = self.work_dir / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        return {
            **kept,
            **({"CXX": self.cxx} if self.cxx else {}),
            "HOME": str(self.work_dir),
            "TMPDIR": str(temporary),
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "TRITON_CACHE_DIR": str(cache / "triton"),
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            "HF_HUB_OFFLINE": "1",
        }


class Sandbox:
    """A running child. Made by ``start``; ended by ``kill``."""

    def __init__(
        self,
        plan: SandboxPlan,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._plan = plan
        self._process = process
        self._reader, self._writer = reader, writer
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._output = asyncio.create_task(self._read_output())
        self._over_memory = 0
        self.hello = sandbox_pb2.SandboxHello()
        self.jobs = 0

    @classmethod
    async def start(cls, plan: SandboxPlan) -> Sandbox:
        """Starts a child and waits for its Hello; raises SandboxDied."""
        ours, theirs = socket.socketpair()
        limits = plan.limits
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", plan.child_module, str(theirs.fileno()), plan.device,
                str(limits.file_bytes), str(limits.open_files),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=plan.environment(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            raise SandboxDied(
                compiler_pb2.Failure(
                    reason=compiler_pb2.REASON_INTERNAL,
                    message=f"the sandbox could not be started: {error}",
                    retryable=True,
                )
            ) from error
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        sandbox = cls(plan, process, reader, writer)
        try:
            reply = await sandbox._reply(limits.start_seconds, "self-test", lambda stage: None)
        except BaseException:
            await sandbox.kill()
            raise
        if reply.WhichOneof("kind") != "hello":
            await sandbox.kill()
            raise SandboxDied(reply.failure)
        sandbox.hello = reply.hello
        return sandbox

    async def compile(
        self,
        request: sandbox_pb2.SandboxCompile,
        on_stage: Callable[[compiler_pb2.Stage], None],
    ) -> artifact_pb2.Manifest | compiler_pb2.Failure:
        """One job; raises SandboxDied if the child did not survive it."""
        self.jobs += 1
        try:
            self._writer.write(framing.encode(request))
            await self._writer.drain()
        except ConnectionError as error:
            raise SandboxDied(await self._obituary("start")) from error
        reply = await self._reply(self._plan.limits.job_seconds, "", on_stage)
        if reply.WhichOneof("kind") == "done":
            return reply.done
        return reply.failure

    async def kill(self) -> None:
        """Ends the child and every process that it started."""
        if self._process.returncode is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            await self._process.wait()
        self._output.cancel()
        self._writer.close()

    @property
    def alive(self) -> bool:
        """Whether the child runs."""
        return self._process.returncode is None

    async def _reply(
        self, seconds: float, stage: str, on_stage: Callable[[compiler_pb2.Stage], None]
    ) -> sandbox_pb2.SandboxReply:
        """The next reply that is no stage; watches the time and the memory meanwhile."""
        watch = asyncio.create_task(self._watch_memory())
        current = stage
        try:
            async with asyncio.timeout(seconds):
                while True:
                    reply = await framing.read(self._reader, sandbox_pb2.SandboxReply())
                    kind = reply.WhichOneof("kind")
                    if kind is None:
                        raise framing.FramingError("an empty message")
                    if kind != "stage":
                        return reply
                    current = reply.stage.name
                    on_stage(reply.stage)
        except TimeoutError:
            raise SandboxDied(
                compiler_pb2.Failure(
                    reason=compiler_pb2.REASON_TIMEOUT,
                    message=f"the compile took over {seconds:g} s and was stopped",
                    remedy="raise --job-timeout, or compile with effort fast",
                    stage=current,
                    retryable=True,
                )
            ) from None
        except (EOFError, framing.FramingError) as error:
            noise = str(error) if isinstance(error, framing.FramingError) else ""
            raise SandboxDied(await self._obituary(current, noise)) from error
        finally:
            watch.cancel()

    async def _obituary(self, stage: str, noise: str = "") -> compiler_pb2.Failure:
        """Why the child is gone, with the end of its output."""
        try:
            code = await asyncio.wait_for(self._process.wait(), 5)
        except TimeoutError:
            code = None
        if self._over_memory:
            return compiler_pb2.Failure(
                reason=compiler_pb2.REASON_OUT_OF_MEMORY,
                message=(
                    f"the compile used {self._over_memory / 2**30:.1f} GiB, over the limit of "
                    f"{self._plan.limits.memory_bytes / 2**30:.1f} GiB, and was stopped"
                ),
                remedy="raise --memory-limit, or compile a smaller graph",
                stage=stage,
                retryable=True,
            )
        if noise:
            how = f"sent what is no message ({noise})"
        elif code is not None and code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        await asyncio.sleep(0)  # lets the last lines of output arrive
        tail = "\n".join(self._tail)
        return compiler_pb2.Failure(
            reason=compiler_pb2.REASON_CRASHED,
            message=f"the sandbox {how}" + (f"; its last words:\n{tail}" if tail else ""),
            remedy="the worker has replaced it; run `compile-farm doctor` if this recurs",
            stage=stage,
            retryable=True,
        )

    async def _watch_memory(self) -> None:
        """Kills the child when it and its descendants hold more than the limit.

        A limit on the address space would break CUDA, which maps far more than it uses.
        """
        try:
            child = psutil.Process(self._process.pid)
            while True:
                used = 0
                for process in (child, *child.children(recursive=True)):
                    try:
                        used += process.memory_info().rss
                    except psutil.NoSuchProcess:
                        continue
                if used > self._plan.limits.memory_bytes:
                    self._over_memory = used
                    os.killpg(self._process.pid, signal.SIGKILL)
                    return
                await asyncio.sleep(_MEMORY_INTERVAL)
        except (psutil.NoSuchProcess, ProcessLookupError):
            return

    async def _read_output(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # a line longer than the buffer
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()[:500]
            self._tail.append(text.replace(str(self._plan.work_dir), "."))
            log.debug("sandbox: %s", text)
