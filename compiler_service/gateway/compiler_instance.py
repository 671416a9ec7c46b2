"""The logic behind the Compiler service; knows nothing of gRPC.

In: requests as they came. Out: answers and streams of events. The key is computed here from the
capture, and no client's is believed; a hit is answered from the store, everything else goes to the
dispatcher.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import zstandard

from compile_farm.artifact import is_hex_digest
from compile_farm.errors import InvalidGraphError
from compile_farm.key import KEY_VERSION, compute_key
from compile_farm.schema import SCHEMA_VERSION, parse_capture
from compile_farm.v1 import artifact_pb2, compiler_pb2
from compiler_service.dispatch.protocol import Dispatcher
from compiler_service.errors import InvalidRequestError, TooLargeError
from compiler_service.gateway.nearest import NearestArtifacts
from compiler_service.storage.artifact_store import ArtifactStore
from compiler_service.storage.index_entry import IndexEntry
from compiler_service.storage.outcome import Hit, Miss

MAX_LOOKUP_KEYS = 10_000
# zstd's own default settings use windows of up to 8 MiB.
_MIN_WINDOW_BYTES = 8 * 2**20
_MAX_REFUSALS = 100
_MAX_REFUSED = 1_000_000


class CompilerInstance:
    """Made once for a gateway."""

    def __init__(
        self,
        store: ArtifactStore,
        dispatcher: Dispatcher,
        *,
        version: str,
        public_keys: Sequence[bytes],
        max_capture_bytes: int,
        inline_bytes: int,
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._nearest = NearestArtifacts(store)
        self._version = version
        self._public_keys = list(public_keys)
        self._max_capture_bytes = max_capture_bytes
        self._inline_bytes = inline_bytes
        self._started = time.monotonic()
        self._hits = 0
        self._refusals: Counter[int] = Counter()

    def capabilities(self) -> compiler_pb2.GetCapabilitiesResponse:
        """What this farm is and serves."""
        return compiler_pb2.GetCapabilitiesResponse(
            version=self._version,
            graph_schema_versions=[SCHEMA_VERSION],
            key_version=KEY_VERSION,
            targets=self._dispatcher.targets(),
            public_keys=self._public_keys,
            max_capture_bytes=self._max_capture_bytes,
        )

    async def lookup(self, keys: Sequence[str]) -> compiler_pb2.LookupResponse:
        """Which keys have an artifact."""
        if len(keys) > MAX_LOOKUP_KEYS:
            raise InvalidRequestError(f"{len(keys)} keys in one request; at most {MAX_LOOKUP_KEYS}")
        for key in keys:
            if not is_hex_digest(key):
                raise InvalidRequestError(f"{key[:80]!r} is no key (64 hexadecimal digits)")
        found = await self._store.lookup(keys)
        # A single one may come along whole; for many, only where they lie is told.
        references = [
            await self._reference(entry, inline=len(keys) == 1) for entry in found.hits.values()
        ]
        hits = [reference for reference in references if reference is not None]
        self._hits += len(hits)
        return compiler_pb2.LookupResponse(
            hits=hits,
            unavailable_tiers=found.unavailable,
            quarantined=[
                compiler_pb2.Quarantined(key=key, digest=entry.digest, reason=entry.quarantined)
                for key, entry in found.quarantined.items()
            ],
        )

    async def compile(
        self, request: compiler_pb2.CompileRequest
    ) -> AsyncIterator[compiler_pb2.Event]:
        """The artifact, from the store or from a job."""
        capture = await asyncio.to_thread(self._open, request)
        found = await self._store.lookup([request.key])
        entry = found.hits.get(request.key)
        reference = await self._reference(entry, inline=True) if entry is not None else None
        if reference is not None:
            self._hits += 1
            yield compiler_pb2.Event(
                key=request.key, done=compiler_pb2.Done(artifact=reference, hit=True)
            )
            return
        if request.key in found.quarantined:
            failure = quarantined(found.quarantined[request.key])
            yield compiler_pb2.Event(key=request.key, failure=failure)
            return
        events = self._dispatcher.events(request.key, capture, request.target, request.options)
        async with aclosing(events) as stream:  # type: ignore[type-var]
            async for event in stream:
                yield await self._with_bytes(event)

    async def watch(self, job_id: str) -> AsyncIterator[compiler_pb2.Event]:
        """Joins a job again."""
        async with aclosing(self._dispatcher.watch(job_id)) as stream:  # type: ignore[type-var]
            async for event in stream:
                yield await self._with_bytes(event)

    def cancel(self, job_id: str) -> compiler_pb2.CancelResponse:
        """Stops a job that nobody waits for."""
        return compiler_pb2.CancelResponse(cancelled=self._dispatcher.cancel(job_id))

    async def nearest(self, request: compiler_pb2.NearestRequest) -> compiler_pb2.NearestResponse:
        """Which artifacts are most like a request."""
        for field in ("components", "target"):
            if not request.HasField(field):  # type: ignore[arg-type]
                raise InvalidRequestError(f"the request has no {field}")
        return await self._nearest.find(request)

    def count_refusals(self, refusals: Sequence[compiler_pb2.RefusalCount]) -> None:
        """Adds what a client could not capture."""
        if len(refusals) > _MAX_REFUSALS:
            raise InvalidRequestError(f"{len(refusals)} kinds of refusals in one report")
        known = compiler_pb2.Refusal.values()
        for one in refusals:
            if one.refusal not in known or not 0 < one.count <= _MAX_REFUSED:
                raise InvalidRequestError(
                    f"{one.count} refusals of the kind {one.refusal}: 1 to {_MAX_REFUSED} of a "
                    "kind that this farm knows"
                )
        for one in refusals:
            self._refusals[one.refusal] += one.count

    def status(self) -> compiler_pb2.GetStatusResponse:
        """Jobs, workers and tiers as they are now."""
        return compiler_pb2.GetStatusResponse(
            version=self._version,
            uptime_seconds=time.monotonic() - self._started,
            jobs=self._dispatcher.jobs(),
            workers=self._dispatcher.workers(),
            tiers=self._store.tiers(),
            compiled=self._dispatcher.compiled,
            hits=self._hits,
            failures=self._dispatcher.failures(),
            refusals=[
                compiler_pb2.RefusalCount(refusal=kind, count=count)  # type: ignore[arg-type]
                for kind, count in sorted(self._refusals.items())
            ],
        )

    def _open(self, request: compiler_pb2.CompileRequest) -> bytes:
        """The capture's bytes, once they are a valid capture of exactly this key."""
        raw = self._decompress(request.capture)
        try:
            capture = parse_capture(raw)
        except InvalidGraphError as error:
            raise InvalidRequestError(str(error)) from error
        for field in ("target", "options"):
            if not request.HasField(field):  # type: ignore[arg-type]
                raise InvalidRequestError(f"the request has no {field}")
        key = compute_key(capture, request.target, request.options)
        if key != request.key:
            raise InvalidRequestError(
                f"the capture's key is {key}, the request says {request.key[:64] or '(none)'}; "
                f"client and farm differ (this farm is {self._version}, key version {KEY_VERSION})"
            )
        return raw

    def _decompress(self, data: bytes) -> bytes:
        limit = self._max_capture_bytes
        # A frame may ask for a window of gigabytes, which has no use in a capture within the limit;
        # what it says of its size is not believed.
        window = max(limit, _MIN_WINDOW_BYTES)
        try:
            # One byte over the limit is enough to know.
            with zstandard.ZstdDecompressor(max_window_size=window).stream_reader(data) as reader:
                raw = reader.read(limit + 1)
        except zstandard.ZstdError as error:
            raise InvalidRequestError(
                f"the capture is not compressed with zstd: {error}"
            ) from error
        if len(raw) > limit:
            raise TooLargeError(
                f"the capture is over {limit / 2**20:.0f} MiB; register large constants as buffers"
            )
        return raw

    async def _with_bytes(self, event: compiler_pb2.Event) -> compiler_pb2.Event:
        """A finished job's artifact comes along if it is small."""
        reference = event.done.artifact
        if event.WhichOneof("kind") != "done" or reference.inline:
            return event
        if reference.size > self._inline_bytes:
            return event
        outcome = await self._store.read(reference.digest)
        if not isinstance(outcome, Hit):
            return event
        answer = compiler_pb2.Event()
        answer.CopyFrom(event)
        answer.done.artifact.inline = outcome.data
        return answer

    async def _reference(
        self, entry: IndexEntry, *, inline: bool
    ) -> artifact_pb2.ArtifactRef | None:
        """Where the artifact lies; None if reading it showed that it is corrupt and now gone."""
        reference = artifact_pb2.ArtifactRef(
            key=entry.key, digest=entry.digest, size=entry.size, tier=entry.tier
        )
        if inline and entry.size <= self._inline_bytes:
            outcome = await self._store.read(entry.digest)
            if isinstance(outcome, Miss):
                return None
            if isinstance(outcome, Hit):
                reference.inline, reference.tier = outcome.data, outcome.tier
        return reference


def quarantined(entry: IndexEntry) -> compiler_pb2.Failure:
    """Why a key is neither handed out nor built."""
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_QUARANTINED,
        message=f"the artifact {entry.digest[:16]} of this key is in quarantine: "
        f"{entry.quarantined}",
        remedy="the model runs eager; once the cause is mended, `compile-farm quarantine "
        f"--lift {entry.key}` has it built anew",
    )
