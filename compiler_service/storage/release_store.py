"""Releases by name and revision, and which revision a name alone means.

In: serialised SignedReleases, which this file does not open. Out: the same, never altered: a
revision that is there is not written again. What a name alone means is a second, small record: the
revisions that were pinned, the current one last.

Two writers at one moment are not kept apart: of two different releases published as one revision,
or two pins of one name, the later one stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from compiler_service.storage import name as names
from compiler_service.storage.errors import NoTierError
from compiler_service.storage.metered_store import MeteredStore
from compiler_service.storage.name import Name
from compiler_service.storage.outcome import Hit, Outcome, Unavailable
from compiler_service.storage.read_through_store import (
    ReadThroughStore,
    put_in_each,
    require_one,
)
from compiler_service.storage.sealed import seal, unseal

# Of the revisions that were pinned, how many are remembered for going back.
_LONGEST_HISTORY = 100


class ReleaseStore:
    """``tiers`` as ArtifactStore has them; at least one."""

    def __init__(self, tiers: Sequence[MeteredStore]) -> None:
        self._tiers = tuple(tiers)
        self._store = ReadThroughStore(self._tiers)

    async def get(self, name: str, revision: str) -> bytes | None:
        """A release; None if there is none. Raises NoTierError where one may be."""
        return await self._read(_release(name, revision), f"{name}@{revision}")

    async def put(self, name: str, revision: str, release: bytes) -> None:
        """Keeps a release in every tier that answers. Raises PublishError if none takes it."""
        await self._write(_release(name, revision), release, f"{name}@{revision}")

    async def all(self) -> list[bytes]:
        """Every release that can be read now, in no order. Raises NoTierError."""
        listed = await self._store.scan("releases")
        if isinstance(listed, Unavailable):
            raise _outage(listed, "releases")
        found = [one.name for one in listed]
        outcomes = await self._store.get(found) if found else []
        opened = (_opened(name, one) for name, one in zip(found, outcomes, strict=True))
        return [release for release in opened if release is not None]

    async def history(self, name: str) -> list[str]:
        """The revisions that were pinned, the current one last; empty: none is. NoTierError."""
        data = await self._read(_pins(name), f"the pins of {name}")
        try:
            history = json.loads(data) if data else []
        except ValueError:
            return []
        return [one for one in history if isinstance(one, str)]

    async def keep_history(self, name: str, history: Sequence[str]) -> None:
        """Replaces it. Raises PublishError if no tier takes it."""
        data = json.dumps(list(history)[-_LONGEST_HISTORY:]).encode()
        await self._write(_pins(name), data, f"the pins of {name}")

    async def settle(self) -> None:
        """Wait for the copies into upper tiers that earlier reads began."""
        await self._store.settle()

    async def _read(self, name: Name, what: str) -> bytes | None:
        (outcome,) = await self._store.get([name])
        if isinstance(outcome, Unavailable):
            raise _outage(outcome, what)
        return _opened(name, outcome)

    async def _write(self, name: Name, data: bytes, what: str) -> None:
        outcomes = await put_in_each(self._tiers, name, seal(name, data))
        require_one(outcomes, what)


def _opened(name: Name, outcome: Outcome) -> bytes | None:
    return unseal(name, outcome.data) if isinstance(outcome, Hit) else None


def _outage(outage: Unavailable, what: str) -> NoTierError:
    return NoTierError(
        f"{', '.join(outage.tiers)} may have {what} and does not answer", remedy="try again later"
    )


def _release(name: str, revision: str) -> Name:
    return names.Name("releases", _sha256(f"{name}@{revision}"))


def _pins(name: str) -> Name:
    return names.Name("pins", _sha256(name))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
