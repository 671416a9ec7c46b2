"""Keep an artifact from every host, or end that.

For an artifact that gave a wrong number: no host gets it any more, and its key is not built again
until the quarantine ends. Hosts put artifacts there by themselves where they verify at load
(verify_on_load); this is the same by hand.
"""

from __future__ import annotations

import argparse

from compile_farm.cli.common import add_farm_arguments, open_farm
from compile_farm.errors import ArtifactNotFoundError

HELP = "keep an artifact from every host, or end that"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_farm_arguments(parser)
    parser.add_argument("key", metavar="KEY", help="the whole key, 64 hexadecimal digits")
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--reason", default="by an operator's hand", metavar="TEXT", help="what is wrong with it"
    )
    either.add_argument(
        "--lift", action="store_true", help="end it: the key is built anew when it is asked for"
    )


def run(given: argparse.Namespace) -> int:
    """Says what was done."""
    with open_farm(given) as farm:
        if given.lift:
            farm.lift_quarantine(given.key)
            print(f"{given.key} is built anew when it is next asked for")
            return 0
        found = farm.lookup([given.key])
        if given.key not in found:
            raise ArtifactNotFoundError(
                f"the farm at {farm.url} has no artifact under {given.key}",
                remedy="see `compile-farm artifacts`; one that is in quarantine already is listed "
                "with its reason",
            )
        digest = found[given.key].digest
        farm.quarantine(given.key, digest, given.reason)
    print(f"artifact {digest[:16]} of {given.key} is in quarantine")
    return 0
