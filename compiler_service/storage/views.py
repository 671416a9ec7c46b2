"""Two typed views on one store: artifacts by digest, and the index by key.

In: digests and keys. Out: bytes and IndexEntries. Both rely on the store below to be verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler_service.storage import index_entry, name
from compiler_service.storage.index_entry import IndexEntry
from compiler_service.storage.outcome import Hit, Miss, Outcome, Presence, Unavailable
from compiler_service.storage.store import Listed, Store


class BlobView:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, digest: str) -> Outcome:
        """Raises InvalidNameError."""
        return (await self._store.get([name.blob(digest)]))[0]

    async def contains(self, digests: Sequence[str]) -> list[Presence]:
        """Raises InvalidNameError."""
        return await self._store.contains([name.blob(digest) for digest in digests])


@dataclass(frozen=True, slots=True)
class Indexed:
    """What the index has of some keys; a key in neither has no entry."""

    entries: dict[str, IndexEntry]
    failed: dict[str, Unavailable]


class IndexView:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, keys: Sequence[str]) -> Indexed:
        """Raises InvalidNameError."""
        entries: dict[str, IndexEntry] = {}
        failed: dict[str, Unavailable] = {}
        outcomes = await self._store.get([name.index(key) for key in keys])
        for key, outcome in zip(keys, outcomes, strict=True):
            match outcome:
                case Hit(data):
                    entry = index_entry.decode(data)
                    if entry is not None:
                        entries[key] = entry
                case Unavailable():
                    failed[key] = outcome
                case Miss():
                    pass
        return Indexed(entries, failed)

    async def remove(self, keys: Sequence[str]) -> None:
        """Forget them wherever that is possible now."""
        await self._store.delete([name.index(key) for key in keys])

    async def scan(self) -> list[Listed] | Unavailable:
        """All that has an entry."""
        return await self._store.scan("index")
