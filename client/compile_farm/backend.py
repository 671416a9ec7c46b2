"""``torch.compile(model, backend="compile_farm")``: the farm as a backend of Dynamo.

In: each graph that Dynamo captures. Out: a callable that runs the farm's artifact, or eager where
there is none (yet). What happens on a miss is the option ``on_miss``:

- ``"eager"`` (default): this call and the next run eager; the job runs in the farm meanwhile, and
  the artifact takes over with the first call after it is ready.
- ``"wait"``: wait for the compile.
- ``"error"``: raise, with what differs from the nearest artifact.

A graph that can't be captured or compiled runs eager in the first two, with its reason in
``compiled_graphs()`` and in the log.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from compile_farm.errors import (
    CaptureError,
    CompileFailedError,
    CompileFarmError,
    InputMismatchError,
    QuarantinedError,
)

if TYPE_CHECKING:
    import torch

    from compile_farm.capture.aot import AotCapture
    from compile_farm.explain import Explanation
    from compile_farm.farm import Farm
    from compile_farm.fetched import Artifact
    from compile_farm.job import Job

log = logging.getLogger(__name__)

# Of an explanation, in an error's message.
_MOST_LINES = 12

_EFFORT_OF_MODE = {
    "default": "fast",
    "reduce-overhead": "fast",
    "max-autotune": "tuned",
    "max-autotune-no-cudagraphs": "tuned",
}


@dataclass(frozen=True)
class BackendOptions:
    """What ``options={...}`` of torch.compile may hold.

    Attributes:
        url: the farm's address; without it COMPILE_FARM_URL, then 127.0.0.1:8815.
        on_miss: "eager", "wait" or "error".
        effort: "fast" or "tuned"; without it what ``mode`` says.
        numerics: "strict" keeps eager's rounding points, "fast" lets the compiler drop them.
        timeout: seconds to wait for a compile with on_miss="wait".
        verify_on_load: so many of a graph's first calls also run eager; one that differs ends the
            artifact's use and puts it into quarantine.
        trusted_keys: public keys that may sign artifacts; see Farm.
    """

    url: str | None = None
    on_miss: str = "eager"
    effort: str = "fast"
    numerics: str = "strict"
    timeout: float | None = None
    verify_on_load: int = 0
    trusted_keys: tuple[str, ...] | None = None

    @staticmethod
    def parse(mode: str | None, options: dict[str, Any] | None) -> BackendOptions:
        """Raises CompileFarmError naming what is wrong."""
        given = dict(options or {})
        known = {entry.name for entry in fields(BackendOptions)}
        if unknown := sorted(set(given) - known):
            raise CompileFarmError(
                f"the compile_farm backend has no option {', '.join(unknown)}",
                remedy=f"it takes {', '.join(sorted(known))}",
            )
        if mode is not None and mode not in _EFFORT_OF_MODE:
            raise CompileFarmError(
                f"the mode {mode!r} is not known", remedy=f"use one of {', '.join(_EFFORT_OF_MODE)}"
            )
        given.setdefault("effort", _EFFORT_OF_MODE[mode or "default"])
        if isinstance(given.get("trusted_keys"), list):
            given["trusted_keys"] = tuple(given["trusted_keys"])
        parsed = BackendOptions(**given)
        for name, allowed in (
            ("on_miss", ("eager", "wait", "error")),
            ("effort", ("fast", "tuned")),
            ("numerics", ("strict", "fast")),
        ):
            if getattr(parsed, name) not in allowed:
                raise CompileFarmError(
                    f"the option {name} is {getattr(parsed, name)!r}",
                    remedy=f"use one of {', '.join(allowed)}",
                )
        return parsed


@dataclass(eq=False)
class CompiledGraph:
    """One graph of a model, as this process sees it.

    ``state`` is "compiling", "ready" (the artifact runs), "refused" (it can't be captured or
    compiled), "unavailable" (the farm or the artifact can't be had) or "quarantined" (it differed
    from eager, here or on another host); ``reason`` says why. ``kind`` is that in one word: of a
    graph that can't be captured "gradients", "operator", "tensor", "memory", "state", "value",
    "size", "trace" or "other"; of one that the farm could not compile its reason, such as
    "unsupported", "compiler_error" or "timeout"; empty otherwise.
    """

    nodes: int
    state: str = "compiling"
    key: str = ""
    reason: str = ""
    kind: str = ""
    hit: bool = False
    # Calls whose inputs did not fit the artifact and ran eager.
    fallbacks: int = 0

    def end(self, state: str, reason: str = "") -> None:
        """Notes the outcome, and logs it once."""
        self.state, self.reason = state, reason
        if state == "ready":
            log.info("graph %s: the artifact runs from now on", self.key[:16])
        else:
            log.warning("a graph of %d nodes runs eager (%s): %s", self.nodes, state, reason)

    def fail(self, error: CompileFarmError) -> None:
        """Notes why there is no artifact: whether another try could help, or never will."""
        if isinstance(error, QuarantinedError) or (
            isinstance(error, CompileFailedError) and error.reason == "quarantined"
        ):
            self.end("quarantined", str(error))
            return
        if isinstance(error, CaptureError | CompileFailedError):
            self.kind = error.reason
        for_good = isinstance(error, CaptureError | CompileFailedError) and not error.retryable
        self.end("refused" if for_good else "unavailable", str(error))


_graphs: list[CompiledGraph] = []
_farms: dict[tuple[str | None, tuple[str, ...] | None], Farm] = {}
_lock = threading.Lock()


def compiled_graphs() -> list[CompiledGraph]:
    """Every graph that this process gave to the backend, in order: hit or miss, and why."""
    with _lock:
        return list(_graphs)


def compile_farm(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    **unused: Any,
) -> Callable[..., Any]:
    """The backend itself, registered as "compile_farm"; see this module's text."""
    if unused:
        raise CompileFarmError(f"the compile_farm backend does not take {', '.join(unused)}")
    settings = BackendOptions.parse(mode, options)
    graph = CompiledGraph(nodes=len(gm.graph.nodes))
    with _lock:
        _graphs.append(graph)
    try:
        return _Backend(settings, graph).compile(gm, example_inputs)
    except CompileFarmError as error:
        graph.fail(error)
        if settings.on_miss == "error":
            raise
    except Exception as error:
        from torch._dynamo.exc import RestartAnalysis, exceptions_allowed_to_be_fallback

        if isinstance(error, (RestartAnalysis, *exceptions_allowed_to_be_fallback)):
            # Dynamo breaks the graph where it fails, and hands over the parts; or traces it again.
            with _lock:
                _graphs.remove(graph)
        raise
    return gm.forward


class _Backend:
    def __init__(self, settings: BackendOptions, graph: CompiledGraph) -> None:
        self._settings = settings
        self._graph = graph
        self._call: Callable[..., Any] = _no_artifact
        self._eager: Callable[..., Any] = _no_artifact

    def compile(
        self, module: torch.fx.GraphModule, example_inputs: Sequence[Any]
    ) -> Callable[..., Any]:
        from compile_farm.capture.aot import AotCapture
        from compile_farm.farm import device_type_of

        self._eager = module.forward
        farm = _farm(self._settings)
        try:
            captured = AotCapture(module, example_inputs)
        except CaptureError as error:
            farm.note_refusal(error)
            raise
        asked = (
            captured.capture,
            device_type_of(captured.capture),
            self._settings.effort,
            self._settings.numerics,
        )
        job = farm.compile(*asked)
        self._graph.key = job.key
        self._settle(captured, job, lambda: farm.explain_capture(*asked))
        eager = self._eager

        def run(*args: Any) -> Any:
            if captured.runner is None:
                return eager(*args)
            try:
                return self._call(*args)
            except InputMismatchError as error:
                # Checked before anything ran, so eager can still answer.
                self._ran_eager(error)
                return eager(*args)

        return run

    def _settle(self, captured: AotCapture, job: Job, explain: Callable[[], Explanation]) -> None:
        """Takes the artifact now if it is there, else as ``on_miss`` says."""
        if job.wait_for_lookup():
            self._graph.hit = True
            self._take(captured, job)
        elif self._settings.on_miss == "wait":
            self._take(captured, job, self._settings.timeout)
        elif self._settings.on_miss == "error":
            job.cancel()
            raise CompileFarmError(
                f"the farm has no artifact for this graph (key {job.key}){_why(explain)}",
                remedy="compile it ahead of time, or use on_miss='wait'",
            )
        else:
            job.add_done_callback(lambda done: self._take_later(captured, done))

    def _take_later(self, captured: AotCapture, job: Job) -> None:
        try:
            self._take(captured, job)
        except CompileFarmError as error:
            self._graph.fail(error)

    def _take(self, captured: AotCapture, job: Job, timeout: float | None = None) -> None:
        from compile_farm.runtime.positional import positional

        artifact = job.result(timeout)
        runner = positional(artifact.open())
        self._call = captured.run_wrapped
        if self._settings.verify_on_load:
            self._call = self._watched(captured, artifact)
        captured.runner = runner
        self._graph.end("ready")

    def _watched(self, captured: AotCapture, artifact: Artifact) -> Callable[..., Any]:
        from compile_farm.runtime.canary import Canary

        def quarantine(reason: str) -> None:
            self._graph.end("quarantined", reason)
            artifact.quarantine(reason)

        canary = Canary(
            artifact.manifest,
            self._settings.verify_on_load,
            self._eager,
            written=captured.written,
            quarantine=quarantine,
        )
        return lambda *args: canary.call(captured.run_wrapped, args, {})

    def _ran_eager(self, error: InputMismatchError) -> None:
        self._graph.fallbacks += 1
        if self._graph.fallbacks == 1:
            log.warning("graph %s: a call ran eager: %s", self._graph.key[:16], error)


def _why(explain: Callable[[], Explanation]) -> str:
    """The explanation of a miss, on lines of its own; empty where there is none."""
    try:
        lines = str(explain()).splitlines()
    except Exception:
        # The miss itself must be told, whatever keeps it from being explained.
        log.debug("a miss could not be explained", exc_info=True)
        return ""
    shown = lines[:_MOST_LINES]
    if len(lines) > len(shown):
        shown.append(f"and {len(lines) - len(shown)} more; see `compile-farm explain`")
    return "".join(f"\n  {line}" for line in shown) + "\n"


def _no_artifact(*args: Any) -> Any:
    raise AssertionError("called before there is an artifact")


def _farm(settings: BackendOptions) -> Farm:
    from compile_farm.farm import Farm

    name = (settings.url, settings.trusted_keys)
    with _lock:
        if name not in _farms:
            keys = list(settings.trusted_keys) if settings.trusted_keys is not None else None
            _farms[name] = Farm(settings.url, trusted_keys=keys)
        return _farms[name]
