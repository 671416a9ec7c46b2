"""The logic behind the Artifacts service: bytes by digest, and a list of what there is."""

from __future__ import annotations

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

CHUNK_BYTES = 1024**2
_MAX_PAGE = 1000


class ArtifactsInstance:
    """Made once for a gateway."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    async def read(self, digest: str, offset: int) -> AsyncIterator[compiler_pb2.ReadResponse]:
        """The bytes from ``offset`` on, at most 1 MiB a message."""
        if not is_hex_digest(digest):
            raise InvalidRequestError(f"{digest[:80]!r} is no digest (64 hexadecimal digits)")
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
                    key=entry.key, digest=entry.digest, size=entry.size, created=entry.created
                )
                for entry in entries
            ],
            next_page_token=token,
        )
