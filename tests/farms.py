"""A real farm for tests: gateway, store and sandboxed worker in a process of their own.

One for the whole session, since a worker's first compile costs most of a minute; its compiler's
cache lies in COMPILE_FARM_TEST_CACHE (default .cache/tests) and is shared with every other worker
that a test starts.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compile_farm import Farm

ROOT = Path(__file__).resolve().parent.parent


def shared_cache() -> Path:
    """The folder that holds a worker's warm compiler cache between tests and between runs."""
    folder = Path(os.environ.get("COMPILE_FARM_TEST_CACHE") or ROOT / ".cache" / "tests")
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def prepare_worker_dir(work_dir: Path) -> Path:
    """A worker's folder whose compiler cache is the shared one."""
    work_dir.mkdir(parents=True, exist_ok=True)
    cache = shared_cache() / "worker"
    cache.mkdir(exist_ok=True)
    (work_dir / "cache").symlink_to(cache)
    return work_dir


@dataclass
class RunningFarm:
    """A server process, its address and its data."""

    process: subprocess.Popen[str]
    address: str
    data_dir: Path

    def stop(self) -> int:
        """Asks it to stop, as an operator would; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def start_farm(data_dir: Path, *arguments: str, device: str = "cpu") -> RunningFarm:
    """Starts a server on a free port and waits until it listens."""
    prepare_worker_dir(data_dir / "worker")
    log = (data_dir / "log").open("w")
    process = subprocess.Popen(
        [
            sys.executable, "-m", "compiler_service", "--listen", "127.0.0.1:0",
            "--data", str(data_dir), "--device", device, *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        cwd=ROOT,
    )  # fmt: skip
    log.close()
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.match(r"listening on (\S+)", line)
    if found is None:
        process.kill()
        pytest.fail(f"the farm did not start: {line!r} {(data_dir / 'log').read_text()[-2000:]}")
    return RunningFarm(process, found[1], data_dir)


@pytest.fixture(scope="session")
def farm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFarm]:
    """The session's farm on the CPU, with an empty store on disk."""
    data_dir = tmp_path_factory.mktemp("farm")
    running = start_farm(data_dir)
    yield running
    running.stop()
    assert running.process.stdout is not None
    running.process.stdout.close()
    shutil.rmtree(data_dir, ignore_errors=True)


@pytest.fixture
def farm(farm_server: RunningFarm, tmp_path: Path) -> Iterator[Farm]:
    """A client of it with an empty local cache."""
    with Farm(farm_server.address, cache_dir=tmp_path / "cache") as client:
        yield client


@pytest.fixture
def fresh_client_environment(farm_server: RunningFarm, tmp_path: Path) -> dict[str, str]:
    """Variables for a client process of the session's farm, with a local cache of its own."""
    return {
        **os.environ,
        "COMPILE_FARM_URL": farm_server.address,
        "COMPILE_FARM_CACHE": str(tmp_path / "cache"),
    }
