"""What a farm does now: its workers, jobs, and the tiers of its store.

Exits with 1 if no worker is healthy or a tier is away.
"""

from __future__ import annotations

import argparse

from compile_farm.cli.common import add_farm_arguments, open_farm, print_json, print_table
from compile_farm.v1 import compiler_pb2

HELP = "what a farm does now"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_farm_arguments(parser)


def run(given: argparse.Namespace) -> int:
    """Prints the status."""
    from compile_farm.targets import describe

    with open_farm(given) as farm:
        status = farm.status()
        url = farm.url
    healthy = any(worker.state in ("idle", "busy", "starting") for worker in status.workers)
    healthy = healthy and all(tier.available for tier in status.tiers)
    if given.json:
        print_json(status)
        return 0 if healthy else 1
    hours, rest = divmod(int(status.uptime_seconds), 3600)
    print(f"farm {url}, version {status.version}, up {hours}:{rest // 60:02}:{rest % 60:02}")
    print(f"{status.hits} hits, {status.compiled} compiled")
    for failure in status.failures:
        reason = compiler_pb2.Reason.Name(failure.reason).removeprefix("REASON_").lower()
        print(f"{failure.count} failed: {reason}")
    print()
    print_table(
        [
            (worker.name, worker.state, describe(worker.target) if worker.target.WhichOneof(
                "hardware") else "-", worker.problem)
            for worker in status.workers
        ],
        ("WORKER", "STATE", "TARGET", "PROBLEM"),
    )  # fmt: skip
    print()
    print_table(
        [
            (
                tier.name,
                "up" if tier.available else "AWAY",
                *(str(n) for n in (tier.hits, tier.misses, tier.corrupt, tier.unavailable)),
            )
            for tier in status.tiers
        ],
        ("TIER", "STATE", "HITS", "MISSES", "CORRUPT", "UNAVAILABLE"),
    )
    if status.jobs:
        print()
        print_table(
            [
                (job.key[:16], job.state, job.stage or "-", f"{job.fraction:.0%}",
                 f"{job.seconds:.0f} s", str(job.waiters))
                for job in status.jobs
            ],
            ("JOB", "STATE", "STAGE", "DONE", "AGE", "WAITERS"),
        )  # fmt: skip
    return 0 if healthy else 1
