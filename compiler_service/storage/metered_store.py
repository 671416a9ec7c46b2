"""A store that counts what its tier answered, and says so in the log when the tier goes or returns.

In: every call to one tier. Out: the same answers, and a TierStatus.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from compile_farm.v1 import compiler_pb2
from compiler_service.storage.name import Name, Space
from compiler_service.storage.outcome import (
    Hit,
    Miss,
    Outcome,
    Presence,
    PutOutcome,
    Unavailable,
    outage,
)
from compiler_service.storage.store import Listed, Store

_log = logging.getLogger(__name__)


class MeteredStore(Store):
    """Counts objects read (hits, misses, corrupt ones among the misses) and calls that failed."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._status = compiler_pb2.TierStatus(name=inner.name, available=True)

    def status(self) -> compiler_pb2.TierStatus:
        """A copy; ``available`` is what the latest call showed, and true before the first."""
        copy = compiler_pb2.TierStatus()
        copy.CopyFrom(self._status)
        return copy

    @property
    def name(self) -> str:
        return self._inner.name

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        outcomes = await self._inner.get(names)
        for outcome in outcomes:
            if isinstance(outcome, Hit):
                self._status.hits += 1
            elif isinstance(outcome, Miss):
                self._status.misses += 1
                self._status.corrupt += len(outcome.corrupt)
        self._note(outcomes)
        return outcomes

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        presences = await self._inner.contains(names)
        self._note(presences)
        return presences

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        outcome = await self._inner.put(name, data)
        self._note(outcome)
        return outcome

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        outcome = await self._inner.delete(names)
        self._note(outcome)
        return outcome

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        listed = await self._inner.scan(space)
        self._note(listed)
        return listed

    async def close(self) -> None:
        await self._inner.close()

    def _note(self, answer: object) -> None:
        failed = outage(answer)
        if failed is not None:
            self._status.unavailable += 1
            if self._status.available:
                _log.warning("tier %s is unavailable: %s", self.name, failed.reason)
        elif not self._status.available:
            _log.info("tier %s answers again", self.name)
        self._status.available = failed is None
