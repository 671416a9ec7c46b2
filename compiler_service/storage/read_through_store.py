"""Several tiers as one store, the fastest first.

In: names. Out: the answer of the first tier that has each. What a lower tier had is copied into the
upper ones that lacked it, in the background: a copy that fails costs nothing but the next read. A
tier that is down is passed over; only if no other has the object is the answer Unavailable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from compiler_service.storage.errors import PublishError
from compiler_service.storage.name import Name, Space
from compiler_service.storage.outcome import (
    Hit,
    Miss,
    Outcome,
    Presence,
    PutOutcome,
    Refused,
    Stored,
    Unavailable,
)
from compiler_service.storage.store import Listed, Store

_log = logging.getLogger(__name__)

T = TypeVar("T")

# Each fill holds its object in memory until it is written.
_MOST_FILLS = 64


class ReadThroughStore(Store):
    """``tiers`` in the order of reading; at least one."""

    def __init__(self, tiers: Sequence[Store]) -> None:
        if not tiers:
            raise ValueError("a store needs at least one tier")
        self._tiers = tuple(tiers)
        self._fills: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        return "+".join(tier.name for tier in self._tiers)

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        lacking: dict[Name, list[Store]] = {name: [] for name in names}

        async def ask(tier: Store, asked: Sequence[Name]) -> list[Outcome]:
            outcomes = await tier.get(asked)
            for name, outcome in zip(asked, outcomes, strict=True):
                if isinstance(outcome, Hit):
                    for upper in lacking[name]:
                        self._fill(upper, name, outcome.data)
                elif isinstance(outcome, Miss):
                    lacking[name].append(tier)
            return outcomes

        return await self._first(names, ask)

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        return await self._first(names, lambda tier, asked: tier.contains(asked))

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        return combined(await put_in_each(self._tiers, name, data))

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        answers = await asyncio.gather(*(tier.delete(names) for tier in self._tiers))
        failed = [answer for answer in answers if answer is not None]
        return _all_of(failed) if failed else None

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        """What any tier that answers holds, each name once, as of its first arrival anywhere."""
        answers = await asyncio.gather(*(tier.scan(space) for tier in self._tiers))
        failed = [answer for answer in answers if isinstance(answer, Unavailable)]
        if len(failed) == len(answers):
            return _all_of(failed)
        first: dict[Name, float] = {}
        for answer in answers:
            if not isinstance(answer, Unavailable):
                for one in answer:
                    first[one.name] = min(one.modified, first.get(one.name, one.modified))
        return [Listed(name, modified) for name, modified in first.items()]

    async def settle(self) -> None:
        """Wait for the copies under way."""
        while self._fills:
            await asyncio.gather(*self._fills, return_exceptions=True)

    async def close(self) -> None:
        await self.settle()
        await asyncio.gather(*(tier.close() for tier in self._tiers))

    async def _first(
        self,
        names: Sequence[Name],
        ask: Callable[
            [Store, Sequence[Name]], Coroutine[Any, Any, Sequence[T | Miss | Unavailable]]
        ],
    ) -> list[T | Miss | Unavailable]:
        """For each name, the first answer that is neither; tiers below are not asked for it."""
        found: dict[Name, T | Miss | Unavailable] = {}
        corrupt: dict[Name, tuple[str, ...]] = {}
        failed: dict[Name, list[Unavailable]] = {}
        pending = list(dict.fromkeys(names))
        for tier in self._tiers:
            if not pending:
                break
            for name, answer in zip(pending, await ask(tier, pending), strict=True):
                if isinstance(answer, Unavailable):
                    failed.setdefault(name, []).append(answer)
                elif isinstance(answer, Miss):
                    corrupt[name] = corrupt.get(name, ()) + answer.corrupt
                else:
                    found[name] = answer
            pending = [name for name in pending if name not in found]
        for name in pending:
            outages = failed.get(name)
            found[name] = _all_of(outages) if outages else Miss(corrupt.get(name, ()))
        return [found[name] for name in names]

    def _fill(self, tier: Store, name: Name, data: bytes) -> None:
        if len(self._fills) >= _MOST_FILLS:
            return
        task = asyncio.create_task(_copy(tier, name, data), name=f"fill {tier.name} {name}")
        self._fills.add(task)
        task.add_done_callback(self._fills.discard)


async def put_in_each(tiers: Sequence[Store], name: Name, data: bytes) -> list[PutOutcome]:
    """Write to all at once; the outcomes in the tiers' order."""
    return list(await asyncio.gather(*(tier.put(name, data) for tier in tiers)))


def require_one(outcomes: Sequence[PutOutcome], what: str) -> None:
    """Raises PublishError, with every tier's reason, unless one of them took ``what``."""
    if any(isinstance(outcome, Stored) for outcome in outcomes):
        return
    reasons = "; ".join(
        f"{', '.join(outcome.tiers)}: {outcome.reason}"
        for outcome in outcomes
        if not isinstance(outcome, Stored)
    )
    raise PublishError(
        f"no tier took {what}: {reasons}",
        remedy="free space on the disk, or bring Redis or S3 back",
    )


def combined(outcomes: Sequence[PutOutcome]) -> PutOutcome:
    """Stored if any tier took it, naming those that did and those that were down."""
    failed = [outcome for outcome in outcomes if isinstance(outcome, Unavailable)]
    took = tuple(tier for one in outcomes if isinstance(one, Stored) for tier in one.tiers)
    if took:
        return Stored(took, tuple(tier for outcome in failed for tier in outcome.tiers))
    if failed:
        return _all_of(failed)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    return Refused(
        tuple(tier for outcome in refused for tier in outcome.tiers),
        "; ".join(outcome.reason for outcome in refused),
    )


async def _copy(tier: Store, name: Name, data: bytes) -> None:
    try:
        outcome = await tier.put(name, data)
    except Exception:
        _log.exception("copying %s into tier %s failed; its read was answered", name, tier.name)
        return
    if isinstance(outcome, Unavailable):
        _log.warning("tier %s did not take a copy of %s: %s", tier.name, name, outcome.reason)


def _all_of(outages: Sequence[Unavailable]) -> Unavailable:
    return Unavailable(
        tuple(dict.fromkeys(tier for outage in outages for tier in outage.tiers)),
        "; ".join(dict.fromkeys(outage.reason for outage in outages)),
    )
