"""A GPU that a confined child can't use: no worker, until the operator says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler_service.security.signing import SigningKey
from compiler_service.worker.worker import SandboxWorker
from tests.sandboxes import LIMITS, fake_compiler, running


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake_compiler(tmp_path, monkeypatch)
    return tmp_path / "worker"


def _worker(device: str, folder: Path, *, confined: bool = True) -> SandboxWorker:
    return SandboxWorker(
        "local",
        device=device,
        signing_key=SigningKey(bytes(32)),
        work_dir=folder,
        limits=LIMITS,
        confined=confined,
        child_module="tests.shy_child",
    )


async def test_a_gpu_worker_says_what_the_operator_may_allow(folder: Path) -> None:
    async with running(_worker("cuda:0", folder)) as worker:
        status = worker.status()
    assert status.state == "unhealthy"
    assert "no GPU in here" in status.problem
    assert "--unconfined" in status.problem


async def test_allowed_it_works_and_says_what_it_gave_up(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(_worker("cuda:0", folder, confined=False)) as worker:
        assert worker.status().state == "idle", worker.status().problem
    assert "can read and write what its user can" in caplog.text


async def test_a_cpu_worker_is_not_told_to_try_it(folder: Path) -> None:
    async with running(_worker("cpu", folder)) as worker:
        status = worker.status()
    assert status.state == "unhealthy"
    assert "--unconfined" not in status.problem
