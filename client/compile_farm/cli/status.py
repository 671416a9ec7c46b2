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
    for refusal in status.refusals:
        kind = compiler_pb2.Refusal.Name(refusal.refusal).removeprefix("REFUSAL_").lower()
        print(f"{refusal.count} refused at capture: {kind.replace('unspecified', 'other')}")
    print()
    print_table([_worker(one) for one in status.workers], ("WORKER", "STATE", "TARGET", "PROBLEM"))
    print()
    header = ("TIER", "STATE", "HITS", "MISSES", "CORRUPT", "UNAVAILABLE")
    print_table([_tier(one) for one in status.tiers], header)
    if status.jobs:
        print()
        header = ("JOB", "STATE", "STAGE", "DONE", "AGE", "WAITERS")
        print_table([_job(one) for one in status.jobs], header)
    return 0 if healthy else 1


def _worker(worker: compiler_pb2.WorkerStatus) -> tuple[str, ...]:
    from compile_farm.targets import describe

    known = worker.target.WhichOneof("hardware")
    target = describe(worker.target) if known else "-"
    return worker.name, worker.state, target, worker.problem


def _tier(tier: compiler_pb2.TierStatus) -> tuple[str, ...]:
    counts = (tier.hits, tier.misses, tier.corrupt, tier.unavailable)
    return tier.name, "up" if tier.available else "AWAY", *map(str, counts)


def _job(job: compiler_pb2.JobStatus) -> tuple[str, ...]:
    age = f"{job.seconds:.0f} s"
    return job.key[:16], job.state, job.stage or "-", f"{job.fraction:.0%}", age, str(job.waiters)
