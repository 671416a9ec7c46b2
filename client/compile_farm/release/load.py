"""Loads a release into a process: no Dynamo, no tracing, no compiler.

In: "name@revision" and a model. Out: ``LoadedModel``, which is called like the model. Its artifacts
are fetched side by side, from the local cache where they are there, and may be on their way before
the model is (``prefetch``). Each was named by the release, which was signed; the model is compared
with what the release was captured from.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from compile_farm.errors import (
    BindError,
    CompileFarmError,
    FarmUnavailableError,
    ReleaseNotFoundError,
    TargetMismatchError,
)
from compile_farm.fetch import Fetcher
from compile_farm.fetched import Artifact
from compile_farm.link import Link
from compile_farm.release.check import ReleaseRef, open_release
from compile_farm.release.choose import Choice, choose, why_none
from compile_farm.release.local import LocalReleases
from compile_farm.release.methods import method_of
from compile_farm.release.sources import why_stale
from compile_farm.runtime.preheat import preheat_for_model
from compile_farm.targets import host_target
from compile_farm.v1 import release_pb2, target_pb2

if TYPE_CHECKING:
    import torch

    from compile_farm.release.dispatch import EntryPoint

log = logging.getLogger(__name__)

_THREADS = 8
# After a start without the farm: when to ask it what is in quarantine by now.
_ASK_LATER_SECONDS = 2.0


class LoadedModel:
    """Called like the model that it was loaded for, and has its attributes.

    Attributes:
        release: "name@revision".
        state: "ready", or "eager" where no artifact could be used; ``reason`` says why.
        notes: what else there is to know: an artifact built for another card, say.
        seconds: how long "resolve", "compare", "fetch", "open" and "bind" took. Fetching and
            opening go on in other threads; this is how long was waited for them.
    """

    _torchdynamo_disable = True

    def __init__(self, release: str, model: torch.nn.Module) -> None:
        self.release = release
        self.state = "eager"
        self.reason = ""
        self.notes: list[str] = []
        self.seconds: dict[str, float] = {}
        self._model = model
        self._points: dict[str, EntryPoint] = {}
        self._forward: Any = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The artifact that takes the call, or the model itself."""
        return self._forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """A method of the release, or what the model has of this name."""
        points = vars(self).get("_points", {})
        return points[name] if name in points else getattr(vars(self)["_model"], name)

    @property
    def fallbacks(self) -> int:
        """Calls that no artifact took and that ran eager."""
        return sum(point.fallbacks for point in self._points.values())

    def __repr__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"LoadedModel({self.release}, {self.state}{why})"


class Prefetch:
    """Artifacts on their way. ``Farm.load`` of the same release takes them from here."""

    def __init__(self, release: str, futures: Sequence[Future[Artifact]]) -> None:
        self.release = release
        self._futures = list(futures)

    def wait(self, timeout: float | None = None) -> int:
        """Until all are in the local cache; how many. Raises what kept one of them from it."""
        end = None if timeout is None else time.monotonic() + timeout
        for future in self._futures:
            future.result(None if end is None else max(end - time.monotonic(), 0.0))
        return len(self._futures)


@dataclass(frozen=True)
class _Resolved:
    release: release_pb2.Release
    # From this host's own disk: the farm was not asked, and may know of a quarantine.
    local: bool


@dataclass
class Loader:
    """What ``Farm`` loads with; safe to use from several threads."""

    link: Link
    fetcher: Fetcher
    releases: LocalReleases
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pool: ThreadPoolExecutor | None = None
    _coming: dict[str, Future[Artifact]] = field(default_factory=dict)

    def resolve(self, ref: ReleaseRef) -> _Resolved:
        """A revision from this host's disk if it is there; a name alone by asking the farm.

        Raises ReleaseNotFoundError, FarmUnavailableError, UntrustedArtifactError.
        """
        kept = self.releases.get(ref)
        if ref.revision and kept is not None:
            try:
                return _Resolved(open_release(kept, self.link.local_trust()), local=True)
            except CompileFarmError:
                log.debug("the release %s of the local cache is not used", ref, exc_info=True)
        try:
            answer = self.link.transport.resolve(ref.name, ref.revision)
        except FarmUnavailableError:
            if kept is None:
                raise
            return _Resolved(open_release(kept, self.link.local_trust()), local=True)
        release = self.keep(answer.release, current=not ref.revision)
        if release.name != ref.name or ref.revision not in ("", release.revision):
            raise ReleaseNotFoundError(
                f"the farm gave {release.name}@{release.revision} for {ref}", remedy="ask again"
            )
        self.fetcher.note_quarantine(answer)
        return _Resolved(release, local=False)

    def keep(self, signed: release_pb2.SignedRelease, *, current: bool) -> release_pb2.Release:
        """What the farm gave, once its signature holds, for a start without the farm.

        Raises UntrustedArtifactError, CorruptArtifactError.
        """
        release = open_release(signed, self.link.trust())
        self.releases.put(ReleaseRef(release.name, release.revision), signed, current=current)
        return release

    def prefetch(self, ref: ReleaseRef) -> Prefetch:
        """Has everything of the release that this host would run on its way."""
        release = self.resolve(ref).release
        choices = choose(release.entries, _host_of(release))
        return Prefetch(str(ref), [self._fetch(choice) for choice in choices])

    def load(
        self,
        ref: ReleaseRef,
        model: torch.nn.Module,
        component: str,
        on_miss: str,
        verify_on_load: int,
    ) -> LoadedModel:
        """See ``Farm.load``."""
        loaded = LoadedModel(str(ref), model)
        preheat_for_model(model)
        try:
            self._load(loaded, ref, model, component, on_miss == "error", verify_on_load)
        except CompileFarmError as error:
            if on_miss == "error":
                raise
            loaded.reason = str(error)
            log.warning("%s runs eager: %s", ref, error)
        return loaded

    def _load(
        self,
        loaded: LoadedModel,
        ref: ReleaseRef,
        model: torch.nn.Module,
        component: str,
        raises: bool,
        verify_on_load: int,
    ) -> None:
        from compile_farm.release.dispatch import Bound, EntryPoint
        from compile_farm.runtime.bind import bind

        clock = _Clock(loaded.seconds)
        resolved = self.resolve(ref)
        release = resolved.release
        loaded.release = f"{release.name}@{release.revision}"
        part = _component(release, component)
        entries = [entry for entry in release.entries if entry.component == component]
        host = host_target(_device_type(model))
        choices = choose(entries, host)
        clock.lap("resolve")
        if not choices:
            raise TargetMismatchError(
                f"{loaded.release} has nothing for this host: {why_none(entries, host)}",
                remedy="publish the release for this target as well",
            )
        coming = [(choice, self._fetch(choice)) for choice in choices]
        _check_same(part, model, loaded.release)
        clock.lap("compare")
        bound: dict[str, tuple[Any, list[tuple[Bound, str]]]] = {}
        for choice, future in coming:
            artifact = future.result()
            clock.lap("fetch")
            code = artifact.open(other_card=True)
            clock.lap("open")
            method = choice.entry.method
            eager = method_of(model, method)
            one = bind(code, model, verify_on_load, artifact.quarantine, method)
            bound.setdefault(method, (eager, []))[1].append((one, artifact.digest))
            if choice.note:
                loaded.notes.append(f"{method}: {choice.note}")
            clock.lap("bind")
        for method, (eager, pairs) in bound.items():
            loaded._points[method] = EntryPoint(method, pairs, eager, raises=raises)
        loaded._forward = loaded._points.get("forward", loaded._forward)
        loaded.state = "ready"
        for note in loaded.notes:
            log.warning("%s: %s", loaded.release, note)
        if resolved.local and not self.link.offline:
            self._ask_later(loaded, ReleaseRef(release.name, release.revision))

    def _fetch(self, choice: Choice) -> Future[Artifact]:
        """Each digest once, whoever asks; in the background."""
        entry = choice.entry
        with self._lock:
            known = self._coming.get(entry.digest)
            if known is not None and not (known.done() and known.exception()):
                return known
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="compile-farm-fetch")
            future = self._pool.submit(self._arrive, entry)
            self._coming[entry.digest] = future
            return future

    def _arrive(self, entry: release_pb2.ReleaseEntry) -> Artifact:
        artifact = self.fetcher.pinned(entry.key, entry.digest, entry.size)
        # Mapped here too, while the weights may still be coming.
        artifact.open(other_card=True)
        return artifact

    def _ask_later(self, loaded: LoadedModel, ref: ReleaseRef) -> None:
        """A host that starts from its own disk hears of a quarantine a little later."""

        def ask() -> None:
            try:
                answer = self.link.transport.resolve(ref.name, ref.revision)
            except CompileFarmError:
                log.debug("the farm was not asked about %s", ref, exc_info=True)
                return
            self.fetcher.note_quarantine(answer)
            for one in answer.quarantined:
                for point in loaded._points.values():
                    if one.digest in point.digests:
                        point.drop(one.digest, f"it is in quarantine: {one.reason}")

        timer = threading.Timer(_ASK_LATER_SECONDS, ask)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Starts nothing more."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


class _Clock:
    """Adds the seconds since the last lap to a stage's."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self._seconds[stage] = self._seconds.get(stage, 0.0) + now - self._last
        self._last = now


def _component(release: release_pb2.Release, name: str) -> release_pb2.Component:
    for component in release.components:
        if component.name == name:
            return component
    names = ", ".join(repr(one.name) for one in release.components)
    raise ReleaseNotFoundError(
        f"{release.name}@{release.revision} has no component {name!r}",
        remedy=f"it has {names}: load(..., component=...)",
    )


def _check_same(part: release_pb2.Component, model: torch.nn.Module, release: str) -> None:
    """Weights, settings and modes are compared by binding; here, what the code is."""
    problem = None
    if type(model).__name__ != part.type_name:
        problem = f"it was captured from a {part.type_name}, this is a {type(model).__name__}"
    problem = problem or why_stale(part.sources)
    if problem is not None:
        raise BindError(
            f"the model is not the one of {release}: {problem}",
            remedy="deploy the code that the release was made from, or publish one of this code",
        )


def _device_type(model: torch.nn.Module) -> str:
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device.type
    return "cpu"


def _host_of(release: release_pb2.Release) -> target_pb2.Target:
    """This host's GPU if there is one and the release has code for GPUs; else its CPU."""
    if _has_gpu_code(release.entries):
        import torch

        if torch.cuda.is_available():
            return host_target("cuda")
    return host_target("cpu")


def _has_gpu_code(entries: Iterable[release_pb2.ReleaseEntry]) -> bool:
    return any(entry.target.WhichOneof("hardware") == "cuda" for entry in entries)
