"""Tune: which candidate is faster, as a whole graph, on this hardware.

In: lowered candidates. Out: the chosen one, and all timings for the manifest. On a GPU each is
captured into a CUDA graph, so that launch gaps don't decide; measurements are interleaved, so that
a drift of the clock meets all alike. A challenger needs to lead the defaults by more than the
spread of both; ties go to the defaults, so that winners don't flip from run to run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch

from compile_farm.runtime.native import open_native
from compile_farm.v1 import artifact_pb2
from compiler_service.engine.lower import Lowered
from compiler_service.engine.settings import Candidate

_ROUNDS = 30
# Seconds that one candidate's measurements may take.
_BUDGET = 10.0


@dataclass
class Trial:
    """A candidate on its way: lowered and callable, or rejected with a reason."""

    candidate: Candidate
    lowered: Lowered | None = None
    rejected: str = ""
    times: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.times) if self.times else 0.0

    @property
    def spread(self) -> float:
        """Interquartile range in seconds."""
        if len(self.times) < 4:
            return 0.0
        quarters = statistics.quantiles(self.times, n=4)
        return quarters[2] - quarters[0]


def choose(trials: list[Trial]) -> Trial:
    """The winner; the first trial stays unless another leads it beyond the noise of both."""
    stable = trials[0]
    best = stable
    for trial in trials[1:]:
        if trial.rejected or not trial.times:
            continue
        lead = stable.median - trial.median
        if lead > max(stable.spread, trial.spread) and trial.median < best.median:
            best = trial
    return best


def measure(trials: list[Trial], calls: dict[str, Callable[[], object]], cuda: bool) -> None:
    """Interleaved timings of one call each, in seconds, into ``trials``."""
    running = [trial for trial in trials if trial.candidate.name in calls]
    for trial in running:
        for _ in range(3):
            calls[trial.candidate.name]()
    deadline = time.perf_counter() + _BUDGET * max(len(running), 1)
    for _ in range(_ROUNDS):
        for trial in running:
            trial.times.append(_time(calls[trial.candidate.name], cuda))
        if time.perf_counter() > deadline and len(running[0].times) >= 5:
            break


def _time(call: Callable[[], object], cuda: bool) -> float:
    if not cuda:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def plain_call(
    lowered: Lowered, arguments: list[torch.Tensor], device: torch.device
) -> Callable[[], object]:
    """The artifact's code on these arguments; raises RuntimeError where it can't be mapped."""
    return partial(open_native(lowered.shared_object, device).run, arguments)


def graph_call(
    lowered: Lowered, arguments: list[torch.Tensor], device: torch.device
) -> Callable[[], object]:
    """A replay of the artifact in a CUDA graph; raises RuntimeError where it can't be captured.

    The runner asks an event whether its last call has ended, which only a relaxed capture lets it
    do. (AOTInductor's package loader asks nothing, but it unpacks to /tmp, where a confined child
    may not write.) Nothing else of this process may use the GPU meanwhile.
    """
    call = plain_call(lowered, arguments, device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="relaxed"):
        kept = call()

    def replay() -> None:
        _ = kept, call  # the memory and the code belong to the graph
        graph.replay()

    return replay


def record(trials: list[Trial], chosen: Trial, report: artifact_pb2.Report) -> None:
    """Writes all candidates into the report."""
    for trial in trials:
        report.candidates.add(
            name=trial.candidate.name,
            settings={name: str(value) for name, value in trial.candidate.settings.items()},
            median_seconds=trial.median,
            spread_seconds=trial.spread,
            measurements=len(trial.times),
            chosen=trial is chosen,
            rejected=trial.rejected,
        )
