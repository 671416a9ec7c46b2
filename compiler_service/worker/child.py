"""The sandboxed child: compiles what it is sent, one request after the other.

In: SandboxCompile messages on an inherited socket. Out: stages, and a manifest or a failure for
each. It holds no secret and has no network; whatever a graph makes it do ends with this process.
Run as ``python -m compiler_service.worker.child ARGUMENTS`` (see plan.ChildArguments).
"""

from __future__ import annotations

import shutil
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from compile_farm.v1 import artifact_pb2, compiler_pb2, sandbox_pb2, target_pb2
from compiler_service.engine.errors import in_words, ran_out_of_memory
from compiler_service.worker import framing
from compiler_service.worker.isolation import isolate
from compiler_service.worker.plan import ChildArguments

StageListener = Callable[[compiler_pb2.Stage], None]


@dataclass(frozen=True)
class Compiler:
    """What the loop calls. ``warm_up`` takes the device and returns its target; both may raise."""

    warm_up: Callable[[str, StageListener], target_pb2.Target]
    compile: Callable[[sandbox_pb2.SandboxCompile, StageListener], artifact_pb2.Manifest]


def main(arguments: list[str], compiler: Compiler | None = None) -> int:
    """The child's whole life; without a ``compiler``, with the engine."""
    given = ChildArguments.from_text(arguments[0])
    connection = socket.socket(fileno=given.descriptor)
    # What it starts must not hold the connection open after its end.
    connection.set_inheritable(False)
    notes = isolate(given)
    begin = time.perf_counter()
    try:
        compiler = compiler or _engine(given.libraries)
        target = compiler.warm_up(given.device, _teller(connection))
    except Exception as error:
        _send(connection, sandbox_pb2.SandboxReply(failure=failure_of(error)))
        return 1
    hello = sandbox_pb2.SandboxHello(target=target, seconds=time.perf_counter() - begin)
    hello.notes.extend(notes)
    _send(connection, sandbox_pb2.SandboxReply(hello=hello))
    while True:
        try:
            request = framing.read_blocking(connection, sandbox_pb2.SandboxCompile())
        except EOFError:
            return 0
        _send(connection, _answer(connection, request, compiler))


def _engine(libraries: Sequence[str]) -> Compiler:
    from compiler_service.engine.compile import compile_capture
    from compiler_service.engine.libraries import load_libraries
    from compiler_service.engine.target import worker_target
    from compiler_service.engine.warm import warm_up

    def warm(device: str, on_stage: StageListener) -> target_pb2.Target:
        target = worker_target(device)
        load_libraries(libraries)
        warm_up(target, on_stage)
        return target

    return Compiler(warm, compile_capture)


def _teller(connection: socket.socket) -> StageListener:
    return lambda stage: _send(connection, sandbox_pb2.SandboxReply(stage=stage))


def _answer(
    connection: socket.socket, request: sandbox_pb2.SandboxCompile, compiler: Compiler
) -> sandbox_pb2.SandboxReply:
    try:
        manifest = compiler.compile(request, _teller(connection))
        return sandbox_pb2.SandboxReply(done=manifest)
    except Exception as error:
        for left in Path(request.output_dir).iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        return sandbox_pb2.SandboxReply(failure=failure_of(error))


def failure_of(error: Exception) -> compiler_pb2.Failure:
    """The typed Failure that an engine's error carries, or one that says what broke and where."""
    carried = getattr(error, "failure", None)
    if isinstance(carried, compiler_pb2.Failure):
        return carried
    traceback.print_exc()
    memory = ran_out_of_memory(error)
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_OUT_OF_MEMORY if memory else compiler_pb2.REASON_COMPILER_ERROR,
        message=f"the compiler failed: {in_words(error)}",
        remedy="the model runs eager meanwhile",
    )


def _send(connection: socket.socket, reply: sandbox_pb2.SandboxReply) -> None:
    connection.sendall(framing.encode(reply))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
