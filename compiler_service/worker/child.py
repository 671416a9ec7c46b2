"""The sandboxed child: compiles what it is sent, one request after the other.

In: SandboxCompile messages on an inherited socket. Out: stages, and a manifest or a failure for
each. It holds no secret and has no network; whatever a graph makes it do ends with this process.
Run as ``python -m compiler_service.worker.child FD DEVICE FILE_BYTES OPEN_FILES``.
"""

from __future__ import annotations

import shutil
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from compile_farm.v1 import artifact_pb2, compiler_pb2, sandbox_pb2
from compiler_service.worker import framing
from compiler_service.worker.isolation import isolate

StageListener = Callable[[compiler_pb2.Stage], None]
Compile = Callable[[sandbox_pb2.SandboxCompile, StageListener], artifact_pb2.Manifest]


def main(arguments: list[str], compile_capture: Compile | None = None) -> int:
    """The child's whole life; ``compile_capture`` replaces the engine's in tests of faults."""
    descriptor, device = int(arguments[0]), arguments[1]
    connection = socket.socket(fileno=descriptor)
    notes = isolate(int(arguments[2]), int(arguments[3]))
    try:
        hello = _warm_up(device) if compile_capture is None else sandbox_pb2.SandboxHello()
    except Exception as error:
        _send(connection, sandbox_pb2.SandboxReply(failure=failure_of(error, "self-test")))
        return 1
    hello.notes.extend(notes)
    _send(connection, sandbox_pb2.SandboxReply(hello=hello))
    compile_one = compile_capture or _engine()
    while True:
        try:
            request = framing.read_blocking(connection, sandbox_pb2.SandboxCompile())
        except EOFError:
            return 0
        _send(connection, _answer(connection, request, compile_one))


def _engine() -> Compile:
    from compiler_service.engine.compile import compile_capture

    return compile_capture


def _warm_up(device: str) -> sandbox_pb2.SandboxHello:
    from compiler_service.engine.target import worker_target
    from compiler_service.engine.warm import warm_up

    target = worker_target(device)
    begin = time.perf_counter()
    warm_up(target)
    return sandbox_pb2.SandboxHello(target=target, seconds=time.perf_counter() - begin)


def _answer(
    connection: socket.socket, request: sandbox_pb2.SandboxCompile, compile_capture: Compile
) -> sandbox_pb2.SandboxReply:
    def on_stage(stage: compiler_pb2.Stage) -> None:
        _send(connection, sandbox_pb2.SandboxReply(stage=stage))

    try:
        return sandbox_pb2.SandboxReply(done=compile_capture(request, on_stage))
    except Exception as error:
        for left in Path(request.output_dir).iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        return sandbox_pb2.SandboxReply(failure=failure_of(error, ""))


def failure_of(error: Exception, stage: str) -> compiler_pb2.Failure:
    """The typed Failure that an engine's error carries, or one that says what broke and where."""
    carried = getattr(error, "failure", None)
    if isinstance(carried, compiler_pb2.Failure):
        carried.stage = carried.stage or stage
        return carried
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].name} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"
    text = str(error).strip() or "it gave no message"
    traceback.print_exc()
    memory = isinstance(error, MemoryError)
    return compiler_pb2.Failure(
        reason=(
            compiler_pb2.REASON_OUT_OF_MEMORY if memory else compiler_pb2.REASON_COMPILER_ERROR
        ),
        message=f"the compiler failed: {type(error).__name__} in {place}: {text[:4000]}",
        remedy="the model runs eager meanwhile",
        stage=stage,
    )


def _send(connection: socket.socket, reply: sandbox_pb2.SandboxReply) -> None:
    connection.sendall(framing.encode(reply))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
