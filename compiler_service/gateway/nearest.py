"""Which artifacts of the store are most like a request, for the explanation of a miss.

In: the components of a key, its target, a graph's summary. Out: the manifests most like them. The
index knows keys and digests alone, so the newest artifacts are read once for their manifests, which
are kept by digest: an artifact never changes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from compile_farm.artifact import manifest_of
from compile_farm.errors import CorruptArtifactError
from compile_farm.explain import rank
from compile_farm.v1 import artifact_pb2, compiler_pb2
from compiler_service.errors import OutageError
from compiler_service.storage.artifact_store import ArtifactStore
from compiler_service.storage.errors import StoreError
from compiler_service.storage.index_entry import IndexEntry
from compiler_service.storage.outcome import Hit

log = logging.getLogger(__name__)

_NEWEST = 500
_MOST_ANSWERS = 10
_SECONDS = 10.0
_AT_ONCE = 8
# A manifest without what only loading needs has some 50 bytes for each input and output.
_LARGEST_MANIFEST = 2 * 2**20
_KEPT_BYTES = 64 * 2**20
_LARGEST_CONSTANT = 1024


class NearestArtifacts:
    """Made once for a gateway."""

    def __init__(
        self, store: ArtifactStore, *, newest: int = _NEWEST, seconds: float = _SECONDS
    ) -> None:
        """``newest``: how many are looked at; ``seconds``: how long one answer may read for."""
        self._store = store
        self._newest = newest
        self._seconds = seconds
        self._kept: dict[str, artifact_pb2.Manifest | None] = {}
        # Two requests would read the same artifacts.
        self._reading = asyncio.Lock()

    async def find(self, request: compiler_pb2.NearestRequest) -> compiler_pb2.NearestResponse:
        """Raises OutageError where no tier answers."""
        try:
            entries, token = await self._store.list(self._newest, "")
        except StoreError as error:
            raise OutageError(str(error)) from error
        entries = [entry for entry in entries if not entry.quarantined]
        async with self._reading:
            await self._read(entries)
            known = [self._kept.get(entry.digest) for entry in entries]
        manifests = [
            manifest
            for manifest, entry in zip(known, entries, strict=True)
            # An artifact under a key that is not its own would be refused by every client.
            if manifest is not None and manifest.key == entry.key
        ]
        limit = min(request.limit or 1, _MOST_ANSWERS)
        return compiler_pb2.NearestResponse(
            manifests=rank(request.components, request.graph_summary, manifests, limit),
            compared=len(manifests),
            more=bool(token) or len(manifests) < len(entries),
        )

    async def _read(self, entries: Sequence[IndexEntry]) -> None:
        """Gets the manifests that are not known yet, as many as the time allows."""
        wanted = {entry.digest for entry in entries}
        self._kept = {digest: kept for digest, kept in self._kept.items() if digest in wanted}
        missing = [digest for digest in dict.fromkeys(e.digest for e in entries)
                   if digest not in self._kept]  # fmt: skip
        deadline = time.monotonic() + self._seconds
        size = sum(kept.ByteSize() for kept in self._kept.values() if kept is not None)
        for start in range(0, len(missing), _AT_ONCE):
            if time.monotonic() > deadline or size > _KEPT_BYTES:
                return
            batch = missing[start : start + _AT_ONCE]
            for digest, outcome in zip(
                batch, await asyncio.gather(*map(self._store.read, batch)), strict=True
            ):
                # What a tier could not give now, it may give the next time.
                if isinstance(outcome, Hit):
                    manifest = await asyncio.to_thread(_slim, digest, outcome.data)
                    self._kept[digest] = manifest
                    size += manifest.ByteSize() if manifest is not None else 0


def _slim(digest: str, data: bytes) -> artifact_pb2.Manifest | None:
    """What an explanation needs of a manifest; None for one that can't be read or is too large."""
    try:
        manifest = manifest_of(data)
    except CorruptArtifactError as error:
        log.warning("the manifest of %s can't be read: %s", digest[:16], error)
        return None
    for field in (
        "files",
        "compiled_inputs",
        "compiled_outputs",
        "verification",
        "stages",
        "report",
    ):
        manifest.ClearField(field)  # type: ignore[arg-type]
    for entry in manifest.signature.inputs:
        if len(entry.data) > _LARGEST_CONSTANT:
            entry.ClearField("data")
    return manifest if manifest.ByteSize() <= _LARGEST_MANIFEST else None
