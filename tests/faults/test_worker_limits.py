"""A job that takes too long or too much is stopped, also when it is cancelled; the next one works.

And a worker whose child can't be started says so, and comes back when it can.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from compile_farm.v1 import compiler_pb2
from compiler_service.worker.protocol import Built
from compiler_service.worker.worker import SandboxWorker
from tests import captures
from tests.sandboxes import (
    LIMITS,
    failure,
    fake_compiler,
    fault_worker,
    is_running,
    job,
    pid_of_child,
    run,
    running,
)

MIB = 1024**2


@pytest.fixture(autouse=True)
def quick_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here compiles."""
    fake_compiler(tmp_path, monkeypatch)


async def state_is(worker: SandboxWorker, state: str) -> None:
    """Waits until the worker is in a state."""
    while worker.status().state != state:
        await asyncio.sleep(0.01)


async def test_a_job_over_its_time_is_stopped(tmp_path: Path) -> None:
    async with running(fault_worker(tmp_path, limits=replace(LIMITS, job_seconds=2))) as worker:
        first = pid_of_child(tmp_path)
        told = await failure(worker, "sleep:")
        assert told.reason == compiler_pb2.REASON_TIMEOUT
        assert "took over 2 s" in told.message
        assert "'lower'" in told.message
        assert "--job-timeout" in told.remedy
        assert not is_running(first)
        assert isinstance(await run(worker, "good"), Built)


async def test_a_job_over_its_memory_is_stopped(tmp_path: Path) -> None:
    limits = replace(LIMITS, memory_bytes=300 * MIB)
    async with running(fault_worker(tmp_path, limits=limits)) as worker:
        told = await failure(worker, f"eat_memory:{400 * MIB}")
        assert told.reason == compiler_pb2.REASON_OUT_OF_MEMORY
        assert "over the limit of 0.3 GiB" in told.message
        assert isinstance(await run(worker, "good"), Built)


async def test_memory_of_descendants_counts_and_they_end_too(tmp_path: Path) -> None:
    limits = replace(LIMITS, memory_bytes=300 * MIB)
    async with running(fault_worker(tmp_path, limits=limits)) as worker:
        told = await failure(worker, f"eat_memory_elsewhere:{400 * MIB}")
        assert told.reason == compiler_pb2.REASON_OUT_OF_MEMORY
        assert isinstance(await run(worker, "good"), Built)
    # It had left the child's process group.
    descendant = int((tmp_path / "worker" / "descendant").read_text())
    while is_running(descendant):
        await asyncio.sleep(0.01)


async def test_cancelling_a_job_ends_its_child(tmp_path: Path) -> None:
    async with running(fault_worker(tmp_path)) as worker:
        first = pid_of_child(tmp_path)
        started = asyncio.Event()
        task = asyncio.create_task(worker.run(job("sleep:"), lambda _: started.set()))
        await started.wait()
        assert worker.status().state == "busy"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not is_running(first)
        assert isinstance(await run(worker, "good"), Built)


async def test_jobs_run_one_at_a_time(tmp_path: Path) -> None:
    async with running(fault_worker(tmp_path)) as worker:
        first = pid_of_child(tmp_path)
        outcomes = await asyncio.gather(*(run(worker, "good") for _ in range(5)))
        assert all(isinstance(outcome, Built) for outcome in outcomes)
        assert pid_of_child(tmp_path) == first


async def test_a_job_that_waits_for_another_can_be_cancelled(tmp_path: Path) -> None:
    async with running(fault_worker(tmp_path, limits=replace(LIMITS, job_seconds=2))) as worker:
        first = asyncio.create_task(failure(worker, "sleep:"))
        second = asyncio.create_task(run(worker, "good"))
        await asyncio.sleep(0.1)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert (await first).reason == compiler_pb2.REASON_TIMEOUT


async def test_a_child_is_replaced_after_its_number_of_jobs(tmp_path: Path) -> None:
    async with running(fault_worker(tmp_path, limits=replace(LIMITS, jobs_per_child=2))) as worker:
        seen = []
        for _ in range(4):
            outcome = await worker.run(
                job("good"), lambda stage: seen.append(pid_of_child(tmp_path))
            )
            assert isinstance(outcome, Built)
        # Two stages a job, two jobs a child.
        assert [seen.index(pid) for pid in seen] == [0] * 4 + [4] * 4


async def test_a_job_for_another_target_is_refused(tmp_path: Path) -> None:
    async with running(fault_worker(tmp_path)) as worker:
        asked = replace(job("good"), target=captures.target(isa="x86-64-v4"))
        told = await worker.run(asked, lambda _: None)
        assert isinstance(told, compiler_pb2.Failure)
        assert told.reason == compiler_pb2.REASON_NO_WORKER
        assert "x86-64-v3" in told.message
        assert "x86-64-v4" in told.message


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("fail::raise_error:recursion", "the compiler failed: RecursionError"),
        ("fail:verify:segfault", "crashed when it was loaded or run"),
        ("fail:lower:exit_with:4", "ended with exit code 4"),
        ("fail::garbage", "sent what is no message"),
        ("fail::sleep", "the self-test took over 2 s"),
    ],
)
async def test_a_worker_whose_self_test_fails_takes_no_work(
    tmp_path: Path, device: str, words: str
) -> None:
    seconds = 2 if device.endswith("sleep") else LIMITS.start_seconds
    limits = replace(LIMITS, start_seconds=seconds, restart_seconds=(600,))
    async with running(fault_worker(tmp_path, device=device, limits=limits)) as worker:
        status = worker.status()
        assert status.state == "unhealthy"
        assert words in status.problem
        told = await failure(worker, "good")
        assert told.reason == compiler_pb2.REASON_NO_WORKER
        assert words in told.message
        assert "compile-farm doctor" in told.remedy


async def test_a_worker_comes_back_when_the_cause_is_gone(tmp_path: Path) -> None:
    cause = tmp_path / "worker" / "cause"
    async with running(fault_worker(tmp_path, device=f"unless:{cause}")) as worker:
        assert worker.status().state == "unhealthy"
        assert "is not there" in worker.status().problem
        cause.touch()
        await state_is(worker, "idle")
        assert worker.status().problem == ""
        cause.unlink()
        await failure(worker, "segfault")
        await state_is(worker, "unhealthy")
        cause.touch()
        await state_is(worker, "idle")
        assert isinstance(await run(worker, "good"), Built)


async def test_a_worker_without_a_compiler_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "g++-of-tomorrow")
    async with running(fault_worker(tmp_path)) as worker:
        assert worker.status().state == "unhealthy"
        assert "there is no C++ compiler (g++-of-tomorrow)" in worker.status().problem
        assert "install g++" in worker.status().problem


async def test_a_folder_that_can_not_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "worker").write_text("a file")
    async with running(fault_worker(tmp_path)) as worker:
        assert worker.status().state == "unhealthy"
        assert "its folder can't be used" in worker.status().problem


async def test_stopping_ends_the_child(tmp_path: Path) -> None:
    async with running(fault_worker(tmp_path)):
        child = pid_of_child(tmp_path)
    assert not is_running(child)
