"""What a bound call costs beside the compiled code: a model of 150 small weights, one input.

Its own Python flattens arguments, watches the weights, checks the inputs and builds the result.
Measured in two ways, because neither is beyond doubt:

    difference_us   the whole call, less the native runner's run on the same prepared tensors;
                    small beside both, so it has the noise of both
    own_us          the call with the compiled code taken out: without that noise, but the
                    processor's caches are warmer than they are when the compiled code has run
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
    from compile_farm.v1 import graph_pb2

    model, args = build("narrow150")
    with torch.no_grad(), Farm(given.url) as farm:
        artifact = farm.submit(model, args).result()
        bound: Any = artifact.bind(model)
        run = bound._run
        seen = _Replay(run)
        bound._run = seen
        bound(*args)
        bound._run = run
        whole, native = _medians(lambda: bound(*args), lambda: run(seen.tensors))
        bound._run = seen
        (own,) = _medians(lambda: bound(*args))
        weights = sum(
            entry.role != graph_pb2.ROLE_USER_INPUT for entry in artifact.manifest.signature.inputs
        )
    found = {
        "call_us": whole * 1e6,
        "native_us": native * 1e6,
        "difference_us": (whole - native) * 1e6,
        "own_us": own * 1e6,
        "weights": weights,
    }
    print(json.dumps(found))


class _Replay:
    """In place of the compiled code: keeps what it was first given, and answers as it did then."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run = run
        self._outputs: Any = None
        self.tensors: Any = None

    def __call__(self, tensors: Any) -> Any:
        if self._outputs is None:
            self.tensors = tensors
            self._outputs = self._run(tensors)
        return self._outputs


def _medians(*calls: Callable[[], Any]) -> list[float]:
    """Median seconds of a call each, measured in turns; on a GPU nobody waits for the kernels."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(_ROUNDS):
        for call, found in zip(calls, times, strict=True):
            begin = time.perf_counter()
            for _ in range(_CALLS):
                call()
            found.append((time.perf_counter() - begin) / _CALLS)
    return [statistics.median(found) for found in times]


if __name__ == "__main__":
    main()
