"""The logic behind the Artifacts service: bytes by digest, and a list of what there is."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from compile_farm.artifact import is_hex_digest
from compile_farm.v1 import compiler_pb2
from compiler_service.errors import (
    InvalidRequestError,
    NotFoundError,
    OutageError,
    OutOfRangeError,
)
from compiler_service.storage.artifact_store import ArtifactStore
from compiler_service.storage.errors import InvalidNameError, StoreError
from compiler_service.storage.outcome import Miss, Unavailable

log = logging.getLogger(__name__)

CHUNK_BYTES = 1024**2
_MAX_PAGE = 1000
_MAX_REASON = 1000


class ArtifactsInstance:
    """Made once for a gateway."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    async def read(self, digest: str, offset: int) -> AsyncIterator[compiler_pb2.ReadResponse]:
        """The bytes from ``offset`` on, at most 1 MiB a message."""
        _check_hex("digest", digest)
        outcome = await self._store.read(digest)
        if isinstance(outcome, Miss):
            raise NotFoundError(f"there is no artifact {digest}; compile again")
        if isinstance(outcome, Unavailable):
            raise OutageError(f"{', '.join(outcome.tiers)} may have it and does not answer")
        data = outcome.data
        if offset > len(data):
            raise OutOfRangeError(f"offset {offset} is past the end, {len(data)}")
        for start in range(offset, max(len(data), offset + 1), CHUNK_BYTES):
            yield compiler_pb2.ReadResponse(
                data=data[start : start + CHUNK_BYTES],
                total_size=len(data) if start == offset else 0,
            )

    async def list(self, limit: int, page_token: str) -> compiler_pb2.ListArtifactsResponse:
        """What the index holds, newest first."""
        try:
            entries, token = await self._store.list(min(limit or 100, _MAX_PAGE), page_token)
        except InvalidNameError as error:
            raise InvalidRequestError(str(error)) from error
        except StoreError as error:
            raise OutageError(str(error)) from error
        return compiler_pb2.ListArtifactsResponse(
            artifacts=[
                compiler_pb2.ArtifactSummary(
                    key=entry.key,
                    digest=entry.digest,
                    size=entry.size,
                    created=entry.created,
                    quarantined=entry.quarantined,
                )
                for entry in entries
            ],
            next_page_token=token,
        )

    async def quarantine(self, key: str, digest: str, reason: str) -> None:
        """No host gets this artifact from now on."""
        for what, given in (("key", key), ("digest", digest)):
            _check_hex(what, given)
        words = " ".join(reason.split())[:_MAX_REASON] or "no reason was given"
        try:
            found = await self._store.quarantine(key, digest, words)
        except StoreError as error:
            raise OutageError(str(error)) from error
        if not found:
            raise NotFoundError(f"the artifact of {key} is not {digest}, or there is none")
        log.warning("artifact %s of %s is in quarantine: %s", digest[:16], key[:16], words)

    async def lift_quarantine(self, key: str) -> None:
        """The key may be built anew."""
        _check_hex("key", key)
        try:
            found = await self._store.lift_quarantine(key)
        except StoreError as error:
            raise OutageError(str(error)) from error
        if not found:
            raise NotFoundError(f"{key} is in no quarantine")
        log.info("the quarantine of %s was ended", key[:16])


def _check_hex(what: str, given: str) -> None:
    if not is_hex_digest(given):
        raise InvalidRequestError(f"{given[:80]!r} is no {what} (64 hexadecimal digits)")
