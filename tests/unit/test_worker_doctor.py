"""The doctor's checks: each says what is wrong and what to do, and none passes by accident."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compiler_service.worker import gpu, preflight
from compiler_service.worker.cxx import CxxCompiler
from compiler_service.worker.doctor import run_doctor
from compiler_service.worker.limits import GIB


@pytest.mark.parametrize(
    ("version", "passed"),
    [((3, 10, 9), False), ((3, 11, 0), True), ((3, 13, 9), True), ((3, 14, 0), False)],
)
def test_python(version: tuple[int, int, int], passed: bool) -> None:
    check = preflight.python_check(version)
    assert check.passed == passed
    assert bool(check.remedy) != passed


@pytest.mark.parametrize(
    ("version", "passed"),
    [
        (None, False),
        ("2.10.1", False),
        ("2.11.0+cu130", True),
        ("2.13.0+cpu", True),
        ("2.14.1", True),
        ("2.15.0.dev20261201", False),
        ("nonsense", False),
    ],
)
def test_torch(version: str | None, passed: bool) -> None:
    check = preflight.torch_check(version)
    assert check.passed == passed
    assert bool(check.remedy) != passed


def test_disk(tmp_path: Path) -> None:
    assert preflight.disk_check(tmp_path, 100 * GIB).passed
    full = preflight.disk_check(tmp_path, GIB // 2)
    assert not full.passed
    assert "0.5 GiB free" in full.detail
    assert "--data" in full.remedy


def test_a_compiler_that_fails_is_a_failed_check(tmp_path: Path) -> None:
    checks = preflight.preflight(tmp_path, CxxCompiler("", "it is broken", "repair it"))
    failed = [check for check in checks if not check.passed]
    assert [(check.name, check.detail, check.remedy) for check in failed] == [
        ("C++ compiler", "it is broken", "repair it")
    ]


H200 = "NVIDIA H200"


@pytest.mark.parametrize(
    ("device", "cuda", "gpus", "triton", "failed", "words"),
    [
        ("auto", None, [], False, [], "this will be a CPU worker"),
        ("auto", "13.0", [H200], True, [], "NVIDIA H200, CUDA 13.0"),
        ("auto", "13.0", [H200], False, ["Triton"], "not installed"),
        ("cuda", "13.0", [H200], True, [], H200),
        ("cuda:1", "13.0", [H200, H200], True, [], H200),
        ("cuda:1", "13.0", [H200], True, ["GPU"], "torch sees 1: NVIDIA H200"),
        ("cuda:0", "13.0", [], True, ["GPU"], "built for CUDA 13.0, and sees no GPU"),
        ("cuda:0", None, [], False, ["GPU"], "built without CUDA"),
    ],
)
def test_gpu(
    device: str, cuda: str | None, gpus: list[str], triton: bool, failed: list[str], words: str
) -> None:
    checks = gpu.judge(device, {"cuda": cuda, "gpus": gpus, "triton": triton})
    assert [check.name for check in checks if not check.passed] == failed
    assert any(words in check.detail for check in checks)
    assert all(check.remedy for check in checks if not check.passed)


def test_a_torch_that_can_not_be_imported_is_told(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.13 is missing')")
    checks = gpu.gpu_checks("cuda:0", {"PYTHONPATH": str(tmp_path)})
    assert [check.passed for check in checks] == [False]
    assert "libcudart.so.13 is missing" in checks[0].detail


def test_what_torch_says_is_read(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "class cuda:\n"
        "    device_count = staticmethod(lambda: 1)\n"
        "    get_device_name = staticmethod(lambda index: 'a card')\n"
        "class version:\n"
        "    cuda = '13.0'\n"
        "print('a banner')\n"
    )
    (tmp_path / "triton.py").touch()
    checks = gpu.gpu_checks("cuda:0", {"PYTHONPATH": str(tmp_path)})
    assert [(check.name, check.passed) for check in checks] == [("GPU", True), ("Triton", True)]


def test_a_doctor_stops_at_what_the_rest_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "g++-of-tomorrow")
    report = run_doctor("cpu", tmp_path / "worker")
    assert not report.passed
    assert [check.name for check in report.checks] == ["Python", "torch", "disk", "C++ compiler"]
    assert "install g++" in report.checks[-1].remedy
    assert list((tmp_path / "worker" / "scratch").iterdir()) == []


def test_a_doctor_in_a_place_without_a_folder(tmp_path: Path) -> None:
    (tmp_path / "worker").write_text("a file")
    report = run_doctor("cpu", tmp_path / "worker")
    assert [(check.name, check.passed) for check in report.checks] == [("folder", False)]


def test_looking_imports_no_torch() -> None:
    code = (
        "import sys, compiler_service.worker.worker, compiler_service.worker.doctor\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
