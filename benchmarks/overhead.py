"""What a bound call costs beside the compiled code: a model of 150 small weights, one input.

Times the bound callable whole, and again with the compiled code taken out: what is left is its own
Python, which flattens arguments, watches the weights, checks the inputs and builds the result.
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
        bound: Any = artifact.bind(model)
        whole = _median(lambda: bound(*args))
        bound._run = _Replay(bound._run)
        own = _median(lambda: bound(*args))
        weights = sum(1 for entry in artifact.manifest.signature.inputs if entry.role != 1)
    print(json.dumps({"call_us": whole * 1e6, "own_us": own * 1e6, "weights": weights}))


class _Replay:
    """In place of the compiled code: its outputs of the first call, so that only Python is left."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run = run
        self._outputs: Any = None

    def __call__(self, tensors: Any) -> Any:
        if self._outputs is None:
            self._outputs = self._run(tensors)
        return self._outputs


def _median(call: Callable[[], Any]) -> float:
    """Median seconds of a call."""
    times: list[float] = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        for _ in range(_CALLS):
            call()
        times.append((time.perf_counter() - begin) / _CALLS)
    return statistics.median(times)


if __name__ == "__main__":
    main()
