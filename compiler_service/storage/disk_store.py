"""A folder on a local disk: the embedded default.

In: names and bytes. Out: files ``v1/blobs/ab/ab12...`` and ``v1/index/ab/ab12...``. A file is
written under ``v1/temporary``, flushed to the disk and renamed into place, so a reader in this
process or in another one sees all of it or nothing, whatever is killed when.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from compiler_service.storage.errors import InvalidNameError, StoreUrlError
from compiler_service.storage.name import SPACES, Name, Space
from compiler_service.storage.outcome import (
    Found,
    Hit,
    Miss,
    Outcome,
    Presence,
    PutOutcome,
    Stored,
    Unavailable,
)
from compiler_service.storage.store import Listed, Store

T = TypeVar("T")

# Owner and group, less the umask: two services may share the folder through their group, and
# nobody else reads what a model looks like.
_FOLDER_MODE = 0o770
_FILE_MODE = 0o660

# Age after which a temporary file belongs to a writer that died. Process ids can't tell: the folder
# may be shared between containers.
ABANDONED_SECONDS = 3600.0


class DiskStore(Store):
    """Raises StoreUrlError when the folder can't be made or written."""

    def __init__(
        self, folder: Path, *, name: str = "disk", abandoned_seconds: float = ABANDONED_SECONDS
    ) -> None:
        self._name = name
        self._root = folder / "v1"
        self._temporary = self._root / "temporary"
        try:
            for path in (self._temporary, *(self._root / space for space in SPACES)):
                _make_folder(path)
            self._sweep(abandoned_seconds)
        except OSError as error:
            raise StoreUrlError(
                f"can't use the folder {folder} as a store: {_reason(error)}",
                remedy="give a folder that this user can create and write",
            ) from error
        # Its own threads: a disk that hangs must not take those of the rest of the process.
        self._threads = ThreadPoolExecutor(8, thread_name_prefix=f"store-{name}")

    @property
    def name(self) -> str:
        return self._name

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        return await self._run(lambda: [self._read(name) for name in names])

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        return await self._run(lambda: [self._look(name) for name in names])

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        return await self._run(lambda: self._write(name, data))

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        return await self._run(lambda: self._remove(names))

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        return await self._run(lambda: self._walk(space))

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _path(self, name: Name) -> Path:
        return self._root / name.space / name.digits[:2] / name.digits

    def _read(self, name: Name) -> Outcome:
        try:
            with self._path(name).open("rb") as file:
                return Hit(file.read(name.largest + 1), self._name)
        except FileNotFoundError:
            return Miss()
        except OSError as error:
            return self._unavailable(error)

    def _look(self, name: Name) -> Presence:
        try:
            self._path(name).stat()
        except FileNotFoundError:
            return Miss()
        except OSError as error:
            return self._unavailable(error)
        return Found(self._name)

    def _write(self, name: Name, data: bytes) -> PutOutcome:
        path = self._path(name)
        temporary = self._temporary / f"{os.getpid()}-{secrets.token_hex(8)}"
        try:
            # Made anew each time: somebody may have emptied the folder under a running service.
            _make_folder(self._temporary)
            _make_folder(path.parent)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with open(os.open(temporary, flags, _FILE_MODE), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            # The rename itself, and the folder that it went into, outlive a power cut.
            _flush_folder(path.parent)
            _flush_folder(path.parent.parent)
        except OSError as error:
            return self._unavailable(error)
        return Stored((self._name,))

    def _remove(self, names: Sequence[Name]) -> Unavailable | None:
        try:
            for name in names:
                self._path(name).unlink(missing_ok=True)
        except OSError as error:
            return self._unavailable(error)
        return None

    def _walk(self, space: Space) -> list[Listed] | Unavailable:
        try:
            return [
                listed
                for shard in _entries(self._root / space)
                if shard.is_dir()
                for file in _entries(shard.path)
                if (listed := _listed(space, file)) is not None
            ]
        except OSError as error:
            return self._unavailable(error)

    def _sweep(self, abandoned_seconds: float) -> None:
        for entry in _entries(self._temporary):
            # Another process may sweep or finish it meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if time.time() - entry.stat().st_mtime >= abandoned_seconds:
                    os.unlink(entry.path)

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable((self._name,), f"{self._root}: {_reason(error)}")


def _entries(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        return


def _listed(space: Space, file: os.DirEntry[str]) -> Listed | None:
    """None for a file that is none of ours, or that has just been removed."""
    try:
        return Listed(Name(space, file.name), file.stat().st_mtime)
    except (InvalidNameError, FileNotFoundError):
        return None


def _make_folder(folder: Path) -> None:
    """With its parents, which ``Path.mkdir(parents=True)`` would leave open to others."""
    try:
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    except FileNotFoundError:
        _make_folder(folder.parent)
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
