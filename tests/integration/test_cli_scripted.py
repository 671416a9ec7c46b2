"""The command line against a farm whose answers a test writes: each outcome and its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compile_farm.artifact import digest_of, unpack
from compile_farm.cli import main
from compile_farm.targets import host_target
from compile_farm.trust import TrustStore
from compile_farm.v1 import artifact_pb2, compiler_pb2, target_pb2
from tests.loadable import PUBLIC_KEY, ROOT, artifact_bytes
from tests.scripted_farm import ScriptedFarm, done, failure, queued, stage

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

MODEL = """
from tests.loadable import example
def make():
    print("a word of the model's own")
    model, args, kwargs, dynamic_shapes = example("affine")
    return dict(model=model, args=args, kwargs=kwargs, dynamic_shapes=dynamic_shapes)
"""


@pytest.fixture
def server() -> Iterator[ScriptedFarm]:
    with ScriptedFarm([PUBLIC_KEY], [host_target("cpu")]) as farm:
        yield farm


@pytest.fixture
def ref(server: ScriptedFarm) -> artifact_pb2.ArtifactRef:
    data = artifact_bytes("affine")
    return server.add(unpack(data).manifest.key, data)


@pytest.fixture(autouse=True)
def environment(
    server: ScriptedFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.setenv("COMPILE_FARM_URL", server.url)
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "cache"))
    path = list(sys.path)
    yield
    sys.path[:] = path


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "model.py").write_text(MODEL)
    return f"{tmp_path / 'model.py'}:make"


def test_compile_prints_the_key_and_each_stage(
    server: ScriptedFarm,
    ref: artifact_pb2.ArtifactRef,
    model: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.compiles = [[queued(2), stage("lower", 0.25), stage("verify", 0.8), done(ref)]]
    assert main(["compile", model]) == 0
    said = capsys.readouterr()
    assert ref.key in said.out
    assert ref.digest in said.out
    assert "compiled" in said.out
    progress = [line for line in said.err.splitlines() if "%" in line]
    assert progress == ["  0% queued, position 2", " 25% lower", " 80% verify"]
    # What the model prints is not mixed with results.
    assert "the model's own" in said.err
    assert "the model's own" not in said.out


def test_compile_as_json_and_again_from_the_local_cache(
    server: ScriptedFarm,
    ref: artifact_pb2.ArtifactRef,
    model: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.compiles = [[done(ref, hit=True)]]
    for _ in range(2):
        assert main(["compile", model, "--json"]) == 0
        given = json.loads(capsys.readouterr().out)
        assert given["key"] == ref.key
        assert given["digest"] == ref.digest
        assert given["code_bytes"] > 1000
        assert given["hit"] is True
    assert server.calls.count("Compile") == 1


def test_out_writes_the_signed_zip(
    server: ScriptedFarm,
    ref: artifact_pb2.ArtifactRef,
    model: str,
    tmp_path: Path,
) -> None:
    server.compiles = [[done(ref)]]
    assert main(["compile", model, "--out", str(tmp_path / "affine.zip")]) == 0
    data = (tmp_path / "affine.zip").read_bytes()
    assert digest_of(data) == ref.digest
    unpack(data, TrustStore([PUBLIC_KEY]).verify)


def test_effort_and_numerics_are_sent(
    server: ScriptedFarm, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.compiles = [[failure(compiler_pb2.REASON_TIMEOUT, "too slow")]]
    assert main(["compile", model, "--effort", "tuned", "--numerics", "fast"]) == 1
    (request,) = server.requests
    assert request.options.effort == target_pb2.EFFORT_TUNED
    assert request.options.numerics == target_pb2.NUMERICS_FAST
    assert "compile failed (timeout): too slow" in capsys.readouterr().err


def test_a_model_that_cannot_be_captured_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.py").write_text(
        "import torch\n"
        "class Odd(torch.nn.Module):\n"
        "    def forward(self, x): return x if x.sum() > 0 else -x\n"
        "def make(): return Odd(), (torch.ones(2),)\n"
    )
    assert main(["compile", f"{tmp_path}/odd.py:make"]) == 1
    said = capsys.readouterr().err
    assert "error: " in said
    assert "Traceback" not in said


def test_report_by_the_first_digits(
    ref: artifact_pb2.ArtifactRef, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", ref.key[:10]]) == 0
    said = capsys.readouterr().out
    for words in (ref.key, "at the peak", "buffers allocated", "eager's own", "KERNEL", "stages"):
        assert words in said
    assert main(["report", ref.key, "--json"]) == 0
    given = json.loads(capsys.readouterr().out)
    assert given["key"] == ref.key
    assert given["report"]["kernels"]


def test_report_of_a_key_that_is_not_there_is_1_and_of_two_is_2(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = "0" * 64 if ref.key[0] != "0" else "1" * 64
    assert main(["report", absent]) == 1
    assert main(["report", absent[:5]]) == 1
    server.index[absent[:1] + "a" * 63] = ref
    server.index[absent[:1] + "b" * 63] = ref
    assert main(["report", absent[:1]]) == 2
    assert "give more digits" in capsys.readouterr().err


def test_artifacts_lists_all_pages_up_to_the_limit(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, capsys: pytest.CaptureFixture[str]
) -> None:
    for digit in "abcd":
        server.index[digit * 64] = ref
    assert main(["artifacts", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 5
    assert main(["artifacts", "--limit", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 3


def test_status_of_a_farm_without_workers_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 1
    assert "version scripted" in capsys.readouterr().out


def test_an_artifact_of_a_stranger_is_1(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", ref.key, "--trust", "00" * 32]) == 1
    assert "trust" in capsys.readouterr().err


# A shell starts what runs in its background with Ctrl-C ignored, and so would the tests' own child.
_AT_A_TERMINAL = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from compile_farm.cli import main
sys.exit(main())
"""


def interrupted(arguments: list[str], running: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command line and presses Ctrl-C once ``running()``."""
    with subprocess.Popen(
        [sys.executable, "-c", _AT_A_TERMINAL, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 120
        while not running() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # else one that does not end fails the tests after this one too
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def test_ctrl_c_cancels_the_job_and_is_130(server: ScriptedFarm, model: str) -> None:
    server.compiles = [[queued(1), stage("lower", 0.1), threading.Event()]]
    ended = interrupted(["compile", model], lambda: "Compile" in server.calls)
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "interrupted" in ended.stderr
    assert "Cancel" in server.calls
