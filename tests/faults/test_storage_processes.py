"""Several processes and one folder: killed in the middle of a write, and writing at once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compiler_service.storage import index_entry
from compiler_service.storage.artifact_store import ArtifactStore
from compiler_service.storage.disk_store import DiskStore
from compiler_service.storage.open import tier
from compiler_service.storage.outcome import Hit

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 60.0

# Publishes artifact after artifact of 16 MiB, each with a name of its own.
WRITER = """
import asyncio, os, sys
from pathlib import Path
from compiler_service.storage.open import open_store

async def main():
    store = open_store([f"disk:{sys.argv[1]}"], Path("unused"))
    while True:
        await store.publish(os.urandom(32).hex(), os.urandom(16 << 20))

asyncio.run(main())
"""

# Publishes the same keys as everybody else, each time another artifact.
CONTENDER = """
import asyncio, os, sys
from pathlib import Path
from compiler_service.storage.open import open_store

async def main():
    store = open_store([f"disk:{sys.argv[1]}"], Path("unused"))
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(30):
        for key in ("ab" * 32, "cd" * 32):
            await store.publish(key, f"{sys.argv[2]} {turn} ".encode() * 5000)
            await store.publish(key, b"the same for all" * 5000)
            entry = (await store.lookup([key])).hits[key]
            outcome = await store.read(entry.digest)
            assert outcome.tier == "disk", outcome
    assert store.tiers()[0].corrupt == 0
    await store.close()

asyncio.run(main())
"""

# Dies at the worst moment: all bytes are written, and the rename is about to be made.
DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from compiler_service.storage.open import open_store

os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
store = open_store([f"disk:{sys.argv[1]}"], Path("unused"))
asyncio.run(store.publish("ab" * 32, b"artifact"))
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def visible(folder: Path) -> list[Path]:
    return [
        path
        for space in ("blobs", "index")
        for path in (folder / "v1" / space).rglob("*")
        if path.is_file()
    ]


def temporary(folder: Path) -> list[Path]:
    return list((folder / "v1" / "temporary").glob("*"))


def assert_intact(path: Path) -> None:
    if path.parent.parent.name == "blobs":
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    else:
        entry = index_entry.decode(path.read_bytes())
        assert entry is not None
        assert entry.key == path.name


def a_write_is_under_way(folder: Path) -> bool:
    for path in temporary(folder):
        try:
            if path.stat().st_size > 0:
                return True
        except FileNotFoundError:
            continue
    return False


@pytest.mark.parametrize("attempt", range(3))
def test_a_writer_killed_at_any_moment_leaves_nothing_half_written(
    tmp_path: Path, attempt: int
) -> None:
    writer = start(WRITER, str(tmp_path))
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not a_write_is_under_way(tmp_path):
            assert writer.poll() is None, writer.communicate()[1]
            assert time.monotonic() < deadline, "the writer never wrote"
    finally:
        writer.kill()
        writer.communicate()
    for path in visible(tmp_path):
        assert_intact(path)


def test_a_writer_killed_before_the_rename_leaves_nothing_visible(tmp_path: Path) -> None:
    dying = start(DYING, str(tmp_path))
    _, errors = dying.communicate(timeout=WAIT_SECONDS)
    assert dying.returncode == -9, errors
    assert visible(tmp_path) == []
    assert [path.read_bytes() for path in temporary(tmp_path)] == [b"artifact"]


async def test_what_a_dead_writer_left_is_swept_and_a_living_ones_is_not(tmp_path: Path) -> None:
    await DiskStore(tmp_path).close()
    left, living = (tmp_path / "v1" / "temporary" / file for file in ("1-left", "2-living"))
    left.write_bytes(b"half an arti")
    living.write_bytes(b"half an arti")
    os.utime(left, (time.time() - 7200, time.time() - 7200))
    await DiskStore(tmp_path).close()
    assert temporary(tmp_path) == [living]


async def test_processes_that_write_the_same_keys_at_once_disturb_nobody(tmp_path: Path) -> None:
    contenders = [start(CONTENDER, str(tmp_path), str(number)) for number in range(3)]
    try:
        for contender in contenders:
            assert contender.stdout is not None
            assert contender.stdout.readline() == "ready\n"
        for contender in contenders:
            assert contender.stdin is not None
            contender.stdin.write("go\n")
            contender.stdin.flush()
        for contender in contenders:
            _, errors = contender.communicate(timeout=WAIT_SECONDS)
            assert contender.returncode == 0, errors
    finally:
        for contender in contenders:
            contender.kill()
    assert temporary(tmp_path) == []
    assert len(visible(tmp_path)) > 2
    for path in visible(tmp_path):
        assert_intact(path)


async def test_one_process_reads_what_another_published(tmp_path: Path) -> None:
    one, two = (ArtifactStore([tier(DiskStore(tmp_path))]) for _ in range(2))
    entry = await one.publish("ab" * 32, b"artifact")
    assert (await two.lookup(["ab" * 32])).hits == {"ab" * 32: entry}
    assert await two.read(entry.digest) == Hit(b"artifact", "disk")
    await one.close()
    await two.close()
