"""A GPU that a confined child can't use: the worker works, and says what it gave up."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler_service.worker.plan import SandboxPlan
from compiler_service.worker.sandbox import Sandbox, SandboxDied
from tests.sandboxes import LIMITS


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
