"""The logic behind the Releases service: what pins artifacts under a name and revision.

In: requests as they came. Out: signed releases. Only artifacts that the store has now, and that are
in no quarantine, can be published.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from google.protobuf.message import DecodeError

from compile_farm.errors import InvalidReleaseError
from compile_farm.release.check import (
    MAX_RELEASE_BYTES,
    check_name,
    check_release,
    check_revision,
)
from compile_farm.v1 import artifact_pb2, compiler_pb2, release_pb2
from compiler_service.errors import (
    ExistsError,
    InvalidRequestError,
    NotFoundError,
    OutageError,
    PreconditionError,
    TooLargeError,
)
from compiler_service.storage.artifact_store import ArtifactStore
from compiler_service.storage.errors import StoreError

log = logging.getLogger(__name__)

Sign = Callable[[bytes], artifact_pb2.ManifestSignature]


class _Kept(NamedTuple):
    """What the store has of a release, and what was signed."""

    signed: release_pb2.SignedRelease
    release: release_pb2.Release


class ReleasesInstance:
    """Made once for a gateway; ``sign`` signs a serialised Release."""

    def __init__(self, store: ArtifactStore, sign: Sign) -> None:
        self._store = store
        self._releases = store.releases
        self._sign = sign

    async def publish(self, release: release_pb2.Release) -> release_pb2.PublishResponse:
        """Signs and keeps it, once all its artifacts are found to be there."""
        async with _checked():
            check_release(release)
            made = release_pb2.Release()
            made.CopyFrom(release)
            await self._check_artifacts(made.entries)
            if (kept := await self._read(made.name, made.revision)) is not None:
                return _again(kept, made)
            made.created = int(time.time())
            data = made.SerializeToString(deterministic=True)
            if len(data) > MAX_RELEASE_BYTES:
                raise TooLargeError(f"a release has at most {MAX_RELEASE_BYTES} bytes")
            signed = release_pb2.SignedRelease(release=data, signature=self._sign(data))
            await self._releases.put(made.name, made.revision, signed.SerializeToString())
        log.info("published %s@%s with %d entries", made.name, made.revision, len(made.entries))
        return release_pb2.PublishResponse(release=signed, created=True)

    async def resolve(self, name: str, revision: str) -> release_pb2.ResolveResponse:
        """A revision; without one the current."""
        async with _checked():
            check_name(name)
            if revision:
                check_revision(revision)
            else:
                revision = await self._current(name)
            kept = await self._read(name, revision)
            if kept is None:
                raise NotFoundError(f"there is no release {name}@{revision}")
            keys = list(dict.fromkeys(entry.key for entry in kept.release.entries))
            quarantined = await self._store.quarantined(keys)
        return release_pb2.ResolveResponse(
            release=kept.signed,
            quarantined=[
                compiler_pb2.Quarantined(key=key, digest=entry.digest, reason=entry.quarantined)
                for key, entry in quarantined.items()
            ],
        )

    async def list_releases(self, name: str) -> release_pb2.ListReleasesResponse:
        """Of a name, or of all."""
        async with _checked():
            if name:
                check_name(name)
            found = await self._published(name)
            names = dict.fromkeys(one.name for one in found)
            histories = {one: await self._releases.history(one) for one in names}
        summaries = []
        newest: set[str] = set()
        for one in found:
            history = histories[one.name]
            first = one.name not in newest
            newest.add(one.name)
            summaries.append(
                release_pb2.ReleaseSummary(
                    name=one.name,
                    revision=one.revision,
                    created=one.created,
                    entries=len(one.entries),
                    current=one.revision == history[-1] if history else first,
                    pinned=bool(history) and one.revision == history[-1],
                )
            )
        return release_pb2.ListReleasesResponse(releases=summaries)

    async def pin(self, name: str, revision: str) -> None:
        """The name alone means this revision from now on; without one the newest."""
        async with _checked():
            check_name(name)
            history: list[str] = []
            if revision:
                check_revision(revision)
                if await self._read(name, revision) is None:
                    raise NotFoundError(f"there is no release {name}@{revision}")
                history = await self._releases.history(name)
                if history[-1:] == [revision]:
                    return
                history.append(revision)
            elif not await self._published(name):
                raise NotFoundError(f"there is no release of {name}")
            await self._releases.keep_history(name, history)
        log.info("%s is %s from now on", name, revision or "its newest revision")

    async def rollback(self, name: str) -> release_pb2.RollbackResponse:
        """Back to what was current before."""
        async with _checked():
            check_name(name)
            history = await self._releases.history(name)
            current = history[-1] if history else await self._current(name)
            earlier = history[:-1] or await self._published_before(name, current)
            if not earlier:
                raise PreconditionError(f"there is no revision of {name} before {current}")
            await self._releases.keep_history(name, earlier)
        log.info("%s is back from %s to %s", name, current, earlier[-1])
        return release_pb2.RollbackResponse(revision=earlier[-1], before=current)

    async def _published_before(self, name: str, revision: str) -> list[str]:
        """The one published before ``revision``, or none."""
        revisions = [one.revision for one in await self._published(name)]
        after = revisions.index(revision) if revision in revisions else -1
        return revisions[after + 1 : after + 2]

    async def _current(self, name: str) -> str:
        history = await self._releases.history(name)
        if history:
            return history[-1]
        found = await self._published(name)
        if not found:
            raise NotFoundError(f"there is no release of {name}")
        return found[0].revision

    async def _published(self, name: str) -> list[release_pb2.Release]:
        """By name, newest first; of two in one second the later revision by its name."""
        found = []
        for data in await self._releases.all():
            kept = _parsed(data)
            if kept is not None and name in ("", kept.release.name):
                found.append(kept.release)
        found.sort(key=lambda one: (one.created, one.revision), reverse=True)
        return sorted(found, key=lambda one: one.name)

    async def _read(self, name: str, revision: str) -> _Kept | None:
        data = await self._releases.get(name, revision)
        return _parsed(data) if data is not None else None

    async def _check_artifacts(self, entries: Sequence[release_pb2.ReleaseEntry]) -> None:
        keys = list(dict.fromkeys(entry.key for entry in entries))
        found = await self._store.lookup(keys)
        for entry in entries:
            if entry.key in found.quarantined:
                raise PreconditionError(
                    f"the artifact of {entry.key} is in quarantine: "
                    f"{found.quarantined[entry.key].quarantined}"
                )
            hit = found.hits.get(entry.key)
            if hit is None and found.unavailable:
                raise OutageError(
                    f"{', '.join(found.unavailable)} may have {entry.key} and does not answer"
                )
            if hit is None or hit.digest != entry.digest:
                now = f"it is {hit.digest[:16]} by now" if hit is not None else "there is none"
                raise PreconditionError(
                    f"the artifact of {entry.key} is not {entry.digest[:16]}: {now}; compile again"
                )
            entry.size = hit.size


@asynccontextmanager
async def _checked() -> AsyncIterator[None]:
    """Errors of the schema and the store as the service's."""
    try:
        yield
    except InvalidReleaseError as error:
        raise InvalidRequestError(str(error)) from error
    except StoreError as error:
        raise OutageError(str(error)) from error


def _again(kept: _Kept, asked: release_pb2.Release) -> release_pb2.PublishResponse:
    """The answer to a publication of what is there; raises ExistsError if it differs."""
    asked.created = kept.release.created
    if kept.release != asked:
        raise ExistsError(
            f"{asked.name}@{asked.revision} was published with other content, and a release never "
            "changes: choose another revision"
        )
    return release_pb2.PublishResponse(release=kept.signed, created=False)


def _parsed(data: bytes) -> _Kept | None:
    kept = _Kept(release_pb2.SignedRelease(), release_pb2.Release())
    try:
        kept.signed.ParseFromString(data)
        kept.release.ParseFromString(kept.signed.release)
    except DecodeError:
        log.error("a release of the store can't be read")
        return None
    return kept
