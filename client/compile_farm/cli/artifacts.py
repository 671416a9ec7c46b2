"""List what a farm has, newest first."""

from __future__ import annotations

import argparse

from compile_farm.cli.common import (
    add_farm_arguments,
    local_time,
    open_farm,
    positive_whole,
    print_json,
    print_table,
    readable_bytes,
)

HELP = "list what a farm has"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_farm_arguments(parser)
    parser.add_argument(
        "--limit",
        type=positive_whole,
        default=50,
        metavar="N",
        help="at most so many (default %(default)s)",
    )


def run(given: argparse.Namespace) -> int:
    """Prints the list."""
    with open_farm(given) as farm:
        found = list(farm.artifacts(given.limit))
    if given.json:
        print_json(found)
        return 0
    rows = [
        (
            one.key,
            one.digest[:16],
            readable_bytes(one.size),
            local_time(one.created),
            one.quarantined,
        )
        for one in found
    ]
    print_table(rows, ("KEY", "ARTIFACT", "SIZE", "CREATED", "IN QUARANTINE BECAUSE"))
    return 0
