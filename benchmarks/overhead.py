"""What a bound call costs beside the compiled code: a model of 150 small weights, one input.

Times the bound callable, and the native runner alone on the same tensors, in turns; the difference
of the medians is the callable's own Python: flattening, checks, watching the weights, the result.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.models import build

_ROUNDS, _CALLS = 200, 50


def main() -> None:
    """Prints a line of JSON, times in microseconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url")
    given = parser.parse_args()
    import torch

    from compile_farm import Farm

    model, args = build("narrow150")
    with torch.no_grad(), Farm(given.url) as farm:
        artifact = farm.submit(model, args).result()
        bound = artifact.bind(model)
        weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        signature = artifact.manifest.signature
        tensors = [
            weights[signature.inputs[item.input].name].detach()
            if signature.inputs[item.input].name in weights
            else args[0]
            for item in artifact.manifest.compiled_inputs
        ]
        runner = artifact.open().runner(args[0].device)
        calls: dict[str, Callable[[], Any]] = {
            "call": lambda: bound(*args),
            "native": lambda: runner.run(tensors),
        }
        medians = _measure(calls)
    print(
        json.dumps(
            {
                "call_us": medians["call"] * 1e6,
                "native_us": medians["native"] * 1e6,
                "own_us": (medians["call"] - medians["native"]) * 1e6,
                "weights": len(tensors) - 1,
            }
        )
    )


def _measure(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median seconds of a call each; on a GPU both queue the same work and are not waited for."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(_CALLS):
                call()
            times[name].append((time.perf_counter() - begin) / _CALLS)
    return {name: statistics.median(found) for name, found in times.items()}


if __name__ == "__main__":
    main()
