"""What a worker looks at before it starts a child: versions, disk, and the C++ compiler.

In: the worker's folder and what was found out about the compiler. Out: checks, each with what to do
where it did not pass. Nothing here imports torch.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from compiler_service.worker.cxx import CxxCompiler
from compiler_service.worker.limits import GIB

_PYTHONS = ((3, 11), (3, 13))
_TORCHES = ((2, 11), (2, 14))
# The precompiled headers of one torch take about one.
_DISK_BYTES = 2 * GIB


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; ``remedy`` is empty where it passed."""

    name: str
    passed: bool
    detail: str
    remedy: str = ""


def preflight(work_dir: Path, compiler: CxxCompiler) -> list[Check]:
    """All of them, in order."""
    return [
        python_check(sys.version_info[:3]),
        torch_check(_installed("torch")),
        disk_check(work_dir, shutil.disk_usage(work_dir).free),
        Check("C++ compiler", not compiler.problem, compiler.detail, compiler.remedy),
    ]


def python_check(version: tuple[int, int, int]) -> Check:
    """Whether this Python is one that is tested."""
    passed = _PYTHONS[0] <= version[:2] <= _PYTHONS[1]
    remedy = "" if passed else "use Python 3.11, 3.12 or 3.13"
    return Check("Python", passed, ".".join(map(str, version)), remedy)


def torch_check(version: str | None) -> Check:
    """Whether this torch is one whose private parts the engine knows."""
    remedy = "install torch 2.11 to 2.14"
    if version is None:
        return Check("torch", False, "not installed", remedy)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    passed = _TORCHES[0] <= numbers <= _TORCHES[1]
    return Check("torch", passed, version, "" if passed else remedy)


def disk_check(folder: Path, free: int) -> Check:
    """Whether ``free`` bytes are enough for the compiler's caches and one job."""
    passed = free >= _DISK_BYTES
    remedy = "" if passed else f"free {_DISK_BYTES / GIB:.0f} GiB, or move --data"
    return Check("disk", passed, f"{free / GIB:.1f} GiB free for {folder}", remedy)


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
