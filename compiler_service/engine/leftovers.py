"""Removes what a killed compile left half written in the compiler's cache.

In: the cache folder. Out: the names of what was removed. torch lets g++ write a file at its final
name and later takes whatever lies there: a header or shared object cut off by a kill would be used,
or silently ignored, by every compile after it. What gives it away is the build folder beside it,
which torch removes at the end of each build.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from torch._inductor import cpp_builder

BUILD_FOLDER_SUFFIX: str = "_" + cpp_builder._BUILD_TEMP_DIR


def remove_interrupted(cache: Path) -> list[str]:
    """Removes the files of every build that did not end, but not of one that is going on."""
    removed = []
    for folder in list(cache.rglob(f"*{BUILD_FOLDER_SUFFIX}")):
        name = folder.name.removesuffix(BUILD_FOLDER_SUFFIX)
        stem = name.split(".")[0]
        if any(_is_held(locks / f"{stem}.lock") for locks in _lock_folders(cache, folder)):
            continue
        for path in folder.parent.glob(f"{stem}.*"):
            if path.is_file():
                path.unlink(missing_ok=True)
                removed.append(path.name)
        shutil.rmtree(folder, ignore_errors=True)
    return removed


def _lock_folders(cache: Path, folder: Path) -> tuple[Path, Path]:
    return cache / "locks", folder.parent / "locks"


def _is_held(lock: Path) -> bool:
    """Whether another process builds this now."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
