"""The command line without a farm: help, mistakes in commands, exit codes, JSON, broken pipes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from compile_farm.cli import COMMANDS, main
from compile_farm.cli.common import print_json, print_table, readable_bytes, readable_seconds
from compile_farm.v1 import artifact_pb2, compiler_pb2, target_pb2

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def outcome(*arguments: str) -> int:
    """The exit code, whether argparse or a command gave it."""
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_help_names_every_command_and_exit_code_and_loads_nothing_heavy() -> None:
    result = python(
        "import sys\n"
        "from compile_farm.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as ended: assert not ended.code\n"
        "heavy = {'torch', 'grpc', 'cryptography', 'zstandard', 'compiler_service'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    assert result.returncode == 0, result.stderr
    for word in (*COMMANDS, "130  interrupted", "3    the farm can't be reached"):
        assert word in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_exit_codes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(command, "--help") == 0
    assert "exit codes:" in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("--version") == 0
    assert capsys.readouterr().out == f"compile-farm {metadata.version('compile-farm')}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("bake",),
        ("compile",),
        ("compile", "model.py:make", "--effort", "max"),
        ("artifacts", "--limit", "0"),
        ("artifacts", "--limit", "-3"),
        ("serve", "--device", "gpu"),
        ("serve", "--device", "cuda:x"),
        ("serve", "--job-timeout", "0"),
        ("serve", "--job-timeout", "nan"),
        ("serve", "--memory-limit", "inf"),
        ("serve", "--listen", "8815"),
        ("doctor", "--device", "tpu"),
        ("status", "--url", "no address"),
        ("status", "--trust", "no key"),
        ("report", "not-hexadecimal"),
        ("compile", "model.py:make", "--out", "/no/such/folder/a.zip"),
    ],
)
def test_a_mistake_in_a_command_is_2_and_no_traceback(
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COMPILE_FARM_DATA", str(tmp_path / "data"))
    assert outcome(*arguments) == 2
    said = capsys.readouterr()
    assert "error" in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    "arguments",
    [("status",), ("artifacts",), ("report", "a" * 64), ("report", "a"), ("compile", "m.py:make")],
)
def test_a_farm_that_is_away_is_3_with_what_to_do(
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path))
    assert outcome(*arguments, "--url", "127.0.0.1:1") == 3
    assert "compile-farm serve" in capsys.readouterr().err


def test_the_address_comes_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path))
    monkeypatch.setenv("COMPILE_FARM_URL", "127.0.0.1:2")
    assert outcome("status") == 3
    assert "127.0.0.1:2" in capsys.readouterr().err


def test_without_the_server_extra_serve_and_doctor_say_what_to_install() -> None:
    """``redis`` and the others are hidden from the import system, as if never installed."""
    code = (
        "import sys\n"
        "for name in ('redis', 'boto3', 'psutil', 'grpc_health', 'grpc_reflection'):\n"
        "    sys.modules[name] = None\n"
        "from compile_farm.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for command in ("serve", "doctor"):
        result = python(code, command)
        assert result.returncode == 2, result.stderr
        assert "pip install 'compile-farm[server]'" in result.stderr
        assert "Traceback" not in result.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    code = (
        "import argparse, os, sys, compile_farm.cli as cli\n"
        "import compile_farm.cli.status as status\n"
        "def run(given):\n"
        "    for _ in range(100000): print('a line')\n"
        "    return 0\n"
        "status.run = run\n"
        "sys.exit(cli.main(['status']))\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.readline()
    writer.stdout.close()
    errors = writer.stderr.read()
    writer.stderr.close()
    assert writer.wait(60) == 0
    assert errors == b""


def printed(value: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    print_json(value)
    return json.loads(capsys.readouterr().out)


def test_json_keeps_zeros_numbers_and_names(capsys: pytest.CaptureFixture[str]) -> None:
    status = compiler_pb2.GetStatusResponse(
        version="1",
        compiled=2**53 - 1,
        failures=[compiler_pb2.ReasonCount(reason=compiler_pb2.REASON_TIMEOUT, count=3)],
        workers=[compiler_pb2.WorkerStatus(name="local")],
    )
    given = printed(status, capsys)
    assert given["compiled"] == 2**53 - 1
    assert given["hits"] == 0
    assert given["jobs"] == []
    assert given["failures"] == [{"reason": "REASON_TIMEOUT", "count": 3}]
    assert "target" not in given["workers"][0]


def test_json_of_maps_bytes_and_numbers_that_json_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    candidate = artifact_pb2.Candidate(settings={"a": "b"}, median_seconds=math.inf)
    given = printed(candidate, capsys)
    assert given["settings"] == {"a": "b"}
    assert given["median_seconds"] is None
    assert printed(artifact_pb2.ManifestSignature(ed25519=b"\x01\xff"), capsys) == {
        "key_id": "",
        "ed25519": "01ff",
    }
    target = target_pb2.Target(cpu=target_pb2.CpuHardware(isa="x86-64-v3"))
    assert "cuda" not in printed([target], capsys)[0]


def test_columns_and_units(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([("a", "1"), ("long", "")], ("NAME", "N"))
    assert capsys.readouterr().out == "NAME  N\na     1\nlong\n"
    sizes = [readable_bytes(n) for n in (0, 1023, 1536, 5 * 2**30, 2**50)]
    assert sizes == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB", "1048576.0 GiB"]
    times = [readable_seconds(s) for s in (75.0, 0.0012, 7.5e-6, 0.0)]
    assert times == ["75 s", "1.2 ms", "7.5 us", "0 us"]
