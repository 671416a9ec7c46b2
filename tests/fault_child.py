"""A child like the real one, whose compile does what the job's id says: dies, stalls, lies.

Run in the place of ``compiler_service.worker.child``; the loop, the messages and the isolation are
the real ones. "good" leaves an artifact. A job "NAME:ARGUMENT" calls the function of that name.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from compile_farm.v1 import artifact_pb2, compiler_pb2, graph_pb2, sandbox_pb2, target_pb2
from compiler_service.worker import child, framing
from compiler_service.worker.plan import ChildArguments
from tests import captures

Manifest = artifact_pb2.Manifest
Fault = Callable[[sandbox_pb2.SandboxCompile, str], Manifest]

CODE = b"\x7fELF, as far as a worker looks"


def _raw(data: bytes) -> None:
    """Writes past the loop, straight onto the socket."""
    descriptor = ChildArguments.from_text(sys.argv[1]).descriptor
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.sendall(data)


def good(request: sandbox_pb2.SandboxCompile, argument: str = "") -> Manifest:
    """What the engine would leave, with other code."""
    (Path(request.output_dir) / "model.so").write_bytes(CODE)
    capture = graph_pb2.Capture.FromString(request.capture)
    return Manifest(
        schema_version=1,
        key=request.key,
        signature=capture.signature,
        calling_convention=capture.calling_convention,
        target=request.target,
        options=request.options,
        files=[artifact_pb2.File(name="model.so")],
        compiled_inputs=[
            artifact_pb2.CompiledInput(input=index)
            for index in range(len(capture.signature.inputs))
        ],
        compiled_outputs=range(len(capture.signature.outputs)),
    )


def segfault(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    print("about to read address 0 in /some/where/deep/inside/kernel.cpp", flush=True)
    ctypes.string_at(0)
    raise AssertionError("reading address 0 worked")


def kill(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    os.kill(os.getpid(), int(argument))
    time.sleep(60)
    raise AssertionError("outlived the signal")


def exit_with(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    os._exit(int(argument))


def sleep(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    time.sleep(600)
    return good(request)


def eat_memory(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    held = bytearray(int(argument))
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(600)
    return good(request)


def eat_memory_elsewhere(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    """In a descendant that leaves the process group, as a compiler daemon would."""
    code = f"import time\nheld = b'x' * {int(argument)}\ntime.sleep(600)"
    started = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    Path("descendant").write_text(str(started.pid))
    started.wait()
    return good(request)


def leave_descendants(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    """Starts a compiler that holds our output open, tells its id in a file, and dies."""
    started = subprocess.Popen(["sleep", "600"])
    Path("descendant").write_text(str(started.pid))
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("outlived SIGKILL")


def raise_error(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    if request.output_dir:
        (Path(request.output_dir) / "half").mkdir()
        (Path(request.output_dir) / "half" / "done").write_text("x")
    errors = {
        "memory": MemoryError(),
        "recursion": RecursionError("too deep"),
        "": AssertionError(),
    }
    raise errors[argument]


def garbage(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    _raw(b"\x00\x00\x00\x08\xff\xff\xff\xff\xff\xff\xff\xff")
    return sleep(request, "")


def oversize(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    _raw((framing.MAX_MESSAGE_BYTES + 1).to_bytes(4, "big"))
    return sleep(request, "")


def empty_message(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    _raw(bytes(4))
    return sleep(request, "")


def second_hello(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    _raw(framing.encode(sandbox_pb2.SandboxReply(hello=sandbox_pb2.SandboxHello())))
    return sleep(request, "")


def half_a_message(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    _raw((100).to_bytes(4, "big") + b"half")
    os._exit(0)


def hang_up(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    """Closes its connection and lives on."""
    descriptor = ChildArguments.from_text(sys.argv[1]).descriptor
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)
    return sleep(request, "")


def flood(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    """Stages without an end."""
    stage = compiler_pb2.Stage(name="x" * 1000, fraction=float("nan"), detail="y" * 1000)
    message = framing.encode(sandbox_pb2.SandboxReply(stage=stage))
    while True:
        _raw(message)


def lie(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    """A manifest of something else than was asked for."""
    manifest = good(request)
    changes: dict[str, Callable[[], object]] = {
        "key": lambda: setattr(manifest, "key", "0" * 64),
        "signature": lambda: manifest.signature.inputs.pop(),
        "target": lambda: manifest.target.CopyFrom(captures.target(isa="x86-64-v4")),
        "options": lambda: setattr(manifest.options, "effort", target_pb2.EFFORT_TUNED),
        "positions": lambda: manifest.compiled_outputs.append(7),
        "schema": lambda: setattr(manifest, "schema_version", 9),
        "no files": lambda: manifest.files.pop(),
        "twice": lambda: manifest.files.add(name="model.so"),
        "path": lambda: manifest.files.add(name="../../../keys/signing.key"),
        "nul": lambda: manifest.files.add(name="model.so\0"),
        "envelope": lambda: manifest.files.add(name="signature.pb"),
        "missing": lambda: manifest.files.add(name="model.json"),
    }
    changes[argument]()
    return manifest


def lie_with_files(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    """The right manifest over a file that is none of the child's, or none at all."""
    manifest, output = good(request), Path(request.output_dir)
    code = output / "model.so"
    kind, _, path = argument.partition("=")
    if kind == "swap":
        output.rename(output.with_name("moved"))
        output.symlink_to(path)
        (output.with_name("moved") / "model.so").unlink()
        return manifest
    code.unlink()
    if kind == "symlink":
        code.symlink_to(path)
    elif kind == "hardlink":
        other = output.parent / "other"
        other.write_bytes(CODE)
        code.hardlink_to(other)
    elif kind == "pipe":
        os.mkfifo(code)
    elif kind == "folder":
        code.mkdir()
    return manifest


def attempt(request: sandbox_pb2.SandboxCompile, argument: str) -> Manifest:
    """Runs Python code, and leaves what came of it as JSON in the worker's folder."""
    found: dict[str, object] = {}
    try:
        exec(argument, {"found": found, "request": request})
    except OSError as error:
        found["error"] = type(error).__name__
    Path("found.json").write_text(json.dumps(found))
    return good(request)


_FAULTS: dict[str, Fault] = {
    name: value
    for name, value in globals().copy().items()
    if callable(value) and getattr(value, "__module__", "") == __name__ and name[0] != "_"
}


def warm_up(device: str, on_stage: child.StageListener) -> target_pb2.Target:
    """Fails as the device's name says: "fail:STAGE:NAME", "unless:FILE", "cpu" for not at all."""
    kind, _, rest = device.partition(":")
    if kind == "fail":
        stage, _, fault = rest.partition(":")
        on_stage(compiler_pb2.Stage(name=stage))
        name, _, argument = fault.partition(":")
        _FAULTS[name](sandbox_pb2.SandboxCompile(), argument)
    if kind == "unless" and not Path(rest).exists():
        raise RuntimeError(f"{rest} is not there")
    return captures.target()


def compile_capture(request: sandbox_pb2.SandboxCompile, on_stage: child.StageListener) -> Manifest:
    """Does what the job's id says."""
    on_stage(compiler_pb2.Stage(name="lower", fraction=0.1))
    name, _, argument = request.job_id.partition(":")
    return _FAULTS[name](request, argument)


if __name__ == "__main__":
    sys.exit(child.main(sys.argv[1:], child.Compiler(warm_up, compile_capture)))
