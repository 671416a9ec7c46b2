"""A child that dies or says what it should not: its job fails with a reason, the next one works."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from compile_farm.v1 import compiler_pb2
from compiler_service.worker.protocol import Built
from compiler_service.worker.worker import SandboxWorker
from tests.sandboxes import (
    failure,
    fake_compiler,
    fault_worker,
    is_child_of,
    is_running,
    job,
    pid_of_child,
    run,
    running,
)

CRASHED = compiler_pb2.REASON_CRASHED


@pytest.fixture
async def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SandboxWorker]:
    """A worker that is ready."""
    fake_compiler(tmp_path, monkeypatch)
    async with running(fault_worker(tmp_path)) as started:
        assert started.status().state == "idle", started.status().problem
        yield started


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("segfault", "was ended by SIGSEGV"),
        (f"kill:{signal.SIGABRT}", "was ended by SIGABRT"),
        (f"kill:{signal.SIGRTMIN + 1}", f"was ended by signal {signal.SIGRTMIN + 1}"),
        (f"kill:{signal.SIGKILL}", "the host may be out of memory"),
        ("exit_with:0", "ended with exit code 0"),
        ("exit_with:3", "ended with exit code 3"),
        ("half_a_message", "ended with exit code 0"),
        ("garbage", "sent what is no message"),
        ("oversize", "over 83886080"),
        ("empty_message", "nothing where done was due"),
        ("second_hello", "hello where done was due"),
        ("hang_up", "closed its connection"),
        ("flood", "over 10000 stages"),
    ],
)
async def test_a_death_fails_its_job_and_no_other(
    worker: SandboxWorker, script: str, words: str
) -> None:
    told = await failure(worker, script)
    assert told.reason == CRASHED
    assert words in told.message
    assert told.stage
    assert told.retryable
    assert isinstance(await run(worker, "good"), Built)
    assert worker.status().state == "idle"


async def test_the_last_words_are_told_without_paths(worker: SandboxWorker) -> None:
    told = await failure(worker, "segfault")
    assert "about to read address 0 in .../inside/kernel.cpp" in told.message
    # Python's own report of the crash names the function.
    assert "in segfault" in told.message
    assert "/some/where" not in told.message
    assert str(Path(__file__).parent) not in told.message
    assert told.stage == "lower"


async def test_the_child_is_replaced_before_anybody_asks(
    worker: SandboxWorker, tmp_path: Path
) -> None:
    first = pid_of_child(tmp_path)
    await failure(worker, "segfault")
    assert worker.status().state == "idle"
    assert isinstance(await run(worker, "good"), Built)
    second = pid_of_child(tmp_path)
    assert first != second
    assert not is_running(first)
    # The same child does the next job: it stays warm.
    await run(worker, "good")
    assert pid_of_child(tmp_path) == second


async def test_an_idle_child_that_dies_costs_no_job(worker: SandboxWorker, tmp_path: Path) -> None:
    first = pid_of_child(tmp_path)
    os.kill(first, signal.SIGKILL)
    while is_running(first):
        await asyncio.sleep(0.01)
    while not any(is_child_of(tmp_path, entry) for entry in os.listdir("/proc")):
        await asyncio.sleep(0.01)  # replaced without a job that asks for it
    assert isinstance(await run(worker, "good"), Built)


async def test_what_a_dead_child_left_running_ends_too(
    worker: SandboxWorker, tmp_path: Path
) -> None:
    told = await failure(worker, "leave_descendants")
    assert "was ended by SIGKILL" in told.message
    descendant = int((tmp_path / "worker" / "descendant").read_text())
    while is_running(descendant):  # a signal takes a moment to arrive
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "reason", "words"),
    [
        ("raise_error:", compiler_pb2.REASON_COMPILER_ERROR, "it gave no message"),
        ("raise_error:recursion", compiler_pb2.REASON_COMPILER_ERROR, "too deep"),
        ("raise_error:memory", compiler_pb2.REASON_OUT_OF_MEMORY, "MemoryError"),
    ],
)
async def test_an_exception_is_told_in_words_and_the_child_lives_on(
    worker: SandboxWorker, tmp_path: Path, script: str, reason: compiler_pb2.Reason, words: str
) -> None:
    before = pid_of_child(tmp_path)
    told = await failure(worker, script)
    assert told.reason == reason
    assert words in told.message
    assert "in raise_error (tests/fault_child.py:" in told.message
    assert told.stage == "lower"
    assert isinstance(await run(worker, "good"), Built)
    assert pid_of_child(tmp_path) == before


async def test_an_assertion_without_a_message_names_its_type(worker: SandboxWorker) -> None:
    assert "AssertionError" in (await failure(worker, "raise_error:")).message


async def test_jobs_leave_no_files(worker: SandboxWorker, tmp_path: Path) -> None:
    for script in ("good", "raise_error:", "segfault", "good"):
        await run(worker, script)
    scratch = tmp_path / "worker" / "scratch"
    assert [path.name for path in scratch.rglob("job-*")] == []
    assert len(list(scratch.rglob("child-*"))) == 1
    await worker.stop()
    assert list(scratch.iterdir()) == []


async def test_stages_are_passed_on_within_bounds(worker: SandboxWorker) -> None:
    stages: list[compiler_pb2.Stage] = []
    await run(worker, "good", stages)
    assert [stage.name for stage in stages] == ["lower", "package"]
    flood: list[compiler_pb2.Stage] = []
    await run(worker, "flood", flood)
    assert (len(flood[1].name), len(flood[1].detail), flood[1].fraction) == (40, 200, 0.0)


async def test_a_listener_that_breaks_takes_no_later_job_with_it(worker: SandboxWorker) -> None:
    def broken(stage: compiler_pb2.Stage) -> None:
        raise RuntimeError("the listener broke")

    with pytest.raises(RuntimeError, match="the listener broke"):
        await worker.run(job("good"), broken)
    assert isinstance(await run(worker, "good"), Built)
