"""The farm as its users see it: submit a model, get an artifact, bind it.

In: models or captures, keys, a farm's address. Out: Jobs, Artifacts, Explanations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compile_farm.cache import LocalCache
from compile_farm.errors import CaptureError, CompileFarmError, FarmUnavailableError
from compile_farm.fetch import Fetcher
from compile_farm.fetched import Artifact
from compile_farm.job import Job
from compile_farm.link import OFFLINE_VARIABLE, Link
from compile_farm.refusals import RefusalReport
from compile_farm.release.check import ReleaseRef
from compile_farm.release.draft import ReleaseDraft
from compile_farm.release.load import LoadedModel, Loader, Prefetch
from compile_farm.release.local import LocalReleases
from compile_farm.runtime.preheat import preheat_for_model
from compile_farm.targets import admissible_targets, choose_target, host_target
from compile_farm.v1 import artifact_pb2, compiler_pb2, graph_pb2, release_pb2, target_pb2

if TYPE_CHECKING:
    import torch

    from compile_farm.difference import Side
    from compile_farm.explain import Explanation

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
        offline: bool | None = None,
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
            offline: use the local cache alone, and never the network. Without it
                COMPILE_FARM_OFFLINE=1.
        """
        self.url = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
        self._cache = LocalCache(cache_dir)
        if offline is None:
            offline = os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")
        folder = self._cache.folder
        self._link = Link(self.url, trusted_keys, timeout, folder / "trusted", offline)
        self._fetcher = Fetcher(self._link, self._cache)
        self._loader = Loader(self._link, self._fetcher, LocalReleases(folder / "releases"))
        self._refusals = RefusalReport(lambda counts: self._link.transport.report_refusals(counts))

    def __enter__(self) -> Farm:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; unfinished jobs of this Farm end with it."""
        self._refusals.flush()
        self._loader.close()
        self._link.close()

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

        try:
            capture = capture_export(model, args, kwargs, dynamic_shapes)
        except CaptureError as error:
            self.note_refusal(error)
            raise
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
            capabilities = self._link.capabilities()
        except FarmUnavailableError:
            for target in admissible_targets(host):
                key = _key(capture, target, options)
                if (artifact := self._fetcher.local(key)) is not None:
                    return Job.finished(key, artifact)
            raise
        target = choose_target(host, capabilities.targets)
        key = _key(capture, target, options)
        if self._cache.recall(key):
            # The farm is there to say whether what this host has is in quarantine by now.
            self._fetcher.note_quarantine(self._link.transport.lookup([key]))
        if (artifact := self._fetcher.local(key)) is not None:
            return Job.finished(key, artifact)
        request = _request(key, capture, target, options, capabilities.max_capture_bytes)
        return Job.start(request, self._link.transport, lambda ref: self._fetcher.take(key, ref))

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

        target = choose_target(host_target(device_type), self._link.capabilities().targets)
        here = Side.of_capture(capture, target, _options(effort, numerics))
        found = self._link.transport.lookup([here.key])
        if not found.hits and not found.quarantined and found.unavailable_tiers:
            raise self._fetcher.outage(here.key, found.unavailable_tiers)
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
        answer = self._link.transport.nearest(
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
        return self._fetcher.artifact(key)

    def bind(self, key: str, model: torch.nn.Module, verify_on_load: int = 0) -> Callable[..., Any]:
        """``artifact(key).bind(model)``; sooner, as the GPU's libraries start meanwhile.

        Raises what ``artifact`` raises, and what ``Artifact.bind`` raises.
        """
        preheat_for_model(model)
        return self.artifact(key).bind(model, verify_on_load)

    def load(
        self,
        release: str,
        model: torch.nn.Module,
        *,
        component: str = "",
        on_miss: str = "eager",
        verify_on_load: int = 0,
    ) -> LoadedModel:
        """A release's artifacts on this model: no tracing, and no compiler needed.

        Artifacts for exactly this host are taken first, then such as run here but were built for a
        lower CPU level or another card of the same architecture, as the result's ``notes`` say.

        Args:
            release: "name@revision"; of a name alone the pinned revision, or the newest. A revision
                that this host has seen needs no farm.
            model: with its weights, on the device where it will run; a part of a larger model too.
            component: of a release of several models, which one this is.
            on_miss: "eager" runs the model itself where no artifact can be used, now or for a
                call, with the reason in the result and the log; "error" raises.
            verify_on_load: as for ``Artifact.bind``.

        Raises, with on_miss="error": ReleaseNotFoundError; TargetMismatchError where nothing was
        built for this host; BindError where the model is not the one that was captured;
        FarmUnavailableError; UntrustedArtifactError.
        """
        _choice({"eager": 0, "error": 0}, on_miss, "value of on_miss")
        ref = ReleaseRef.parse(release)
        return self._loader.load(ref, model, component, on_miss, verify_on_load)

    def prefetch(self, release: str) -> Prefetch:
        """Fetches and opens, in the background, what ``load`` of this release will need.

        Raises ReleaseNotFoundError, FarmUnavailableError, UntrustedArtifactError; what keeps an
        artifact from coming is raised by ``wait`` and by ``load``.
        """
        return self._loader.prefetch(ReleaseRef.parse(release))

    def release(self, release: str) -> ReleaseDraft:
        """A new release, "name@revision": add models to it, then publish it."""

        def compile_capture(capture: graph_pb2.Capture, effort: str, numerics: str) -> Job:
            return self.compile(capture, device_type_of(capture), effort, numerics)

        def publish(made: release_pb2.Release) -> release_pb2.Release:
            return self._loader.keep(self._link.transport.publish(made).release, current=False)

        return ReleaseDraft(ReleaseRef.parse(release), compile_capture, publish)

    def resolve(self, release: str) -> release_pb2.Release:
        """What a release holds, its signature checked.

        Raises ReleaseNotFoundError, FarmUnavailableError, UntrustedArtifactError.
        """
        return self._loader.resolve(ReleaseRef.parse(release)).release

    def releases(self, name: str = "") -> list[release_pb2.ReleaseSummary]:
        """What was published, of a name or of all: by name, newest first."""
        return list(self._link.transport.releases(name).releases)

    def pin(self, name: str, revision: str) -> None:
        """The name alone means this revision from now on; "" for the newest."""
        self._link.transport.pin(name, revision)

    def rollback(self, name: str) -> tuple[str, str]:
        """The name alone means what it did before; the revision now, and the one until now."""
        answer = self._link.transport.rollback(name)
        return answer.revision, answer.before

    def lookup(self, keys: Sequence[str]) -> dict[str, artifact_pb2.ArtifactRef]:
        """Those of ``keys`` that the farm has, with where each lies."""
        return {ref.key: ref for ref in self._link.transport.lookup(keys).hits}

    def capabilities(self) -> compiler_pb2.GetCapabilitiesResponse:
        """The farm's version, targets and public keys."""
        return self._link.transport.capabilities()

    def status(self) -> compiler_pb2.GetStatusResponse:
        """Its jobs, workers and store as they are now."""
        return self._link.transport.status()

    def artifacts(self, limit: int | None = None) -> Iterator[compiler_pb2.ArtifactSummary]:
        """What the farm's index holds, newest first, at most ``limit``."""
        token, left = "", limit
        while left is None or left > 0:
            page = self._link.transport.list(min(left or 100, 100), token)
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
        self._fetcher.quarantine(key, digest, reason)

    def lift_quarantine(self, key: str) -> None:
        """Ends a quarantine; the key is built anew when it is next asked for.

        Raises ArtifactNotFoundError if it is in none, FarmUnavailableError.
        """
        self._link.transport.lift_quarantine(key)

    def note_refusal(self, error: CaptureError) -> None:
        """Has the farm count, by its kind alone, what could not be captured; waits for nothing."""
        self._refusals.add(error.reason)

    @property
    def cache(self) -> LocalCache:
        """The local cache."""
        return self._cache


def device_type_of(capture: graph_pb2.Capture) -> str:
    """ "cuda" if any tensor of the capture is there, else "cpu"."""
    kinds = {entry.tensor.device_type for entry in capture.signature.inputs}
    return "cuda" if "cuda" in kinds else "cpu"


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
