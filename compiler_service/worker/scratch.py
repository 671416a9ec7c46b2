"""A worker's folder for what one run of the server leaves and no other needs.

In: the worker's own folder. Out: a locked folder for temporary files and jobs. A server that was
killed could not tidy up: the next one removes every folder whose lock nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path


class Scratch:
    """A folder that is removed by ``close``, or by the next worker here after a crash."""

    def __init__(self, parent: Path) -> None:
        """Makes a folder in ``parent``, and removes what dead workers left there."""
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path, self._lock = _locked_folder(parent)
        _sweep(parent)

    def folder(self, prefix: str) -> Path:
        """A new, empty folder."""
        return Path(tempfile.mkdtemp(prefix=prefix, dir=self.path))

    def close(self) -> None:
        """Removes everything."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _locked_folder(parent: Path) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        descriptor = _lock(path)
        # Another worker may have swept it in the moment before it was locked.
        if descriptor is not None and path.exists():
            return path, descriptor
        if descriptor is not None:
            os.close(descriptor)


def _sweep(parent: Path) -> None:
    for path in parent.glob("run-*"):
        descriptor = _lock(path)
        if descriptor is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


def _lock(path: Path) -> int | None:
    """A descriptor that holds the folder's lock, or None where another process holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
