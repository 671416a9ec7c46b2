"""A sandbox, seen from the worker: one child process, its messages, its limits and its end.

In: a compile request. Out: a manifest, a Failure, or SandboxDied with what killed it. Whatever the
child sends is only believed as far as the schema goes; noise on the socket counts as a crash.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from compile_farm.v1 import artifact_pb2, compiler_pb2, sandbox_pb2
from compiler_service.worker import death, framing, replies
from compiler_service.worker.family import Family
from compiler_service.worker.last_words import LastWords
from compiler_service.worker.plan import SandboxPlan

log = logging.getLogger(__name__)

StageListener = Callable[[compiler_pb2.Stage], None]

_MEMORY_INTERVAL = 0.5
# Between the end of a child's socket and its own.
_EXIT_SECONDS = 2.0


class SandboxDied(Exception):
    """The child is gone. ``failure`` says why, for the client."""

    def __init__(self, failure: compiler_pb2.Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Sandbox:
    """A running child. Made by ``start``; ended by ``kill``, which must always be called."""

    def __init__(
        self,
        plan: SandboxPlan,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        last_words: LastWords,
        temporary: Path,
    ) -> None:
        self._plan = plan
        self._process = process
        self._reader, self._writer = reader, writer
        self._last_words = last_words
        self._temporary = temporary
        self._family = Family(process.pid)
        self._end = asyncio.create_task(self._await_end())
        self._over_memory = 0
        self.hello = sandbox_pb2.SandboxHello()
        self.jobs = 0

    @classmethod
    async def start(cls, plan: SandboxPlan, temporary: Path) -> Sandbox:
        """Starts a child and waits for its Hello; raises SandboxDied.

        ``temporary`` is an empty folder for its temporary files, removed with the child.
        """
        try:
            sandbox = await _spawn(plan, temporary)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise SandboxDied(death.not_started(error)) from error
        try:
            reply = await sandbox._converse(
                None, "hello", plan.limits.start_seconds, death.START, lambda stage: None
            )
            if reply.WhichOneof("kind") == "failure":
                sandbox._last_words.drain()
                log.warning("a child failed; its last words:\n%s", sandbox._last_words.text())
                raise SandboxDied(reply.failure)
        except BaseException:
            await sandbox.kill()
            raise
        sandbox.hello = reply.hello
        return sandbox

    async def compile(
        self, request: sandbox_pb2.SandboxCompile, on_stage: StageListener
    ) -> artifact_pb2.Manifest | compiler_pb2.Failure:
        """One job; raises SandboxDied if the child did not survive it.

        After any other exception, cancellation too, the child is in the middle of something: kill
        it.
        """
        self.jobs += 1
        seconds = self._plan.limits.job_seconds
        reply = await self._converse(request, "done", seconds, "", on_stage)
        return reply.failure if reply.WhichOneof("kind") == "failure" else reply.done

    async def kill(self) -> None:
        """Ends the child and every process that it started, and removes its temporary files."""
        await asyncio.to_thread(self._family.end)
        await asyncio.shield(self._end)
        self._last_words.close()
        self._writer.close()
        await asyncio.to_thread(shutil.rmtree, self._temporary, ignore_errors=True)

    @property
    def alive(self) -> bool:
        """Whether the child runs."""
        return self._process.returncode is None

    def on_end(self, call: Callable[[], object]) -> None:
        """Calls this when the child has ended, for whatever reason."""
        self._end.add_done_callback(lambda _: call())

    async def _converse(
        self,
        request: sandbox_pb2.SandboxCompile | None,
        answer: str,
        seconds: float,
        stage: str,
        on_stage: StageListener,
    ) -> sandbox_pb2.SandboxReply:
        """Sends a request, and returns the reply of the kind ``answer``, or a failure.

        Watches the time and the memory meanwhile; ``stage`` is what the child is doing at first.
        """
        watch = asyncio.create_task(self._watch_memory())
        current, told = stage, compiler_pb2.Stage()
        try:
            async with asyncio.timeout(seconds):
                if request is not None:
                    self._writer.write(framing.encode(request))
                    await self._writer.drain()
                for _ in range(replies.MAX_STAGES):
                    reply = await framing.read(self._reader, sandbox_pb2.SandboxReply())
                    kind = reply.WhichOneof("kind")
                    if kind == answer:
                        return reply
                    if kind == "failure":
                        # An exception does not know its stage; what was told last does.
                        where = f"{stage} {reply.failure.stage or told.name}".strip()
                        failure = replies.tidy_failure(reply.failure, where)
                        return sandbox_pb2.SandboxReply(failure=failure)
                    if kind != "stage":
                        raise framing.FramingError(f"{kind or 'nothing'} where {answer} was due")
                    told = replies.tidy_stage(reply.stage)
                    current = f"{stage} {told.name}".strip()
                    on_stage(told)
                raise framing.FramingError(f"over {replies.MAX_STAGES} stages")
        except TimeoutError:
            await asyncio.to_thread(self._family.end)
            raise SandboxDied(death.timed_out(seconds, current)) from None
        except (EOFError, ConnectionError) as error:
            raise SandboxDied(await self._obituary(current, "")) from error
        except framing.FramingError as error:
            raise SandboxDied(await self._obituary(current, str(error))) from error
        finally:
            watch.cancel()

    async def _obituary(self, stage: str, noise: str) -> compiler_pb2.Failure:
        """Ends what is left of the child; why it is gone, with the end of its output."""
        if not noise:
            await asyncio.wait({self._end}, timeout=_EXIT_SECONDS)
        code = self._process.returncode
        await asyncio.to_thread(self._family.end)
        await asyncio.shield(self._end)
        if self._over_memory:
            return death.out_of_memory(self._over_memory, self._plan.limits.memory_bytes, stage)
        self._last_words.drain()
        return death.crashed(code, noise, stage, self._last_words.text())

    async def _await_end(self) -> None:
        """Waits for the child, and ends what it leaves behind at once."""
        await self._process.wait()
        await asyncio.to_thread(self._family.end)

    async def _watch_memory(self) -> None:
        """Ends the child when it and its descendants hold more than the limit.

        A limit on the address space would break CUDA, which maps far more than it uses.
        """
        while True:
            used = await asyncio.to_thread(self._family.resident_bytes)
            if used > self._plan.limits.memory_bytes:
                self._over_memory = used
                await asyncio.to_thread(self._family.end)
                return
            await asyncio.sleep(_MEMORY_INTERVAL)


async def _spawn(plan: SandboxPlan, temporary: Path) -> Sandbox:
    """A child whose Hello is still to come; raises OSError."""
    ours, theirs = socket.socketpair()
    output, output_of_child = os.pipe()
    last_words = LastWords(output)
    try:
        process = await asyncio.create_subprocess_exec(
            *plan.command(theirs.fileno()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output_of_child,
            stderr=output_of_child,
            env=plan.environment(temporary),
            cwd=plan.work_dir,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        last_words.close()
        raise
    finally:
        theirs.close()
        os.close(output_of_child)
    reader, writer = await asyncio.open_connection(sock=ours)
    return Sandbox(plan, process, reader, writer, last_words, temporary)
