"""A GPU that a confined child can't use: the worker works, and says what it gave up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from compile_farm.v1 import compiler_pb2
from compiler_service.security.signing import SigningKey
from compiler_service.worker.plan import SandboxPlan
from compiler_service.worker.sandbox import Sandbox, SandboxDied
from compiler_service.worker.worker import SandboxWorker
from tests.sandboxes import LIMITS, failure, fake_compiler, running


def _plan(device: str, work_dir: Path) -> SandboxPlan:
    return SandboxPlan(device, work_dir, LIMITS, child_module="tests.shy_child")


def _folder(parent: Path) -> Path:
    folder = parent / "temporary"
    folder.mkdir(mode=0o700)
    return folder


async def test_a_gpu_worker_starts_unconfined_where_it_must_and_says_so(tmp_path: Path) -> None:
    sandbox = await Sandbox.start(_plan("cuda:0", tmp_path), _folder(tmp_path))
    try:
        assert any("not confined" in note for note in sandbox.hello.notes)
    finally:
        await sandbox.kill()


async def test_a_cpu_worker_never_does(tmp_path: Path) -> None:
    with pytest.raises(SandboxDied):
        await Sandbox.start(_plan("cpu", tmp_path), _folder(tmp_path))


async def test_what_takes_too_long_is_not_tried_unconfined(tmp_path: Path) -> None:
    limits = replace(LIMITS, start_seconds=0.01)
    plan = replace(_plan("cuda:0", tmp_path), limits=limits)
    with pytest.raises(SandboxDied) as caught:
        await Sandbox.start(plan, _folder(tmp_path))
    assert caught.value.failure.reason == compiler_pb2.REASON_TIMEOUT


async def test_once_confined_always_confined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a graph could damage the caches and have its successor read the signing key."""
    fake_compiler(tmp_path, monkeypatch)
    worker = SandboxWorker(
        "gpu",
        device="cuda:0",
        signing_key=SigningKey(bytes(32)),
        work_dir=tmp_path / "worker",
        limits=LIMITS,
        child_module="tests.shy_child",
    )
    bold = tmp_path / "worker" / "bold"
    bold.parent.mkdir()
    bold.touch()
    async with running(worker):
        assert worker.status().state == "idle", worker.status().problem
        bold.unlink()  # as a graph could, whose folder this is
        await failure(worker, "exit_with:1")
        while worker.status().state != "unhealthy":
            await asyncio.sleep(0.01)
        assert "no GPU in here" in worker.status().problem
