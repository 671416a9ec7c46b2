"""The farm as its users see it: submit a model, get an artifact, bind it.

In: models or captures, keys, a farm's address. Out: Jobs and Artifacts. Every artifact that leaves
this file lies in the local cache, was signed by a trusted key, and is the one for the key that was
asked for. What the local cache has needs no network, so a host starts even while the farm is away.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from compile_farm.job import Job
from compile_farm.runtime.preheat import preheat_for_artifact, preheat_for_model
from compile_farm.targets import admissible_targets, choose_target, host_target
from compile_farm.trust import KEYS_VARIABLE, FirstUse, TrustStore
from compile_farm.v1 import artifact_pb2, compiler_pb2, graph_pb2, target_pb2

if TYPE_CHECKING:
    import torch

    from compile_farm.difference import Side
    from compile_farm.explain import Explanation
    from compile_farm.transport import Address, Transport

URL_VARIABLE = "COMPILE_FARM_URL"
DEFAULT_URL = "127.0.0.1:8815"

_EFFORTS = {"fast": target_pb2.EFFORT_FAST, "tuned": target_pb2.EFFORT_TUNED}
_NUMERICS = {"strict": target_pb2.NUMERICS_STRICT, "fast": target_pb2.NUMERICS_FAST}


class Farm:
    """A compile farm. Safe to use from several threads; opens no connection before it needs one."""

    def __init__(
        self,
        url: str | None = None,
        *,
        trusted_keys: str | Iterable[str | bytes] | None = None,
        cache_dir: str | Path | None = None,
        timeout: float = 30.0,
    ) -> None:
        """
        Args:
            url: "HOST:PORT", or "grpcs://HOST:PORT" for TLS. Without it COMPILE_FARM_URL, then
                127.0.0.1:8815.
            trusted_keys: Ed25519 public keys that may sign artifacts: raw, in hexadecimal or
                base64, or paths of files with them. Without it COMPILE_FARM_TRUSTED_KEYS; without
                that, a farm on loopback is trusted at first use, and no other.
            cache_dir: the local cache. Without it COMPILE_FARM_CACHE, then ~/.cache/compile-farm.
            timeout: seconds for an answer of the farm. A compile may take as long as it takes.
        """
        self.url = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
        self._timeout = timeout
        self._explicit = _trust_store(trusted_keys)
        self._cache = LocalCache(cache_dir)
        self._first_use = FirstUse(self._cache.folder / "trusted")
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._known: Address | None = None
        self._shown: TrustStore | None = None
        self._closed = False

    def __enter__(self) -> Farm:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; unfinished jobs of this Farm end with it."""
        with self._lock:
            transport, self._transport = self._transport, None
            self._closed = True
        if transport is not None:
            transport.close()

    def submit(
        self,
        model: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        dynamic_shapes: Any = None,
        effort: str = "fast",
        numerics: str = "strict",
    ) -> Job:
        """Captures ``model(*args, **kwargs)`` with torch.export and has it compiled.

        Args:
            model: in the mode (eval or train) in which it will run. Its weights stay here.
            args: example positional arguments; their shapes are fixed unless ``dynamic_shapes``
                frees them.
            kwargs: example keyword arguments.
            dynamic_shapes: as for ``torch.export.export``.
            effort: "fast" (Inductor's defaults) or "tuned" (autotuned within a budget).
            numerics: "strict" keeps eager's rounding points in bfloat16 and float16.

        Raises CaptureError for a model that can't be captured, FarmUnavailableError.
        """
        from compile_farm.capture.export import capture_export

        capture = capture_export(model, args, kwargs, dynamic_shapes)
        return self.compile(capture, device_type_of(capture), effort, numerics)

    def compile(
        self,
        capture: graph_pb2.Capture,
        device_type: str,
        effort: str = "fast",
        numerics: str = "strict",
    ) -> Job:
        """Has a capture compiled for this process's hardware of ``device_type``: "cpu" or "cuda".

        Raises FarmUnavailableError where the farm does not answer and the local cache lacks it.
        """
        options = _options(effort, numerics)
        host = host_target(device_type)
        try:
            capabilities = self._capabilities()
        except FarmUnavailableError:
            for target in admissible_targets(host):
                key = _key(capture, target, options)
                if (artifact := self._local(key)) is not None:
                    return Job.finished(key, artifact)
            raise
        target = choose_target(host, capabilities.targets)
        key = _key(capture, target, options)
        if self._cache.recall(key):
            # The farm is there to say whether what this host has is in quarantine by now.
            self._note_quarantine(self._connection().lookup([key]))
        if (artifact := self._local(key)) is not None:
            return Job.finished(key, artifact)
        request = _request(key, capture, target, options, capabilities.max_capture_bytes)
        return Job.start(request, self._connection(), lambda ref: self._take(key, ref))

    def explain(
        self,
        model: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        dynamic_shapes: Any = None,
        effort: str = "fast",
        numerics: str = "strict",
        against: str = "",
    ) -> Explanation:
        """Why the farm has no artifact for what ``submit`` takes, or that it has one.

        Compiles nothing. ``against`` names a key to compare with; without it, the artifact that is
        most like the request among the newest of the store.

        Raises CaptureError, ArtifactNotFoundError for ``against``, FarmUnavailableError.
        """
        from compile_farm.capture.export import capture_export

        capture = capture_export(model, args, kwargs, dynamic_shapes)
        return self.explain_capture(capture, device_type_of(capture), effort, numerics, against)

    def explain_capture(
        self,
        capture: graph_pb2.Capture,
        device_type: str,
        effort: str = "fast",
        numerics: str = "strict",
        against: str = "",
    ) -> Explanation:
        """The same for a capture, as ``compile`` takes it."""
        from compile_farm.difference import Side

        target = choose_target(host_target(device_type), self._capabilities().targets)
        here = Side.of_capture(capture, target, _options(effort, numerics))
        found = self._connection().lookup([here.key])
        if not found.hits and not found.quarantined and found.unavailable_tiers:
            raise self._outage(here.key, found.unavailable_tiers)
        return replace(
            self._compared(here, against, look=not found.hits and not found.quarantined),
            hit=bool(found.hits),
            quarantined="".join(one.reason for one in found.quarantined),
        )

    def explain_key(self, key: str, against: str = "") -> Explanation:
        """How an artifact's key differs from ``against``, or from the nearest one in the store.

        Raises what ``artifact`` raises.
        """
        from compile_farm.difference import Side

        return self._compared(Side.of_manifest(self.artifact(key).manifest), against)

    def _compared(self, here: Side, against: str, look: bool = True) -> Explanation:
        """With ``against``; without it, if ``look``, with the nearest."""
        from compile_farm.difference import Side
        from compile_farm.explain import Explanation, explanation
        from compile_farm.schema import check_interface

        if against:
            return explanation(here, Side.of_manifest(self.artifact(against).manifest))
        if not look:
            return Explanation(here, None)
        answer = self._connection().nearest(
            compiler_pb2.NearestRequest(
                components=here.components,
                target=here.target,
                graph_summary=here.graph_summary,
                limit=2,
            )
        )
        seen: dict[str, Any] = {"compared": answer.compared, "more": answer.more}
        for manifest in answer.manifests:
            if manifest.key != here.key:
                check_interface(manifest.signature, manifest.calling_convention)
                return explanation(here, Side.of_manifest(manifest), **seen)
        return Explanation(here, None, **seen)

    def artifact(self, key: str) -> Artifact:
        """The artifact under ``key``, from the local cache or else from the farm.

        Raises ArtifactNotFoundError, FarmUnavailableError, UntrustedArtifactError.
        """
        if not is_hex_digest(key):
            raise CompileFarmError(
                f"{key[:80]!r} is no key", remedy="a key has 64 hexadecimal digits, in lower case"
            )
        if (artifact := self._local(key)) is not None:
            return artifact
        found = self._connection().lookup([key])
        for ref in found.hits:
            if ref.key == key:
                return self._take(key, ref)
        self._note_quarantine(found)
        for one in found.quarantined:
            raise _in_quarantine(one.key, one.digest, one.reason)
        if found.unavailable_tiers:
            raise self._outage(key, found.unavailable_tiers)
        raise ArtifactNotFoundError(
            f"the farm at {self.url} has no artifact under {key}",
            remedy="compile it: farm.submit(model, args)",
        )

    def bind(self, key: str, model: torch.nn.Module, verify_on_load: int = 0) -> Callable[..., Any]:
        """``artifact(key).bind(model)``; sooner, as the GPU's libraries start meanwhile.

        Raises what ``artifact`` raises, and what ``Artifact.bind`` raises.
        """
        preheat_for_model(model)
        return self.artifact(key).bind(model, verify_on_load)

    def lookup(self, keys: Sequence[str]) -> dict[str, artifact_pb2.ArtifactRef]:
        """Those of ``keys`` that the farm has, with where each lies."""
        return {ref.key: ref for ref in self._connection().lookup(keys).hits}

    def capabilities(self) -> compiler_pb2.GetCapabilitiesResponse:
        """The farm's version, targets and public keys."""
        return self._connection().capabilities()

    def status(self) -> compiler_pb2.GetStatusResponse:
        """Its jobs, workers and store as they are now."""
        return self._connection().status()

    def artifacts(self, limit: int | None = None) -> Iterator[compiler_pb2.ArtifactSummary]:
        """What the farm's index holds, newest first, at most ``limit``."""
        token, left = "", limit
        while left is None or left > 0:
            page = self._connection().list(min(left or 100, 100), token)
            yield from page.artifacts[:left]
            if left is not None:
                left -= len(page.artifacts)
            token = page.next_page_token
            if not token:
                return

    def quarantine(self, key: str, digest: str, reason: str) -> None:
        """From now on no host gets the artifact ``digest`` of ``key``, and this one forgets it.

        What runs already goes on; a host that has it in its own cache hears of it when it next
        submits the model, or asks the farm for the key. Raises ArtifactNotFoundError if the key has
        another artifact by now, FarmUnavailableError.
        """
        self._cache.quarantine(digest, reason)
        self._connection().quarantine(key, digest, reason)

    def release(self, key: str) -> None:
        """Ends a quarantine; the key is built anew when it is next asked for.

        Raises ArtifactNotFoundError if it is in none, FarmUnavailableError.
        """
        self._connection().release(key)

    @property
    def cache(self) -> LocalCache:
        """The local cache."""
        return self._cache

    def _address(self) -> Address:
        if self._known is None:
            from compile_farm.transport import Address

            self._known = Address(self.url)
        return self._known

    def _connection(self) -> Transport:
        # grpc costs a tenth of a second to import: not for what the local cache has.
        from compile_farm.transport import Transport

        address = self._address()
        with self._lock:
            if self._closed:
                raise CompileFarmError("this Farm was closed", remedy="make another one")
            if self._transport is None:
                self._transport = Transport(address, self._timeout)
            return self._transport

    def _capabilities(self) -> compiler_pb2.GetCapabilitiesResponse:
        capabilities = self.capabilities()
        if self._explicit is None:
            self._accept(capabilities.public_keys)
        return capabilities

    def _trust(self) -> TrustStore:
        """The keys that may sign; asks a farm on loopback at first use."""
        if self._explicit is not None:
            return self._explicit
        if self._shown is None:
            self._accept(self.capabilities().public_keys)
        assert self._shown is not None
        return self._shown

    def _accept(self, keys: Iterable[bytes]) -> None:
        address = self._address()
        if not address.is_loopback:
            raise UntrustedArtifactError(
                f"no key is trusted for the farm at {self.url}, and it is not on this host",
                remedy=f"set {KEYS_VARIABLE} or trusted_keys to its public key, which "
                "`compile-farm serve` prints when it starts",
            )
        self._shown = self._first_use.accept(str(address), keys)

    def _outage(self, key: str, tiers: Iterable[str]) -> FarmUnavailableError:
        return FarmUnavailableError(
            f"no artifact was found under {key[:16]}..., and the store's "
            f"{', '.join(tiers)} did not answer the farm at {self.url}",
            remedy="try again when it does",
            retryable=True,
        )

    def _local_trust(self) -> TrustStore:
        """The same without asking anyone."""
        known = self._shown if self._explicit is None else self._explicit
        if known is not None:
            return known
        address = self._address()
        return self._first_use.recall(str(address)) if address.is_loopback else TrustStore()

    def _local(self, key: str) -> Artifact | None:
        digest = self._cache.recall(key)
        if digest is None or self._cache.quarantined(digest) is not None:
            return None
        cached = self._cache.get(digest)
        if cached is None:
            return None
        trust = self._local_trust()
        try:
            _check_identity(cached, key, trust)
        except (UntrustedArtifactError, CorruptArtifactError):
            # Perhaps another process trusts who signed it; the farm may have one that we trust.
            return None
        return Artifact(cached, trust, self.quarantine)

    def _note_quarantine(self, found: compiler_pb2.LookupResponse) -> None:
        for one in found.quarantined:
            self._cache.quarantine(one.digest, one.reason)

    def _take(self, key: str, ref: artifact_pb2.ArtifactRef) -> Artifact:
        """Fetches, verifies and caches what the farm says lies under ``key``."""
        trust = self._trust()
        if (reason := self._cache.quarantined(ref.digest)) is not None:
            raise _in_quarantine(key, ref.digest, reason)
        cached = self._cache.get(ref.digest)
        if cached is None:
            data = ref.inline
            if not data or digest_of(data) != ref.digest:
                data = self._connection().read(ref)
            unpacked = unpack(data, trust.verify)
            preheat_for_artifact(unpacked.manifest)
            _check_key(unpacked.manifest, key)
            cached = self._cache.put(unpacked)
        _check_identity(cached, key, trust)
        self._cache.remember(key, cached.digest)
        return Artifact(cached, trust, self.quarantine)


def device_type_of(capture: graph_pb2.Capture) -> str:
    """ "cuda" if any tensor of the capture is there, else "cpu"."""
    kinds = {entry.tensor.device_type for entry in capture.signature.inputs}
    return "cuda" if "cuda" in kinds else "cpu"


def _trust_store(keys: str | Iterable[str | bytes] | None) -> TrustStore | None:
    """None where nobody said whom to trust; an empty list trusts no one."""
    if keys is None:
        return TrustStore.from_environment() or None
    if isinstance(keys, str):
        return TrustStore.parse(keys)
    found: list[bytes] = []
    for key in keys:
        found.extend([key] if isinstance(key, bytes) else TrustStore.parse([key]).keys)
    return TrustStore(found)


def _in_quarantine(key: str, digest: str, reason: str) -> QuarantinedError:
    return QuarantinedError(
        f"the artifact {digest[:16]} of {key[:16]}... is in quarantine: {reason}",
        remedy="run the model eager; once the cause is mended, `compile-farm quarantine --release "
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


def _key(capture: graph_pb2.Capture, target: target_pb2.Target, options: target_pb2.Options) -> str:
    from compile_farm.key import compute_key

    return compute_key(capture, target, options)


def _options(effort: str, numerics: str) -> target_pb2.Options:
    return target_pb2.Options(
        effort=_choice(_EFFORTS, effort, "effort"),
        numerics=_choice(_NUMERICS, numerics, "numerics"),
    )


def _request(
    key: str,
    capture: graph_pb2.Capture,
    target: target_pb2.Target,
    options: target_pb2.Options,
    limit: int,
) -> compiler_pb2.CompileRequest:
    import zstandard

    data = zstandard.compress(capture.SerializeToString(deterministic=True))
    if limit and len(data) > limit:
        raise CompileFarmError(
            f"the capture has {len(data)} bytes, the farm takes {limit}",
            remedy="large constants made inside forward travel with it: make them buffers",
        )
    return compiler_pb2.CompileRequest(key=key, capture=data, target=target, options=options)


def _choice(allowed: dict[str, Any], name: str, what: str) -> Any:
    if name not in allowed:
        raise CompileFarmError(
            f"the {what} is {name!r}", remedy=f"use one of {', '.join(sorted(allowed))}"
        )
    return allowed[name]
