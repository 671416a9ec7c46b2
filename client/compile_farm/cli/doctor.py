"""Check whether a worker can work on this machine, and say what to do if not.

Compiles, loads and runs a small graph in a sandbox, as a worker does before it takes work. The
first run on a machine takes a minute.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from compile_farm.cli.common import (
    add_json_argument,
    add_unconfined_argument,
    device,
    print_json,
    server_missing,
)

HELP = "check whether a worker can work here"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--device",
        type=device,
        default="auto",
        metavar="auto|cpu|cuda:N",
        help="default %(default)s",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="as given to serve")
    add_unconfined_argument(parser)
    add_json_argument(parser)


def run(given: argparse.Namespace) -> int:
    """Prints each check; 1 if one did not pass."""
    try:
        from compiler_service.config import default_data_dir
        from compiler_service.worker.doctor import run_doctor
    except ImportError as error:
        raise server_missing(error) from error
    work_dir = (given.data or default_data_dir()) / "worker"
    report = run_doctor(given.device, work_dir, confined=not given.unconfined)
    if given.json:
        print_json({"passed": report.passed, "checks": [asdict(one) for one in report.checks]})
        return 0 if report.passed else 1
    for check in report.checks:
        print(f"{'ok  ' if check.passed else 'FAIL'}  {check.name}: {check.detail}")
        if check.remedy:
            print(f"      what to do: {check.remedy}")
    return 0 if report.passed else 1
