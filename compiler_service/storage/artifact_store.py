"""The storage room's front door: publish an artifact under its key, look keys up, read by digest.

In: keys, digests, whole artifacts. Out: IndexEntries and outcomes. An entry is handed out only
while its artifact is there: one that points at nothing is removed and counts as a miss, so that the
artifact is built again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from compile_farm.artifact import is_hex_digest
from compile_farm.v1 import compiler_pb2
from compiler_service.storage import index_entry, name
from compiler_service.storage.errors import InvalidNameError, NoTierError
from compiler_service.storage.index_entry import IndexEntry
from compiler_service.storage.metered_store import MeteredStore
from compiler_service.storage.outcome import Found, Miss, Outcome, Stored, Unavailable
from compiler_service.storage.read_through_store import (
    ReadThroughStore,
    put_in_each,
    require_one,
)
from compiler_service.storage.release_store import ReleaseStore
from compiler_service.storage.store import Listed
from compiler_service.storage.views import BlobView, IndexView

_DEFAULT_PAGE = 100
_LARGEST_PAGE = 1000


@dataclass(frozen=True, slots=True)
class LookupResult:
    """``hits`` by key; ``unavailable`` names the tiers that may have what is missing.

    ``quarantined`` has the entries of keys whose artifact no host gets any more.
    """

    hits: dict[str, IndexEntry]
    unavailable: tuple[str, ...]
    quarantined: dict[str, IndexEntry] = field(default_factory=dict)


class ArtifactStore:
    """``tiers`` in the order of reading, each verified and bounded in time; at least one.

    ``releases`` has what pins artifacts under a name, in the same tiers.
    """

    def __init__(self, tiers: Sequence[MeteredStore]) -> None:
        self._tiers = tuple(tiers)
        self._store = ReadThroughStore(self._tiers)
        self._blobs = BlobView(self._store)
        self._index = IndexView(self._store)
        self.releases = ReleaseStore(self._tiers)

    async def lookup(self, keys: Sequence[str]) -> LookupResult:
        """Which keys have an artifact that can be read now, in the order asked.

        Raises InvalidNameError for a key that is not 64 hexadecimal digits.
        """
        indexed = await self._index.get(list(dict.fromkeys(keys)))
        entries = [entry for entry in indexed.entries.values() if not entry.quarantined]
        quarantined = {k: entry for k, entry in indexed.entries.items() if entry.quarantined}
        presences = await self._blobs.contains([entry.digest for entry in entries])
        hits: dict[str, IndexEntry] = {}
        gone: list[str] = []
        failed = list(indexed.failed.values())
        for entry, presence in zip(entries, presences, strict=True):
            match presence:
                case Found(tier):
                    hits[entry.key] = replace(entry, tier=tier)
                case Unavailable():
                    failed.append(presence)
                case Miss():
                    gone.append(entry.key)
        if gone:
            # Somebody may publish one of them in this moment, and lose the new entry: then it is
            # built once more than needed, and nothing wrong is ever handed out.
            await self._index.remove(gone)
        unavailable = tuple(dict.fromkeys(t for outage in failed for t in outage.tiers))
        return LookupResult(hits, unavailable, quarantined)

    async def read(self, digest: str) -> Outcome:
        """The artifact's bytes, their SHA-256 checked. Raises InvalidNameError."""
        return await self._blobs.get(digest)

    async def publish(self, key: str, data: bytes) -> IndexEntry:
        """Keep an artifact and make it the one of its key: in every tier that answers.

        The bytes are in every tier before the entry is in any. The entry's ``missed`` names the
        tiers that were down. Raises PublishError if no tier took both, InvalidNameError.
        """
        index_name = name.index(key)
        entry = IndexEntry(key, hashlib.sha256(data).hexdigest(), len(data), int(time.time()))
        blobs = await put_in_each(self._tiers, name.blob(entry.digest), data)
        require_one(blobs, f"the artifact of {key}")
        # A tier that refuses a large artifact may point at one that lies below; a tier that was
        # down for the artifact must not come back in time for a pointer at nothing.
        reached = [
            tier
            for tier, outcome in zip(self._tiers, blobs, strict=True)
            if not isinstance(outcome, Unavailable)
        ]
        entries = await put_in_each(reached, index_name, index_entry.encode(entry))
        require_one(entries, f"the index entry of {key}")
        missed = (o.tiers for o in (*blobs, *entries) if isinstance(o, Unavailable))
        return replace(
            entry,
            tier=next(o.tiers[0] for o in blobs if isinstance(o, Stored)),
            missed=tuple(tier for tiers in missed for tier in tiers),
        )

    async def quarantine(self, key: str, digest: str, reason: str) -> bool:
        """Marks the artifact of a key as wrong; False if it is another one or none.

        Raises PublishError if no tier took the mark, InvalidNameError.
        """
        entry = await self._entry(key)
        if entry is None or entry.digest != digest:
            return False
        if not entry.quarantined:
            marked = replace(entry, quarantined=reason)
            outcomes = await put_in_each(self._tiers, name.index(key), index_entry.encode(marked))
            require_one(outcomes, f"the quarantine of {key}")
        return True

    async def quarantined(self, keys: Sequence[str]) -> dict[str, IndexEntry]:
        """Those of ``keys`` whose artifact no host gets any more, as far as the index is read.

        Looks for no artifact. Raises InvalidNameError.
        """
        indexed = await self._index.get(keys)
        return {key: entry for key, entry in indexed.entries.items() if entry.quarantined}

    async def lift_quarantine(self, key: str) -> bool:
        """Ends a quarantine: the key has no artifact then. False if it is in none.

        Raises NoTierError, InvalidNameError.
        """
        entry = await self._entry(key)
        if entry is None or not entry.quarantined:
            return False
        await self._index.remove([key])
        return True

    async def _entry(self, key: str) -> IndexEntry | None:
        """What the index says of a key, its artifact there or not. Raises NoTierError."""
        indexed = await self._index.get([key])
        if key in indexed.failed:
            raise NoTierError(
                f"{', '.join(indexed.failed[key].tiers)} may know of {key} and does not answer",
                remedy="try again later",
            )
        return indexed.entries.get(key)

    def tiers(self) -> Sequence[compiler_pb2.TierStatus]:
        """Each tier's counts and whether its latest call was answered, in the order of reading."""
        return [tier.status() for tier in self._tiers]

    async def settle(self) -> None:
        """Wait for the copies into upper tiers that earlier reads began."""
        await self._store.settle()
        await self.releases.settle()

    async def close(self) -> None:
        """Finish those copies and let go of connections."""
        await self.releases.settle()
        await self._store.close()

    async def list(self, limit: int, page_token: str) -> tuple[list[IndexEntry], str]:
        """At most ``limit`` entries (0: 100; never over 1,000), newest first, and the next token.

        ``page_token`` is empty for the first page; the returned one is empty after the last. Newest
        is by when the entry first came to a tier. Raises NoTierError, InvalidNameError.
        """
        size = min(limit, _LARGEST_PAGE) if limit > 0 else _DEFAULT_PAGE
        before = _position_of(page_token) if page_token else None
        scanned = await self._index.scan()
        if isinstance(scanned, Unavailable):
            raise NoTierError(
                f"no tier of the store answers: {scanned.reason}", remedy="try again later"
            )
        order = sorted(
            (p for p in map(_position, scanned) if before is None or p < before), reverse=True
        )
        page: list[IndexEntry] = []
        while order and len(page) < size:
            # Entries may have gone since the scan: go on until the page is full.
            taken = order[: size - len(page)]
            order = order[len(taken) :]
            keys = [key for _, key in taken]
            found = await self.lookup(keys)
            known = {**found.hits, **found.quarantined}
            page += (known[key] for key in keys if key in known)
            before = taken[-1]
        token = f"{before[0]}-{before[1]}" if order and before else ""
        return page, token


def _position(listed: Listed) -> tuple[int, str]:
    """Milliseconds and key: where an entry stands in the list."""
    return int(listed.modified * 1000), listed.name.digits


def _position_of(page_token: str) -> tuple[int, str]:
    milliseconds, _, key = page_token.partition("-")
    if not (milliseconds.isascii() and milliseconds.isdigit() and is_hex_digest(key)):
        raise InvalidNameError(
            f"{page_token[:100]!r} is no page token", remedy="pass the one of the answer before"
        )
    return int(milliseconds), key
