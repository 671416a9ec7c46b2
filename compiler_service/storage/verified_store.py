"""A store that hands out nothing altered: every read is checked against the object's own name.

In: what the tier below read. Out: the same, but a truncated, altered or oversized object is a Miss:
it is deleted from that tier, which ``Miss.corrupt`` names, so the next tier is asked and, failing
all, the artifact is built again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence

from compiler_service.storage import index_entry
from compiler_service.storage.name import Name, Space
from compiler_service.storage.outcome import Hit, Miss, Outcome, Presence, PutOutcome, Unavailable
from compiler_service.storage.sealed import unseal
from compiler_service.storage.store import Listed, Store

_log = logging.getLogger(__name__)

# Hashing more than this (about a millisecond) happens in a thread, beside the event loop.
_LARGE = 1 << 20


class VerifiedStore(Store):
    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        outcomes = await self._inner.get(names)
        corrupt: list[Name] = []
        for position, (name, outcome) in enumerate(zip(names, outcomes, strict=True)):
            if isinstance(outcome, Hit) and not await _is_intact(name, outcome.data):
                _log.error(
                    "%s held %s truncated or altered (%d bytes): removing it",
                    outcome.tier,
                    name,
                    len(outcome.data),
                )
                corrupt.append(name)
                outcomes[position] = Miss(corrupt=(outcome.tier,))
        if corrupt:
            # If that fails, it is found corrupt again, or written over. If somebody has repaired it
            # since we read it, a good one goes, and is built once more: never wrong, only work.
            await self._inner.delete(corrupt)
        return outcomes

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        return await self._inner.contains(names)

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        return await self._inner.put(name, data)

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        return await self._inner.delete(names)

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        return await self._inner.scan(space)

    async def close(self) -> None:
        await self._inner.close()


async def _is_intact(name: Name, data: bytes) -> bool:
    if len(data) > name.largest:
        return False
    if name.space == "index":
        entry = index_entry.decode(data)
        return entry is not None and entry.key == name.digits
    if name.space in ("releases", "pins"):
        return unseal(name, data) is not None
    digest = await asyncio.to_thread(_sha256, data) if len(data) > _LARGE else _sha256(data)
    return digest == name.digits


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
