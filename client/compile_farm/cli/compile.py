"""Capture a model of yours and have the farm compile it.

FACTORY is a function without parameters that returns (model, args), (model, args, kwargs), or a
dict with model, args, kwargs and dynamic_shapes:

  compile-farm compile model.py:make
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from compile_farm.cli.common import (
    UsageError,
    add_farm_arguments,
    add_option_arguments,
    open_farm,
    print_json,
    readable_bytes,
)

if TYPE_CHECKING:
    from compile_farm.fetched import Artifact
    from compile_farm.job import Job
    from compile_farm.v1 import compiler_pb2

HELP = "compile a model of yours"
_BAR = 28


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("factory", metavar="FILE.py:FACTORY", help="or package.module:factory")
    add_farm_arguments(parser)
    add_option_arguments(parser)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the signed artifact, a zip, here too"
    )
    parser.add_argument(
        "--require-hit",
        action="store_true",
        help="compile nothing: where the farm has no artifact, say why and exit with 1",
    )


def run(given: argparse.Namespace) -> int:
    """Captures, compiles, and prints the key."""
    from compile_farm.cli.explain import print_explanation
    from compile_farm.cli.factory import load_request

    if given.out is not None and not given.out.parent.is_dir():
        raise UsageError(f"--out: there is no folder {given.out.parent}")
    with open_farm(given) as farm:
        farm.capabilities()  # a farm that is away is told before minutes of capturing
        _say("capturing", given.json)
        begin = time.perf_counter()
        # What the model prints is no result of this command.
        with contextlib.redirect_stdout(sys.stderr):
            request = load_request(given.factory)
            asked = request.model, request.args, request.kwargs, request.dynamic_shapes
            if given.require_hit:
                why = farm.explain(*asked, effort=given.effort, numerics=given.numerics)
            else:
                job = farm.submit(*asked, effort=given.effort, numerics=given.numerics)
        if given.require_hit:
            if not why.hit:
                print_explanation(why, given.json)
                return 1
            artifact, hit = farm.artifact(why.here.key), True
        else:
            artifact, hit = followed(job, given.json), job.hit
        seconds = time.perf_counter() - begin
    if given.out is not None:
        _write(artifact, given.out)
    size = sum(entry.size for entry in artifact.manifest.files)
    if given.json:
        print_json(
            {
                "key": artifact.key,
                "digest": artifact.digest,
                "hit": hit,
                "seconds": round(seconds, 3),
                "code_bytes": size,
            }
        )
        return 0
    print(f"key       {artifact.key}")
    print(f"artifact  {artifact.digest}")
    how = "a hit" if hit else "compiled"
    print(f"code      {readable_bytes(size)}, {how}, {seconds:.1f} s")
    print(f'load it   farm.bind("{artifact.key}", model)')
    return 0


def _write(artifact: Artifact, out: Path) -> None:
    """The zip again, from its parts in the local cache; signed as it was."""
    from compile_farm.artifact import SIGNATURE_NAME, pack, parse_signature

    signature = parse_signature((artifact.folder / SIGNATURE_NAME).read_bytes())
    manifest = artifact.manifest
    files = {entry.name: (artifact.folder / entry.name).read_bytes() for entry in manifest.files}
    try:
        out.write_bytes(pack(manifest, files, lambda _: signature))
    except OSError as error:
        raise UsageError(f"--out: {error}") from error


def followed(job: Job, quiet: bool) -> Artifact:
    """What came of the job, its progress shown meanwhile; Ctrl-C cancels it."""
    try:
        _follow(job, quiet)
        return job.result()
    except KeyboardInterrupt:
        job.cancel()
        raise


def _follow(job: Job, quiet: bool) -> None:
    """A bar on a terminal, a line for each stage elsewhere; returns when the job has ended."""
    bar = sys.stderr.isatty()
    last = ""
    for event in job.events():
        fraction, words = _progress(event)
        if quiet or not words or words == last:
            continue
        last = words
        if bar:
            full = round(fraction * _BAR)
            line = f"[{'#' * full}{'.' * (_BAR - full)}] {fraction:4.0%} {words:40.40}"
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
        else:
            print(f"{fraction:4.0%} {words}", file=sys.stderr, flush=True)
    if bar and last:
        print("\r" + " " * (_BAR + 48) + "\r", end="", file=sys.stderr, flush=True)


def _progress(event: compiler_pb2.Event) -> tuple[float, str]:
    kind = event.WhichOneof("kind")
    if kind == "queued":
        return 0.0, f"queued, position {event.queued.position}"
    if kind == "stage":
        return event.stage.fraction, f"{event.stage.name} {event.stage.detail}".strip()
    return 1.0, ""


def _say(words: str, quiet: bool) -> None:
    if not quiet:
        print(words, file=sys.stderr)
