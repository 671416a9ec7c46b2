"""Publish what was compiled under a name and revision, and say which revision a name means.

  compile-farm release publish chat-8b@2026-12-01 model.py:make   compile, sign and publish
  compile-farm release list [NAME]                                what was published
  compile-farm release show NAME@REVISION                         what it holds
  compile-farm release diff NAME@OLD NAME@NEW                     what changed
  compile-farm release pin NAME@REVISION                          the name alone means this one
  compile-farm release rollback NAME                              ... what it meant before

Hosts load a release with farm.load("NAME@REVISION", model).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable

from compile_farm.cli.common import (
    UsageError,
    add_farm_arguments,
    add_option_arguments,
    local_time,
    open_farm,
    print_json,
    print_table,
    readable_bytes,
)
from compile_farm.farm import Farm
from compile_farm.release.check import ReleaseRef
from compile_farm.release.difference import release_differences
from compile_farm.targets import describe
from compile_farm.v1 import release_pb2

HELP = "publish artifacts under a name and revision, for hosts to load"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's actions, each with its own options."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    def action(
        name: str, run: Callable[[Farm, argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text, description=text)
        add_farm_arguments(made)
        made.set_defaults(action=run)
        return made

    made = action("publish", _publish, "compile models, and publish what came of them")
    made.add_argument("release", metavar="NAME@REVISION")
    made.add_argument(
        "factories",
        metavar="FILE.py:FACTORY",
        nargs="+",
        help="as for `compile-farm compile`; each adds one signature of the same model",
    )
    add_option_arguments(made)
    made = action("list", _list, "what was published, newest first")
    made.add_argument("name", metavar="NAME", nargs="?", default="")
    made = action("show", _show, "what a release holds")
    made.add_argument("release", metavar="NAME@REVISION", help="or NAME for the current one")
    made = action("diff", _diff, "what one release has that another has not; 1 if they differ")
    made.add_argument("old", metavar="OLD")
    made.add_argument("new", metavar="NEW")
    made = action("pin", _pin, "from now on the name alone means this revision")
    made.add_argument("release", metavar="NAME@REVISION", help="NAME alone: the newest again")
    made = action("rollback", _rollback, "the name alone means what it meant before")
    made.add_argument("name", metavar="NAME")


def run(given: argparse.Namespace) -> int:
    """Runs the action."""
    with open_farm(given) as farm:
        code: int = given.action(farm, given)
        return code


def _publish(farm: Farm, given: argparse.Namespace) -> int:
    from compile_farm.cli.compile import followed
    from compile_farm.cli.factory import load_request

    draft = farm.release(given.release)
    farm.capabilities()  # a farm that is away is told before minutes of capturing
    jobs = []
    for factory in given.factories:
        if not given.json:
            print(f"capturing {factory}", file=sys.stderr)
        # What the model prints is no result of this command.
        with contextlib.redirect_stdout(sys.stderr):
            request = load_request(factory)
            job = draft.add(
                request.model,
                request.args,
                request.kwargs,
                request.dynamic_shapes,
                effort=given.effort,
                numerics=given.numerics,
            )
        jobs.append(job)
    for job in jobs:
        followed(job, given.json)
    release = draft.publish()
    if given.json:
        print_json(release)
    else:
        print(f"published {release.name}@{release.revision}: {len(release.entries)} artifacts")
    return 0


def _list(farm: Farm, given: argparse.Namespace) -> int:
    found = farm.releases(given.name)
    if given.json:
        print_json(release_pb2.ListReleasesResponse(releases=found))
        return 0
    rows = [
        (
            f"{one.name}@{one.revision}",
            local_time(one.created),
            str(one.entries),
            "pinned" if one.pinned else "current" if one.current else "",
        )
        for one in found
    ]
    print_table(rows, ("RELEASE", "PUBLISHED", "ARTIFACTS", ""))
    return 0


def _show(farm: Farm, given: argparse.Namespace) -> int:
    release = farm.resolve(given.release)
    if given.json:
        print_json(release)
        return 0
    print(f"{release.name}@{release.revision}, published {local_time(release.created)}")
    for component in release.components:
        name = f"{component.name}: " if component.name else ""
        print(f"{name}{component.type_name}, from {len(component.sources)} source files")
        for source in component.sources:
            print(f"  {source.sha256[:16]}  {source.module}")
    print()
    rows = [
        (
            f"{one.component}.{one.method}".lstrip("."),
            one.components.signature[:8],
            one.key[:16],
            one.digest[:16],
            readable_bytes(one.size),
            describe(one.target),
        )
        for one in release.entries
    ]
    print_table(rows, ("ENTRY POINT", "SIGNATURE", "KEY", "ARTIFACT", "SIZE", "TARGET"))
    return 0


def _diff(farm: Farm, given: argparse.Namespace) -> int:
    lines = release_differences(farm.resolve(given.old), farm.resolve(given.new))
    for line in lines:
        print(line)
    return 1 if lines else 0


def _pin(farm: Farm, given: argparse.Namespace) -> int:
    ref = ReleaseRef.parse(given.release)
    farm.pin(ref.name, ref.revision)
    print(f"{ref.name} means {ref if ref.revision else 'its newest revision'} from now on")
    return 0


def _rollback(farm: Farm, given: argparse.Namespace) -> int:
    ref = ReleaseRef.parse(given.name)
    if ref.revision:
        raise UsageError(
            f"{ref} is a revision, and it is a name that is rolled back",
            remedy=f"compile-farm release pin {ref}, or rollback {ref.name}",
        )
    revision, before = farm.rollback(ref.name)
    print(f"{ref.name} means {ref.name}@{revision} from now on, no longer @{before}")
    return 0
