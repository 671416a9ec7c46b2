"""The command line against a real farm: serve, compile, status, artifacts, report, doctor."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compile_farm.cli import main
from tests.farms import ROOT, RunningFarm, prepare_worker_dir

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

MODEL = """
import torch
class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(24, 8)
    def forward(self, x):
        return torch.relu(self.linear(x)).sum(-1)
def make():
    batch = torch.export.Dim("batch", min=2, max=32)
    return dict(model=Small().eval(), args=(torch.randn(4, 24),), dynamic_shapes=({0: batch},))
"""


@pytest.fixture
def at_the_farm(
    farm_server: RunningFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The session's farm in the environment; where the model is."""
    monkeypatch.setenv("COMPILE_FARM_URL", farm_server.address)
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "small.py").write_text(MODEL)
    path = list(sys.path)
    yield f"{tmp_path / 'small.py'}:make"
    sys.path[:] = path


def test_compile_then_look_at_it(at_the_farm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", at_the_farm, "--json"]) == 0
    key = json.loads(capsys.readouterr().out)["key"]

    assert main(["artifacts", "--limit", "1000", "--json"]) == 0
    (mine,) = (one for one in json.loads(capsys.readouterr().out) if one["key"] == key)
    assert mine["size"] > 0

    assert main(["report", key]) == 0
    report = capsys.readouterr().out
    assert "relu" in report
    assert "at sizes [32]" in report

    assert main(["status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["compiled"] >= 1
    assert [worker["name"] for worker in status["workers"]] == ["local"]

    assert main(["status"]) == 0
    assert re.search(r"^disk +up ", capsys.readouterr().out, flags=re.MULTILINE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_where_it_listens_and_stops_when_told(
    tmp_path: Path, number: signal.Signals
) -> None:
    prepare_worker_dir(tmp_path / "data" / "worker")
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; from compile_farm.cli import main; sys.exit(main())",
         "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--device", "cpu",
         "--job-timeout", "60", "--memory-limit", "4"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    try:
        assert re.fullmatch(r"listening on 127\.0\.0\.1:\d+\n", lines[0])
        assert lines[1].startswith("store: disk; data in ")
        assert re.match(r"signing key: [0-9a-f]{64} ", lines[2])
    finally:
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors


def test_serve_with_a_store_that_is_none_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--data", str(tmp_path), "--store", "bogus://x"]) == 2
    assert "bogus" in capsys.readouterr().err


def test_serve_at_a_port_that_is_taken_is_2(
    farm_server: RunningFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--data", str(tmp_path), "--listen", farm_server.address]) == 2
    assert farm_server.address in capsys.readouterr().err


def test_doctor_compiles_and_runs_a_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare_worker_dir(tmp_path / "worker")
    assert main(["doctor", "--device", "cpu", "--data", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] is True
    names = {check["name"] for check in report["checks"] if check["passed"]}
    assert {"Python", "torch", "disk", "C++ compiler", "compile, load and run"} <= names


def test_doctor_without_a_compiler_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert main(["doctor", "--device", "cpu", "--data", str(tmp_path / "data")]) == 1
    said = capsys.readouterr().out
    assert re.search(r"^FAIL  C\+\+ compiler: .*\n +what to do: ", said, flags=re.MULTILINE)
