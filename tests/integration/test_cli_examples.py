"""The examples, run as their README says, against a real farm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compile_farm.cli import main
from tests.farms import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def run_example(environment: dict[str, str], name: str, *arguments: str) -> str:
    """Its output; fails with its errors."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name, *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_compile_in_one_process_load_in_another(fresh_client_environment: dict[str, str]) -> None:
    key = run_example(fresh_client_environment, "ahead_of_time.py").strip()
    said = run_example(fresh_client_environment, "fresh_process.py", key)
    assert said.count("as eager") == 3


def test_the_command_line_gets_the_same_key_as_the_program(
    fresh_client_environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = run_example(fresh_client_environment, "ahead_of_time.py").strip()
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "another"))
    url = fresh_client_environment["COMPILE_FARM_URL"]
    assert main(["compile", f"{ROOT / 'examples' / 'model.py'}:make", "--url", url]) == 0
    said = capsys.readouterr().out
    assert key in said
    assert "a hit" in said


def test_torch_compile(fresh_client_environment: dict[str, str]) -> None:
    said = run_example(fresh_client_environment, "torch_compile.py").splitlines()
    assert said[-1].startswith("ready: ")
