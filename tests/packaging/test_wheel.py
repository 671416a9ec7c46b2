"""The wheel as a user gets it: built from the sources, installed into an empty environment.

Needs a package index, as an installation does. The environment has the client's dependencies and
no others: no torch, nothing of the server's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

pytestmark = pytest.mark.slow


def ran(*command: str | Path, cwd: Path | None = None) -> str:
    """The command's output; fails with all of it where the command does."""
    # Where the tests' own packages would be found is not for what they start.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the sources."""
    folder = tmp_path_factory.mktemp("build")
    sources = folder / "sources"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("client", "compiler_service", "tests"):
        shutil.copytree(ROOT / name, sources / name, ignore=ignored)
    for name in ("pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]):
        shutil.copy(ROOT / name, sources / name)
    ran(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", sources)
    (built,) = (folder / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel and what the wheel asks for."""
    environment = tmp_path_factory.mktemp("installed")
    ran(sys.executable, "-m", "venv", environment)
    folder = environment / "bin"
    ran(folder / "python", "-m", "pip", "install", "-c", ROOT / "constraints.txt", wheel)
    return folder


def test_the_wheel_holds_both_packages_their_types_and_the_licence(wheel: Path) -> None:
    assert wheel.name == f"compile_farm-{PROJECT['version']}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "compile_farm/__init__.py",
        "compile_farm/py.typed",
        "compile_farm/v1/compiler_pb2.py",
        "compile_farm/v1/compiler_pb2.pyi",
        "compile_farm/v1/compiler_pb2_grpc.py",
        "compile_farm/cli/serve.py",
        "compiler_service/app.py",
        "compiler_service/py.typed",
    ):
        assert name in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_every_module_of_the_sources_is_in_the_wheel(wheel: Path) -> None:
    """A folder without __init__.py would be left out without a word."""
    names = set(zipfile.ZipFile(wheel).namelist())
    for base, package in ((ROOT / "client", "compile_farm"), (ROOT, "compiler_service")):
        for path in (base / package).rglob("*.py*"):
            if path.suffix in (".py", ".pyi"):
                assert path.relative_to(base).as_posix() in names


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    tops = {name for name in tops if not name.endswith(".dist-info")}
    assert tops == {"compile_farm", "compiler_service"}
    tests = re.compile(r"(^|/)(tests?/|test_|conftest)")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if tests.search(name)]


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert set(metadata.get_all("Provides-Extra") or ()) == {"server", "gpu", "dev"}


def test_the_environment_has_neither_torch_nor_the_servers_packages(installed: Path) -> None:
    listed = ran(installed / "python", "-m", "pip", "list", "--format=freeze").lower()
    names = {line.split("==")[0].replace("_", "-") for line in listed.split()}
    assert {"compile-farm", "grpcio", "protobuf", "zstandard", "cryptography"} <= names
    assert not names & {"torch", "redis", "boto3", "psutil", "grpcio-health-checking", "numpy"}
    ran(installed / "python", "-m", "pip", "check")


def test_the_package_is_imported_and_every_error_is_there(installed: Path, tmp_path: Path) -> None:
    code = (
        "import compile_farm\n"
        "assert issubclass(compile_farm.FarmUnavailableError, compile_farm.CompileFarmError)\n"
        "with compile_farm.Farm('127.0.0.1:1', cache_dir='cache') as farm:\n"
        "    try: farm.status()\n"
        "    except compile_farm.FarmUnavailableError: print(compile_farm.__version__)\n"
    )
    assert ran(installed / "python", "-c", code, cwd=tmp_path) == f"{PROJECT['version']}\n"


def test_the_command_line_runs(installed: Path, tmp_path: Path) -> None:
    assert "exit codes:" in ran(installed / "compile-farm", "--help", cwd=tmp_path)
    version = ran(installed / "compile-farm", "--version", cwd=tmp_path)
    assert version == f"compile-farm {PROJECT['version']}\n"


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_what_needs_the_server_extra_says_so(installed: Path, tmp_path: Path, command: str) -> None:
    result = subprocess.run(
        [installed / "compile-farm", command, "--data", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "pip install 'compile-farm[server]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_torch_compile_will_find_the_backend(installed: Path, tmp_path: Path) -> None:
    """Dynamo lists backends by this group; the module itself loads torch only when it is used."""
    code = (
        "import sys\n"
        "from importlib.metadata import entry_points\n"
        "(point,) = entry_points(group='torch_dynamo_backends', name='compile_farm')\n"
        "print(point.load().__name__)\n"
        "assert 'torch' not in sys.modules\n"
    )
    assert ran(installed / "python", "-c", code, cwd=tmp_path) == "compile_farm\n"
