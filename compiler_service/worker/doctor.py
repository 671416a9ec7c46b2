"""``compile-farm doctor``: whether a worker could work here, and if not, what to do.

In: a device and a folder. Out: a list of checks, the last of which starts a real sandbox that
compiles, loads and runs a small graph.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

from compile_farm.targets import describe
from compiler_service.worker.cxx import find_compiler
from compiler_service.worker.gpu import gpu_checks, resolve_device
from compiler_service.worker.limits import Limits
from compiler_service.worker.plan import SandboxPlan
from compiler_service.worker.preflight import Check, preflight
from compiler_service.worker.sandbox import Sandbox, SandboxDied
from compiler_service.worker.scratch import Scratch
from compiler_service.worker.self_test import NAME, explain


@dataclass
class DoctorReport:
    """All checks, in order."""

    checks: list[Check] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether a worker can work here."""
        return all(check.passed for check in self.checks)


def run_doctor(
    device: str, work_dir: Path, limits: Limits | None = None, confined: bool = True
) -> DoctorReport:
    """Runs the checks for ``device`` ("auto", "cpu", "cuda:0"); takes up to a minute or two.

    Checks that need an earlier one are left out where that did not pass.
    """
    report = DoctorReport()
    try:
        scratch = Scratch(work_dir.absolute() / "scratch")
    except OSError as error:
        remedy = "give another folder by --data"
        report.checks.append(Check("folder", False, f"{work_dir} can't be used: {error}", remedy))
        return report
    try:
        compiler = find_compiler(work_dir.absolute())
        report.checks.extend(preflight(work_dir, compiler))
        plan = SandboxPlan(
            device, work_dir.absolute(), limits or Limits(), compiler.path, confined=confined
        )
        if report.passed and device != "cpu":
            environment = plan.environment(scratch.folder("gpu-"))
            report.checks.extend(gpu_checks(device, environment))
            plan = replace(plan, device=resolve_device(device, environment))
        if report.passed:
            report.checks.extend(asyncio.run(self_test(plan, scratch)))
    finally:
        scratch.close()
    return report


async def self_test(plan: SandboxPlan, scratch: Scratch) -> list[Check]:
    """Starts a child, which compiles, loads and runs a small graph, and ends it."""
    try:
        sandbox = await Sandbox.start(plan, scratch.folder("child-"))
    except SandboxDied as death:
        return [explain(death.failure, plan)]
    hello = sandbox.hello
    await sandbox.kill()
    detail = f"{describe(hello.target)}: a small graph compiled, loaded, ran and verified in "
    checks = [Check(NAME, True, detail + f"{hello.seconds:.1f} s")]
    if not hello.notes:
        isolation = "no network, no files but its own to write, no secrets to read"
        checks.append(Check("isolation", True, isolation))
    checks.extend(Check("isolation", True, note) for note in hello.notes)
    return checks
