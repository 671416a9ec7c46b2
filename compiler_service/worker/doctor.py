"""``compile-farm doctor``: whether a worker could work here, and if not, what to do.

In: a device and a folder. Out: a list of checks, the last of which starts a real sandbox that
compiles, loads and runs a small graph.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from compile_farm.targets import describe
from compiler_service.worker.cxx import find_compiler
from compiler_service.worker.limits import GIB, Limits
from compiler_service.worker.sandbox import Sandbox, SandboxDied, SandboxPlan

_PYTHONS = ((3, 11), (3, 13))
_TORCHES = ((2, 11), (2, 14))
_DISK_BYTES = 5 * GIB


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    passed: bool
    detail: str
    remedy: str = ""


@dataclass
class DoctorReport:
    """All checks, in order."""

    checks: list[Check] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether a worker can work here."""
        return all(check.passed for check in self.checks)


def run_doctor(device: str, work_dir: Path, limits: Limits | None = None) -> DoctorReport:
    """Runs the checks for ``device`` ("auto", "cpu", "cuda:0"); takes up to a minute or two."""
    report = DoctorReport()
    report.checks.append(_python())
    report.checks.append(_torch())
    work_dir.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(work_dir).free
    report.checks.append(
        Check(
            "disk",
            free >= _DISK_BYTES,
            f"{free / GIB:.1f} GiB free for {work_dir}",
            "" if free >= _DISK_BYTES else f"free {_DISK_BYTES / GIB:.0f} GiB, or move --data",
        )
    )
    compiler = find_compiler(work_dir)
    report.checks.append(
        Check("C++ compiler", not compiler.problem, compiler.detail, compiler.remedy)
    )
    if report.passed:
        plan = SandboxPlan(device, work_dir.absolute(), limits or Limits(), compiler.path)
        report.checks.extend(asyncio.run(_self_test(plan)))
    return report


def _python() -> Check:
    version = sys.version_info[:2]
    passed = _PYTHONS[0] <= version <= _PYTHONS[1]
    words = ".".join(map(str, sys.version_info[:3]))
    return Check("Python", passed, words, "" if passed else "use Python 3.11, 3.12 or 3.13")


def _torch() -> Check:
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return Check("torch", False, "not installed", "install torch 2.11 to 2.14")
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    passed = _TORCHES[0] <= parts <= _TORCHES[1]
    return Check("torch", passed, version, "" if passed else "install torch 2.11 to 2.14")


async def _self_test(plan: SandboxPlan) -> list[Check]:
    try:
        sandbox = await Sandbox.start(plan)
    except SandboxDied as death:
        return [
            Check(
                "compile, load and run",
                False,
                death.failure.message,
                death.failure.remedy or "see the message",
            )
        ]
    hello = sandbox.hello
    await sandbox.kill()
    detail = f"{describe(hello.target)}: a small graph compiled, loaded, ran and verified in "
    checks = [Check("compile, load and run", True, detail + f"{hello.seconds:.1f} s")]
    checks.extend(Check("isolation", True, note) for note in hello.notes)
    return checks
