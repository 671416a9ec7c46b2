"""What a graph that took its child over could reach: as little as the platform allows.

Each test runs code inside a real child, with the rights that a child has when it sees a graph.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler_service.security.signing import SigningKey
from compiler_service.worker.protocol import Built
from compiler_service.worker.worker import SandboxWorker
from tests.sandboxes import (
    LIMITS,
    fake_compiler,
    fault_worker,
    is_child_of,
    is_running,
    pid_of_child,
    run,
    running,
)

_LANDLOCK = ctypes.CDLL(None).syscall(444, None, 0, 1)
needs_landlock = pytest.mark.skipif(_LANDLOCK < 0, reason="this kernel has no Landlock")
needs_scopes = pytest.mark.skipif(_LANDLOCK < 6, reason="this kernel's Landlock has no scopes")


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    """In a file beside the worker's folder, as in a real farm."""
    return SigningKey.load_or_create(tmp_path / "keys" / "signing.key")


Inside = Callable[[str], Awaitable[dict[str, Any]]]


@pytest.fixture
async def inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: SigningKey
) -> AsyncIterator[Inside]:
    """Runs code in the child of a server that has secrets in its environment.

    Gives what the code left in ``found``, and the name of an OSError as "error".
    """
    fake_compiler(tmp_path, monkeypatch)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("COMPILE_FARM_TOKEN", "hunter2")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "operators"))
    async with running(fault_worker(tmp_path, key=key)) as worker:
        assert worker.status().state == "idle", worker.status().problem

        async def attempt(code: str) -> dict[str, Any]:
            return await found_by(worker, tmp_path, code)

        yield attempt


async def found_by(worker: SandboxWorker, folder: Path, code: str) -> dict[str, Any]:
    """What ``code`` found in the worker's child."""
    outcome = await run(worker, f"attempt:{code}")
    assert isinstance(outcome, Built), outcome
    found: dict[str, Any] = json.loads((folder / "worker" / "found.json").read_text())
    return found


async def test_no_variable_of_the_server_comes_in(inside: Inside, tmp_path: Path) -> None:
    found = await inside("import os; found.update(os.environ)")
    assert "hunter2" not in found.values()
    assert not {"AWS_SECRET_ACCESS_KEY", "COMPILE_FARM_TOKEN"} & set(found)
    folder = tmp_path / "worker"
    assert found["HOME"] == str(folder)
    assert found["TMPDIR"].startswith(f"{folder}/scratch/")
    assert found["TORCHINDUCTOR_CACHE_DIR"] == f"{folder}/cache/inductor"
    assert found["TRITON_CACHE_DIR"] == f"{folder}/cache/triton"


async def test_python_imports_nothing_that_a_graph_could_have_written(
    inside: Inside, tmp_path: Path
) -> None:
    code = "import os, sys; found['path'] = sys.path; found['cwd'] = os.getcwd()"
    found = await inside(code)
    assert found["cwd"] == str(tmp_path / "worker")
    assert "" not in found["path"]
    # An earlier graph may have left a torch.py there.
    assert not [entry for entry in found["path"] if entry.startswith(found["cwd"])]
    assert str(tmp_path / "operators") in found["path"]


@needs_landlock
async def test_the_signing_key_can_not_be_read(inside: Inside, key: SigningKey) -> None:
    found = await inside(f"found['key'] = open({str(key.path)!r}).read()")
    assert found == {"error": "PermissionError"}
    # Not by way of a name in its own folder either.
    link = f"import os; os.symlink({str(key.path)!r}, 'link'); found['key'] = open('link').read()"
    assert await inside(link) == {"error": "PermissionError"}
    hard = f"import os; os.link({str(key.path)!r}, 'hard'); found['key'] = open('hard').read()"
    assert "key" not in await inside(hard)


@needs_landlock
@pytest.mark.parametrize(
    "code",
    [
        "open({0!r}, 'w')",
        "import os; os.unlink({0!r})",
        "import os; os.rename({0!r}, {0!r} + '.old')",
        "import os; os.truncate({0!r}, 0)",
        "import os; open('new', 'w'); os.rename('new', {0!r})",
        "import pathlib; pathlib.Path({0!r}).with_name('other').touch()",
        "import os; os.mkdir(os.path.dirname({0!r}) + '/folder')",
    ],
)
async def test_the_signing_key_can_not_be_replaced(
    inside: Inside, key: SigningKey, code: str
) -> None:
    assert key.path is not None
    before = key.path.read_bytes()
    found = await inside(code.format(str(key.path)))
    assert found["error"] in ("PermissionError", "OSError")
    assert key.path.read_bytes() == before
    assert [path.name for path in key.path.parent.iterdir()] == [key.path.name]


@needs_landlock
async def test_nothing_outside_its_folder_can_be_written(inside: Inside, tmp_path: Path) -> None:
    for path in (tmp_path / "beside", Path(__file__), Path(sys.prefix) / "planted.py"):
        found = await inside(f"open({str(path)!r}, 'a')")
        assert found == {"error": "PermissionError"}, path
    code = "import tempfile; open('own', 'w'); tempfile.mkstemp(); open('/dev/null', 'w')"
    assert await inside(code) == {}


@needs_landlock
async def test_it_may_name_its_own_threads(inside: Inside) -> None:
    """CUDA's driver does, and finds no GPU where it can't."""
    code = (
        "import gc, threading\n"
        "gc.collect()\n"
        "def rename():\n"
        "    open(f'/proc/self/task/{threading.get_native_id()}/comm', 'w').write('cuda')\n"
        "    found['name'] = open('/proc/thread-self/comm').read().strip()\n"
        "thread = threading.Thread(target=rename); thread.start(); thread.join()"
    )
    assert await inside(code) == {"name": "cuda"}


@needs_landlock
@pytest.mark.skipif(os.getuid() != 0, reason="only root could write there in the first place")
async def test_the_kernels_settings_can_not_be_written(inside: Inside) -> None:
    for path in ("/proc/sys/kernel/core_pattern", f"/proc/{os.getpid()}/comm"):
        assert await inside(f"open({path!r}, 'r+')") == {"error": "PermissionError"}, path


@needs_landlock
async def test_what_it_starts_is_confined_too(inside: Inside, key: SigningKey) -> None:
    code = f"import subprocess; found['rc'] = subprocess.call(['cat', {str(key.path)!r}])"
    assert (await inside(code))["rc"] != 0


async def test_it_has_no_network(inside: Inside, caplog: pytest.LogCaptureFixture) -> None:
    if any("has network access" in record.getMessage() for record in caplog.get_records("setup")):
        pytest.skip("this platform gives no network namespace, and the worker says so")
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    found = await inside(f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)")
    server.close()
    await server.wait_closed()
    assert found == {"error": "OSError"}  # Network is unreachable


@needs_landlock
async def test_the_server_can_not_be_looked_into(inside: Inside) -> None:
    for name in ("environ", "mem", "fd/0"):
        found = await inside(f"open('/proc/{os.getpid()}/{name}', 'rb').read(1)")
        assert found == {"error": "PermissionError"}, name


@needs_scopes
async def test_the_server_can_not_be_signalled(inside: Inside) -> None:
    code = f"import os; os.kill({os.getpid()}, 0)"
    assert await inside(code) == {"error": "PermissionError"}


async def test_limits_and_privileges(inside: Inside) -> None:
    code = (
        "import resource as r\n"
        "found['core'] = r.getrlimit(r.RLIMIT_CORE)\n"
        "found['files'] = r.getrlimit(r.RLIMIT_NOFILE)\n"
        "found['size'] = r.getrlimit(r.RLIMIT_FSIZE)\n"
        "status = dict(line.split(':') for line in open('/proc/self/status'))\n"
        "found['gains'] = status['NoNewPrivs'].strip() == '0'\n"
        "found['rights'] = int(status['CapEff'], 16) & ~0b1011"
    )
    found = await inside(code)
    assert found == {
        "core": [0, 0],
        "files": [4096, 4096],
        "size": [8 * 2**30, 8 * 2**30],
        "gains": False,
        "rights": 0,
    }


async def test_a_file_over_its_limit_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_compiler(tmp_path, monkeypatch)
    limits = replace(LIMITS, file_bytes=1000)
    async with running(fault_worker(tmp_path, limits=limits)) as worker:
        code = "with open('big', 'wb') as file: file.write(bytes(2000))"
        found = await found_by(worker, tmp_path, code)
        assert found == {"error": "OSError"}
        assert (tmp_path / "worker" / "big").stat().st_size <= 1000


async def test_a_child_dies_with_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_compiler(tmp_path, monkeypatch)
    code = (
        "import asyncio, pathlib\n"
        "from tests.sandboxes import fault_worker, run\n"
        "async def main():\n"
        f"    worker = fault_worker(pathlib.Path({str(tmp_path)!r}))\n"
        "    await worker.start()\n"
        "    print(worker.status().state, flush=True)\n"
        "    await run(worker, 'sleep:')\n"
        "asyncio.run(main())\n"
    )
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert server.stdout is not None
    assert await server.stdout.readline() == b"idle\n"
    child = pid_of_child(tmp_path)
    server.kill()
    await server.wait()
    while is_running(child):
        await asyncio.sleep(0.01)
    assert not any(is_child_of(tmp_path, entry) for entry in os.listdir("/proc"))
    # What it could not tidy up, the next worker does.
    left = list((tmp_path / "worker" / "scratch").iterdir())
    assert len(left) == 1
    async with running(fault_worker(tmp_path)):
        assert not left[0].exists()
