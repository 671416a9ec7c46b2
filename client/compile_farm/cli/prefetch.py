"""Fetch a release into the local cache, before a process needs it.

For an image's build, an init container, or a host that will be offline: with what this leaves in
the cache, farm.load of that release needs no farm.
"""

from __future__ import annotations

import argparse

from compile_farm.cli.common import add_farm_arguments, open_farm

HELP = "fetch a release into the local cache"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("release", metavar="NAME@REVISION", help="or NAME for the current one")
    add_farm_arguments(parser)


def run(given: argparse.Namespace) -> int:
    """Says how much came, and where it lies."""
    with open_farm(given) as farm:
        count = farm.prefetch(given.release).wait()
        print(f"{count} artifacts of {given.release} are in {farm.cache.folder}")
        if not count:
            print("none of the release's artifacts runs on this host")
    return 0 if count else 1
