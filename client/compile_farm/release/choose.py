"""Which artifacts of a release a host takes: its own target's, else the nearest that runs here.

In: a release's entries and the host's target. Out: for each entry point and signature one entry,
and what is said of it where it was not built for exactly this host.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compile_farm.targets import ISA_LEVELS, describe, why_incompatible
from compile_farm.v1 import release_pb2, target_pb2


@dataclass(frozen=True)
class Choice:
    """``note`` is empty for the host's own target; otherwise what differs, for people."""

    entry: release_pb2.ReleaseEntry
    note: str = ""


def choose(entries: Iterable[release_pb2.ReleaseEntry], host: target_pb2.Target) -> list[Choice]:
    """In the release's order. An entry point that nothing here runs is not among them."""
    best: dict[tuple[str, ...], tuple[int, Choice]] = {}
    for entry in entries:
        rank, note = _rank(entry.target, host)
        if rank is None:
            continue
        components = entry.components
        place = (
            entry.component,
            entry.method,
            components.graph,
            components.signature,
            components.calling_convention,
        )
        # Of two efforts for one target the higher: it is kept only where it measured faster.
        rank = rank * 10 + (9 - entry.options.effort)
        if place not in best or rank < best[place][0]:
            best[place] = rank, Choice(entry, note)
    return [choice for _, choice in best.values()]


def why_none(entries: Iterable[release_pb2.ReleaseEntry], host: target_pb2.Target) -> str:
    """Why ``choose`` found nothing: for whom it was built, and why that is not this host."""
    reasons = {}
    for entry in entries:
        reason = why_incompatible(entry.target, host, other_card=True)
        reasons[describe(entry.target)] = reason or "it would run"
    listed = "; ".join(f"for {target}: {reason}" for target, reason in reasons.items())
    return f"this host is {describe(host)}; the release has code {listed or 'for nothing'}"


def _rank(built: target_pb2.Target, host: target_pb2.Target) -> tuple[int | None, str]:
    """0 for the host's own target, then the more alike the lower; None: it can't run."""
    if built == host:
        return 0, ""
    if why_incompatible(built, host) is None:
        # A lower level of the same CPU's instructions: the closest one first.
        below = ISA_LEVELS.index(host.cpu.isa) - ISA_LEVELS.index(built.cpu.isa)
        return below, f"built for {describe(built)}"
    if why_incompatible(built, host, other_card=True) is None:
        return 100, f"built for {describe(built)}: not tuned for this card"
    return None, ""
