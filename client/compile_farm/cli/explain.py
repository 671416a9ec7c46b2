"""Why two keys differ, or why the farm has no artifact for a model of yours.

  compile-farm explain KEY KEY              one key against another
  compile-farm explain KEY                  against the nearest one in the store
  compile-farm explain FILE.py:FACTORY      what `compile` would ask for, against the nearest one
  compile-farm explain FILE.py:FACTORY KEY  or against this one

Captures, compares, and compiles nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from compile_farm.cli.common import (
    UsageError,
    add_farm_arguments,
    add_option_arguments,
    open_farm,
    print_json,
    whole_key,
)

if TYPE_CHECKING:
    from compile_farm.difference import Side
    from compile_farm.explain import Explanation
    from compile_farm.farm import Farm

HELP = "why two keys differ, or why there is no artifact for a model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "here",
        metavar="KEY|FILE.py:FACTORY",
        help="a key, whole or its first digits, or a factory as `compile` takes it",
    )
    parser.add_argument(
        "there",
        nargs="?",
        metavar="KEY",
        help="the key to compare with (default: the nearest in the store)",
    )
    add_farm_arguments(parser)
    add_option_arguments(parser)


def run(given: argparse.Namespace) -> int:
    """Prints what differs; 0 whether anything does or not."""
    if given.there and ":" in given.there:
        raise UsageError(
            f"{given.there!r} is no key", remedy="the second one is a key: explain FILE.py:make KEY"
        )
    with open_farm(given) as farm:
        against = whole_key(given.there, farm) if given.there else ""
        if ":" in given.here:
            found = _explain_model(farm, given, against)
        else:
            found = farm.explain_key(whole_key(given.here, farm), against)
    print_explanation(found, given.json)
    return 0


def _explain_model(farm: Farm, given: argparse.Namespace, against: str) -> Explanation:
    from compile_farm.cli.factory import load_request

    farm.capabilities()  # a farm that is away is told before minutes of capturing
    # What the model prints is no result of this command.
    with contextlib.redirect_stdout(sys.stderr):
        asked = load_request(given.here)
        return farm.explain(
            asked.model,
            asked.args,
            asked.kwargs,
            asked.dynamic_shapes,
            effort=given.effort,
            numerics=given.numerics,
            against=against,
        )


def print_explanation(found: Explanation, json: bool) -> None:
    """For a person, or as JSON."""
    if json:
        print_json(_plain(found))
        return
    print(f"here   {found.here.key}  {_built(found.here)}")
    if found.there is not None:
        print(f"there  {found.there.key}  {_built(found.there)}")
        if found.compared:
            others = ", the newest" if found.more else ""
            print(f"       the nearest of the {found.compared} artifacts compared{others}")
    print()
    for line in found.lines():
        print(line)


def _built(side: Side) -> str:
    from compile_farm.targets import describe

    when = ""
    if side.created:
        when = f", built {time.strftime('%Y-%m-%d %H:%M', time.localtime(side.created))}"
    return describe(side.target) + when


def _plain(found: Explanation) -> dict[str, Any]:
    from compile_farm.explain import same_components

    there = found.there
    return {
        "key": found.here.key,
        "hit": found.hit,
        "quarantined": found.quarantined,
        "there": there.key if there is not None else None,
        "compared": found.compared,
        "more": found.more,
        "same": same_components(found.here, there) if there is not None else [],
        "differences": [asdict(difference) for difference in found.differences],
    }
