"""From a key to an artifact on this host, by way of the local cache.

In: keys, and what a farm says lies under them. Out: Artifacts. Each of them lies in the local
cache, was signed by a trusted key, and is the one for the key that was asked for. What the cache
has needs no network, so a host starts even while the farm is away.
"""

from __future__ import annotations

from collections.abc import Iterable

from compile_farm.artifact import digest_of, is_hex_digest, unpack
from compile_farm.cache import CachedArtifact, LocalCache
from compile_farm.errors import (
    ArtifactNotFoundError,
    CompileFarmError,
    CorruptArtifactError,
    FarmUnavailableError,
    QuarantinedError,
    UntrustedArtifactError,
)
from compile_farm.fetched import Artifact
from compile_farm.link import Link
from compile_farm.runtime.preheat import preheat_for_artifact
from compile_farm.trust import TrustStore
from compile_farm.v1 import artifact_pb2, compiler_pb2, release_pb2


class Fetcher:
    """Artifacts of one farm in one local cache."""

    def __init__(self, link: Link, cache: LocalCache) -> None:
        self._link = link
        self._cache = cache

    def artifact(self, key: str) -> Artifact:
        """From the local cache, or else from the farm.

        Raises ArtifactNotFoundError, QuarantinedError, FarmUnavailableError,
        UntrustedArtifactError.
        """
        if not is_hex_digest(key):
            raise CompileFarmError(
                f"{key[:80]!r} is no key", remedy="a key has 64 hexadecimal digits, in lower case"
            )
        if (artifact := self.local(key)) is not None:
            return artifact
        found = self._link.transport.lookup([key])
        for ref in found.hits:
            if ref.key == key:
                return self.take(key, ref)
        self.note_quarantine(found)
        for one in found.quarantined:
            raise _in_quarantine(one.key, one.digest, one.reason)
        if found.unavailable_tiers:
            raise self.outage(key, found.unavailable_tiers)
        raise ArtifactNotFoundError(
            f"the farm at {self._link.url} has no artifact under {key}",
            remedy="compile it: farm.submit(model, args)",
        )

    def local(self, key: str) -> Artifact | None:
        """What the local cache has, without asking anyone; None where it has nothing usable."""
        digest = self._cache.recall(key)
        if digest is None or self._cache.quarantined(digest) is not None:
            return None
        cached = self._cache.get(digest)
        if cached is None:
            return None
        trust = self._link.local_trust()
        try:
            _check_identity(cached, key, trust)
        except (UntrustedArtifactError, CorruptArtifactError):
            # Perhaps another process trusts who signed it; the farm may have one that we trust.
            return None
        return Artifact(cached, trust, self.quarantine)

    def take(self, key: str, ref: artifact_pb2.ArtifactRef) -> Artifact:
        """Fetches, verifies and caches what the farm says lies under ``key``."""
        trust = self._link.trust()
        if (reason := self._cache.quarantined(ref.digest)) is not None:
            raise _in_quarantine(key, ref.digest, reason)
        cached = self._cache.get(ref.digest)
        if cached is None:
            with self._cache.alone(ref.digest):
                # Another process may have been faster.
                cached = self._cache.get(ref.digest) or self._fetch(key, ref, trust)
        _check_identity(cached, key, trust)
        self._cache.remember(key, cached.digest)
        return Artifact(cached, trust, self.quarantine)

    def pinned(self, key: str, digest: str, size: int) -> Artifact:
        """The artifact of a release: this one and no other, without asking anyone if it is here.

        Raises ArtifactNotFoundError, QuarantinedError, FarmUnavailableError,
        UntrustedArtifactError, CorruptArtifactError.
        """
        if (reason := self._cache.quarantined(digest)) is not None:
            raise _in_quarantine(key, digest, reason)
        cached = self._cache.get(digest)
        if cached is None:
            return self.take(key, artifact_pb2.ArtifactRef(key=key, digest=digest, size=size))
        trust = self._link.local_trust()
        _check_identity(cached, key, trust)
        return Artifact(cached, trust, self.quarantine)

    def _fetch(self, key: str, ref: artifact_pb2.ArtifactRef, trust: TrustStore) -> CachedArtifact:
        data = ref.inline
        if not data or digest_of(data) != ref.digest:
            data = self._link.transport.read(ref)
        unpacked = unpack(data, trust.verify)
        preheat_for_artifact(unpacked.manifest)
        _check_key(unpacked.manifest, key)
        return self._cache.put(unpacked)

    def quarantine(self, key: str, digest: str, reason: str) -> None:
        """This host forgets the artifact, and the farm gives it to no other."""
        self._cache.quarantine(digest, reason)
        self._link.transport.quarantine(key, digest, reason)

    def note_quarantine(
        self, found: compiler_pb2.LookupResponse | release_pb2.ResolveResponse
    ) -> None:
        """Forgets what the farm says is in quarantine."""
        for one in found.quarantined:
            self._cache.quarantine(one.digest, one.reason)

    def outage(self, key: str, tiers: Iterable[str]) -> FarmUnavailableError:
        """What a miss is while some of the store can't be asked."""
        return FarmUnavailableError(
            f"no artifact was found under {key[:16]}..., and the store's "
            f"{', '.join(tiers)} did not answer the farm at {self._link.url}",
            remedy="try again when it does",
            retryable=True,
        )


def _in_quarantine(key: str, digest: str, reason: str) -> QuarantinedError:
    return QuarantinedError(
        f"the artifact {digest[:16]} of {key[:16]}... is in quarantine: {reason}",
        remedy="run the model eager; once the cause is mended, `compile-farm quarantine --lift "
        f"{key}` has it built anew",
    )


def _check_identity(cached: CachedArtifact, key: str, trust: TrustStore) -> None:
    trust.verify(cached.manifest_bytes, cached.signature)
    _check_key(cached.manifest, key)


def _check_key(manifest: artifact_pb2.Manifest, key: str) -> None:
    """A well signed artifact of another graph would run, and answer another question."""
    if manifest.key != key:
        raise CorruptArtifactError(
            f"under {key[:16]}... lies the artifact of another key, {manifest.key[:16]}...",
            remedy="remove it from the farm's store, and compile again",
        )
