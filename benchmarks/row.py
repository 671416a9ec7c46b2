"""One way to a first result, in a process of its own; prints a line of JSON.

    python -m benchmarks.row MODEL WAY [--url HOST:PORT] [--key KEY]

The clock starts with the model in memory and nothing of the way imported, and stops when the first
result is there. Then come steady calls, and the difference from eager.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.models import build, first_tensor

WAYS = ("eager", "compile", "farm-submit", "farm-compile", "farm-bind")
_STEADY_SECONDS = 3.0
_STEADY_CALLS = 200


def main() -> None:
    """Measures one row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--url")
    parser.add_argument("--key")
    given = parser.parse_args()
    import torch

    model, args = build(given.model)
    _synchronise()
    row: dict[str, Any] = {"model": given.model, "way": given.way}
    with torch.no_grad():
        begin = time.perf_counter()
        run = _prepare(given, model, args, row)
        called = time.perf_counter()
        result = run(*args)
        _synchronise()
        end = time.perf_counter()
        row["first_call_s"] = end - called
        row["first_result_s"] = end - begin
        mine = first_tensor(result).double()
        row["steady_s"], row["steady_calls"] = _steady(run, args)
        expected = first_tensor(model(*args)).double()
        row["difference"] = float((mine - expected).norm() / expected.norm())
    print("ROW " + json.dumps(row), flush=True)


def _prepare(
    given: argparse.Namespace, model: Any, args: tuple[Any, ...], row: dict[str, Any]
) -> Callable[..., Any]:
    import torch

    if given.way == "eager":
        return model  # type: ignore[no-any-return]
    if given.way == "compile":
        return torch.compile(model)  # type: ignore[no-any-return]
    if given.way == "farm-compile":
        options = {"url": given.url, "on_miss": "wait"}
        return torch.compile(model, backend="compile_farm", options=options)  # type: ignore[no-any-return]
    begin = time.perf_counter()
    from compile_farm import Farm

    farm = Farm(given.url)
    imported = time.perf_counter()
    if given.way == "farm-submit":
        job = farm.submit(model, args)
        for event in job.events():
            stage = event.stage
            if stage.name:
                print(f"{stage.fraction:4.0%} {stage.name}", file=sys.stderr, flush=True)
        artifact = job.result()
        row["hit"] = job.hit
    else:
        artifact = farm.artifact(given.key)
    fetched = time.perf_counter()
    artifact.open().runner(next(model.parameters()).device)
    opened = time.perf_counter()
    bound = artifact.bind(model)
    end = time.perf_counter()
    row.update(
        key=artifact.key,
        import_s=imported - begin,
        fetch_s=fetched - imported,
        open_s=opened - fetched,
        bind_s=end - opened,
        weights=sum(1 for entry in artifact.manifest.signature.inputs if entry.role != 1),
        code_bytes=sum(entry.size for entry in artifact.manifest.files),
        artifact_bytes=next(
            (one.size for one in farm.artifacts() if one.digest == artifact.digest), 0
        )
        if given.way == "farm-submit"
        else 0,
        stages={one.stage: one.seconds for one in artifact.manifest.stages},
    )
    return bound  # type: ignore[no-any-return]


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
