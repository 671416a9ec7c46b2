"""One architecture in some ways, in a process of its own; prints a line of JSON for each way.

    python -m benchmarks.coverage_row NAME WAY[,WAY] --url HOST:PORT

In: an architecture of architectures.py. Out: for each way whether it gives what eager gives, and
if not, why. "START way" goes before each, so that whoever reads knows which one a crash ended.

All ways have one bound: eager's own rounding error (against the same model in float64; on a GPU
float32) times four, and at least that of a few roundings.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.architectures import by_name

WAYS = ("inductor", "export", "farm-compile", "farm-submit")
_TIMES_EAGER = 4.0
_WORDS = 600


class _Ended(Exception):
    """A way that came to no result."""

    def __init__(self, outcome: str, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.kind, self.reason = outcome, kind, reason


@dataclasses.dataclass
class _Subject:
    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    url: str
    graphs: int = 0


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("ways")
    parser.add_argument("--url", required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch
    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    for way in given.ways.split(","):
        print(f"START {way}", flush=True)
        with torch.no_grad():
            row = _measure(given.name, way, given.url)
        print("ROW " + json.dumps(row), flush=True)
        torch._dynamo.reset()


def _measure(name: str, way: str, url: str) -> dict[str, Any]:
    row: dict[str, Any] = {"way": way}
    try:
        # Built anew: a model may keep what an earlier call left in it.
        subject = _Subject(*by_name(name).build(), url=url)
        theirs = _call(subject.model, subject)
        bound = _bound(name, subject, theirs)
    except Exception as error:
        words = f"eager: {str(error)[:_WORDS]}"
        return {**row, "outcome": "failed", "kind": type(error).__name__, "reason": words}
    begin = time.perf_counter()
    try:
        mine = _RUNS[way](subject)
        row["error"] = difference(mine, theirs)
        row["outcome"] = "passed"
        if row["error"] > bound:
            row["outcome"] = "differs"
            row["reason"] = f"relative error {row['error']:.2g}, the bound is {bound:.2g}"
    except _Ended as ended:
        row.update(outcome=ended.outcome, kind=ended.kind, reason=ended.reason)
    except Mismatch as error:
        row.update(outcome="differs", reason=str(error))
    except Exception as error:
        kind, words = type(error).__name__, str(error).strip()[:_WORDS]
        row.update(outcome="failed", kind=kind, reason=words)
    return {**row, "bound": bound, "graphs": subject.graphs, "seconds": time.perf_counter() - begin}


def _call(run: Callable[..., Any], subject: _Subject) -> Any:
    import torch

    torch.manual_seed(0)
    result = run(*subject.args, **subject.kwargs)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result


def _inductor(subject: _Subject) -> Any:
    import torch
    from torch._dynamo.utils import counters

    counters.clear()
    mine = _call(torch.compile(subject.model, backend="inductor"), subject)
    subject.graphs = counters["stats"]["unique_graphs"]
    if not subject.graphs:
        raise _Ended("refused", "no graph", "Dynamo captured no graph: the model ran eager")
    return mine


def _export(subject: _Subject) -> Any:
    import torch

    try:
        program = torch.export.export(subject.model, subject.args, subject.kwargs)
    except Exception as error:
        raise _Ended("refused", type(error).__name__, str(error).strip()[:_WORDS]) from error
    subject.graphs = 1
    return _call(program.module(), subject)


def _farm_compile(subject: _Subject) -> Any:
    import torch

    from compile_farm import compiled_graphs

    options: dict[str, Any] = {"url": subject.url, "on_miss": "wait", "verify_on_load": 0}
    mine = _call(torch.compile(subject.model, backend="compile_farm", options=options), subject)
    graphs = compiled_graphs()
    subject.graphs = len(graphs)
    if not graphs:
        raise _Ended("refused", "no graph", "Dynamo captured no graph: the model ran eager")
    eager = [graph for graph in graphs if graph.state != "ready" or graph.fallbacks]
    if eager:
        ready = len(graphs) - len(eager)
        reasons = list(dict.fromkeys(graph.reason or "a call did not fit" for graph in eager))
        words = f"{len(eager)} of {len(graphs)} graphs ran eager: " + "; ".join(reasons)
        outcome = "partly" if ready else "refused"
        raise _Ended(outcome, eager[0].state, words[: 3 * _WORDS])
    return mine


def _farm_submit(subject: _Subject) -> Any:
    from compile_farm import CompileFailedError, CompileFarmError, Farm

    with Farm(subject.url) as farm:
        try:
            job = farm.submit(subject.model, subject.args, subject.kwargs)
            subject.graphs = 1
            # Unwatched: a canary would answer with eager's result where the artifact's differs.
            bound = job.result().bind(subject.model, verify_on_load=0)
            return _call(bound, subject)
        except CompileFarmError as error:
            kind = type(error).__name__
            if isinstance(error, CompileFailedError):
                kind += f" ({error.reason})"
            raise _Ended("refused", kind, str(error)[:_WORDS]) from error


_RUNS: dict[str, Callable[[_Subject], Any]] = {
    "inductor": _inductor,
    "export": _export,
    "farm-compile": _farm_compile,
    "farm-submit": _farm_submit,
}


class Mismatch(Exception):
    """Results that no relative error describes: another structure, shape, dtype or place of NaN."""


def difference(mine: Any, theirs: Any) -> float:
    """The largest relative error, by norm, over all tensors of two results. Raises Mismatch."""
    largest = 0.0
    ours, others = dict(_leaves(mine, "")), dict(_leaves(theirs, ""))
    if ours.keys() != others.keys():
        raise Mismatch(f"results {sorted(ours)}, where eager gives {sorted(others)}")
    for path, other in others.items():
        largest = max(largest, _leaf_difference(path or "the result", ours[path], other))
    return largest


def _leaf_difference(path: str, mine: Any, other: Any) -> float:
    import torch

    if not isinstance(other, torch.Tensor) or not isinstance(mine, torch.Tensor):
        if type(mine) is not type(other) or (mine != other and mine == mine):
            raise Mismatch(f"{path} is {mine!r}, where eager gives {other!r}")
        return 0.0
    for name in ("shape", "dtype", "device"):
        if getattr(mine, name) != getattr(other, name):
            words = f"{getattr(mine, name)}, where eager gives {getattr(other, name)}"
            raise Mismatch(f"{path} has the {name} {words}")
    if not (other.is_floating_point() or other.is_complex()):
        if not torch.equal(mine, other):
            raise Mismatch(f"{path}: {int((mine != other).sum())} integers differ")
        return 0.0
    wide = torch.complex128 if other.is_complex() else torch.float64
    a, b = mine.detach().to(wide), other.detach().to(wide)
    infinite = torch.isinf(b) & (a == b)
    if not torch.equal(torch.isnan(a), torch.isnan(b)) or bool(
        (torch.isinf(a) != torch.isinf(b)).any() or (torch.isinf(b) & ~infinite).any()
    ):
        raise Mismatch(f"{path}: NaN or infinity in other places")
    finite = torch.isfinite(b)
    a, b = a[finite], b[finite]
    return float((a - b).norm() / b.norm().clamp_min(1e-30)) if b.numel() else 0.0


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """(path, leaf) through ModelOutput, dicts, tuples, lists and dataclasses."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for one in dataclasses.fields(value):
            yield from _leaves(getattr(value, one.name), f"{path}.{one.name}")
    else:
        yield path, value


def _bound(name: str, subject: _Subject, theirs: Any) -> float:
    """Four times eager's own error where a model runs in higher precision, else a few roundings."""
    import torch

    gpu = torch.cuda.is_available()
    floor = 3e-2 if gpu else 64 * torch.finfo(torch.float32).eps
    wide = torch.float32 if gpu else torch.float64
    try:
        model, args, kwargs = by_name(name).build()
        precise = _Subject(model.to(wide), _widen(args, wide), _widen(kwargs, wide), subject.url)
        before = torch.get_default_dtype()
        torch.set_default_dtype(wide)
        try:
            exact = _call(precise.model, precise)
        finally:
            torch.set_default_dtype(before)
        return max(floor, _TIMES_EAGER * difference(_widen(theirs, wide), _widen(exact, wide)))
    except Exception:  # no kernel in that precision, or one that the model fixes
        return floor


def _widen(value: Any, dtype: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _widen(item, dtype) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_widen(item, dtype) for item in value)
    return value


if __name__ == "__main__":
    main()
