"""Workers with a real child process that follows the script of tests/fault_child.py."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from compile_farm.key import compute_key
from compile_farm.v1 import compiler_pb2
from compiler_service.security.signing import SigningKey
from compiler_service.worker.limits import Limits
from compiler_service.worker.protocol import Built, JobSpec
from compiler_service.worker.worker import SandboxWorker
from tests import captures

LIMITS = Limits(job_seconds=60, start_seconds=60, restart_seconds=(0.05,))

# Enough of a compiler for the worker's look at it, without the seconds that a real one takes.
_COMPILER = r"""#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
printf 'libstdc++.so.6\0' > "$out"
"""


def fake_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes CXX a compiler that pleases the worker at once."""
    path = folder / "quick-g++"
    path.write_text(_COMPILER)
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))


def fault_worker(
    folder: Path, *, device: str = "cpu", limits: Limits = LIMITS, key: SigningKey | None = None
) -> SandboxWorker:
    """A worker in ``folder``, not started."""
    return SandboxWorker(
        "faulty",
        device=device,
        signing_key=key or SigningKey(bytes(32)),
        work_dir=folder / "worker",
        limits=limits,
        child_module="tests.fault_child",
    )


@asynccontextmanager
async def running(worker: SandboxWorker) -> AsyncIterator[SandboxWorker]:
    """Starts a worker and stops it in the end."""
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


def job(script: str, rows: int = 4) -> JobSpec:
    """A job whose id tells the fault child what to do."""
    capture, target, options = captures.add_capture(rows), captures.target(), captures.options()
    key = compute_key(capture, target, options)
    return JobSpec(script, key, capture.SerializeToString(), target, options)


async def run(
    worker: SandboxWorker, script: str, stages: list[compiler_pb2.Stage] | None = None
) -> Built | compiler_pb2.Failure:
    """Runs one job."""
    return await worker.run(job(script), [].append if stages is None else stages.append)


async def failure(worker: SandboxWorker, script: str) -> compiler_pb2.Failure:
    """Runs a job that must fail."""
    outcome = await run(worker, script)
    assert isinstance(outcome, compiler_pb2.Failure), outcome
    return outcome


def is_running(pid: int) -> bool:
    """Whether there is a process of that number that is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def pid_of_child(folder: Path) -> int:
    """The process id of the child whose worker was made in ``folder``."""
    pids = [int(entry) for entry in os.listdir("/proc") if is_child_of(folder, entry)]
    assert len(pids) == 1, pids
    return pids[0]


def is_child_of(folder: Path, entry: str) -> bool:
    """Whether the process ``entry`` of /proc is that child."""
    try:
        command = Path("/proc", entry, "cmdline").read_bytes()
    except OSError:
        return False
    return b"tests.fault_child" in command and f"{folder}/worker".encode() in command
