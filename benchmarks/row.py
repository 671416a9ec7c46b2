"""One way to a first result, in a process of its own; prints a line of JSON.

    python -m benchmarks.row MODEL[,MODEL] WAY [--url HOST:PORT] [--key KEY]
        [--publish]

With several models a line for each; only the first one's clock counts a process that is fresh.

The clock starts with the model in memory and nothing of the way imported, and stops when the first
result is there. Then come steady calls, and the largest difference from eager: over all tensors of
the result, relative to the largest value that eager has in that tensor.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.models import build, tensors_of
from benchmarks.parts import load_in_parts

if TYPE_CHECKING:
    from compile_farm import Farm

# Those that load a release, which --publish made.
RELEASED = ("farm-load", "farm-prefetch")
WAYS = (
    "eager",
    "compile",
    "farm-submit",
    "farm-compile",
    "farm-bind",
    "farm-parts",
    *RELEASED,
)
_STEADY_SECONDS = 3.0
_STEADY_CALLS = 200


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--url")
    parser.add_argument("--key")
    parser.add_argument("--publish", action="store_true", help="a release of it as well, at last")
    given = parser.parse_args()
    for name in given.model.split(","):
        print("ROW " + json.dumps(_measure(name, given)), flush=True)


def _measure(name: str, given: argparse.Namespace) -> dict[str, Any]:
    import torch

    farm = None
    if given.way == "farm-prefetch":
        # As a host does that then reads its weights: what is there by then is not on the clock.
        farm = _farm(given)
        farm.prefetch(_release(name))
    model, args = build(name)
    _synchronise()
    row: dict[str, Any] = {"model": name, "way": given.way}
    with torch.no_grad():
        begin = time.perf_counter()
        run = _prepare(given, model, args, row, farm)
        called = time.perf_counter()
        result = run(*args)
        _synchronise()
        end = time.perf_counter()
        row["first_call_s"] = end - called
        row["first_result_s"] = end - begin
        mine = [tensor.double() for tensor in tensors_of(result)]
        row["steady_s"], row["steady_calls"] = _steady(run, args)
        theirs = [tensor.double() for tensor in tensors_of(model(*args))]
        row["difference"] = _difference(mine, theirs)
        if given.publish:
            draft = _farm(given).release(_release(name))
            draft.add(model, args)
            draft.publish()
    return row


def _farm(given: argparse.Namespace) -> Farm:
    from compile_farm import Farm

    return Farm(given.url)


def _release(name: str) -> str:
    return f"benchmark-{name}@1"


def _prepare(
    given: argparse.Namespace,
    model: Any,
    args: tuple[Any, ...],
    row: dict[str, Any],
    farm: Farm | None,
) -> Callable[..., Any]:
    import torch

    if given.way == "eager":
        return model  # type: ignore[no-any-return]
    if given.way == "compile":
        return torch.compile(model)  # type: ignore[no-any-return]
    if given.way == "farm-compile":
        options = {"url": given.url, "on_miss": "wait"}
        return torch.compile(model, backend="compile_farm", options=options)  # type: ignore[no-any-return]
    if given.way == "farm-parts":
        bound, row["parts"] = load_in_parts(given.url, given.key, model)
        return bound
    if farm is None:
        farm = _farm(given)
    if given.way in RELEASED:
        loaded = farm.load(_release(row["model"]), model, on_miss="error")
        row["parts"] = loaded.seconds
        return loaded
    if given.way == "farm-bind":
        return farm.bind(given.key, model)
    from compile_farm.v1 import graph_pb2

    job = farm.submit(model, args)
    for event in job.events():
        if event.stage.name:
            words = f"{event.stage.fraction:4.0%} {event.stage.name} ({row['model']})"
            print(words, file=sys.stderr, flush=True)
    artifact = job.result()
    bound = artifact.bind(model)
    manifest = artifact.manifest
    row.update(
        key=artifact.key,
        hit=job.hit,
        weights=sum(one.role != graph_pb2.ROLE_USER_INPUT for one in manifest.signature.inputs),
        code_bytes=sum(entry.size for entry in manifest.files),
        artifact_bytes=next(one.size for one in farm.artifacts() if one.digest == artifact.digest),
        stages={one.stage: one.seconds for one in manifest.stages},
    )
    return bound


def _difference(mine: list[Any], theirs: list[Any]) -> float:
    """Infinite where one of them is not finite: max() would pass over a NaN."""
    largest = 0.0
    for one, other in zip(mine, theirs, strict=True):
        if one.shape != other.shape:
            raise ValueError(f"a result has the shape {tuple(one.shape)}, not {tuple(other.shape)}")
        found = float((one - other).abs().max() / other.abs().max().clamp_min(1e-300))
        largest = max(largest, found if math.isfinite(found) else math.inf)
    return largest


def _steady(run: Callable[..., Any], args: tuple[Any, ...]) -> tuple[float, int]:
    """Median of synchronised calls, in seconds, and their number."""
    for _ in range(3):
        run(*args)
    _synchronise()
    times: list[float] = []
    deadline = time.perf_counter() + _STEADY_SECONDS
    while len(times) < 5 or (time.perf_counter() < deadline and len(times) < _STEADY_CALLS):
        begin = time.perf_counter()
        run(*args)
        _synchronise()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), len(times)


def _synchronise() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
