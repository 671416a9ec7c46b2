"""The engine: one job from a capture to files and a manifest, stage by stage.

In: a SandboxCompile request, in the sandbox. Out: the manifest, complete but for what the worker
adds (digests of the files, time, builder), and the files in the request's output folder.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from compile_farm.errors import CompileFarmError, InvalidGraphError
from compile_farm.key import key_components, key_of
from compile_farm.runtime.native import open_native
from compile_farm.schema import parse_capture
from compile_farm.summary import summarize
from compile_farm.v1 import artifact_pb2, compiler_pb2, graph_pb2, sandbox_pb2
from compiler_service.engine import tune
from compiler_service.engine.decode import DecodedGraph, decode
from compiler_service.engine.errors import EngineError
from compiler_service.engine.inputs import compiled_order, random_inputs, symbol_values
from compiler_service.engine.lower import Lowered, lower
from compiler_service.engine.settings import Candidate, candidates, inductor_settings
from compiler_service.engine.verify import Subject, verify

log = logging.getLogger(__name__)

StageListener = Callable[[compiler_pb2.Stage], None]

# Share of a job that is done when a stage begins.
_FRACTIONS = {"decode": 0.0, "lower": 0.05, "tune": 0.7, "verify": 0.8, "package": 0.95}


def compile_capture(
    request: sandbox_pb2.SandboxCompile, on_stage: StageListener
) -> artifact_pb2.Manifest:
    """Runs all stages; leaves the files in ``request.output_dir``. Raises EngineError."""
    return _Job(request, on_stage).run()


class _Job:
    def __init__(self, request: sandbox_pb2.SandboxCompile, on_stage: StageListener) -> None:
        self._request = request
        self._on_stage = on_stage
        self._output = Path(request.output_dir)
        cuda = request.target.WhichOneof("hardware") == "cuda"
        self._device = torch.device("cuda", torch.cuda.current_device()) if cuda else _CPU
        self._manifest = artifact_pb2.Manifest(schema_version=1, key=request.key)

    def run(self) -> artifact_pb2.Manifest:
        with tempfile.TemporaryDirectory(prefix="build-", dir=self._output) as build:
            with self._stage("decode"):
                capture = self._parse()
                decoded = self._decode(capture)
            chosen, trials = self._lower(capture, decoded, Path(build))
            with self._stage("verify"):
                self._verify(capture, chosen)
            with self._stage("package"):
                for name, path in chosen.files.items():
                    shutil.move(path, self._output / name)
                    self._manifest.files.add(name=name)
        self._describe(capture, decoded)
        self._manifest.report.MergeFrom(chosen.report)
        if len(trials) > 1:
            winner = next(trial for trial in trials if trial.lowered is chosen)
            tune.record(trials, winner, self._manifest.report)
        return self._manifest

    @contextmanager
    def _stage(self, name: str, detail: str = "", fraction: float | None = None) -> Iterator[None]:
        self._on_stage(
            compiler_pb2.Stage(
                name=name,
                fraction=_FRACTIONS[name] if fraction is None else fraction,
                detail=detail,
            )
        )
        begin = time.perf_counter()
        try:
            yield
        except EngineError as error:
            error.failure.stage = error.failure.stage or name
            raise
        finally:
            seconds = time.perf_counter() - begin
            self._manifest.stages.add(stage=f"{name} {detail}".strip(), seconds=seconds)

    def _parse(self) -> graph_pb2.Capture:
        try:
            capture = parse_capture(self._request.capture)
        except InvalidGraphError as error:
            raise _invalid(error) from error
        components = key_components(capture, self._request.target, self._request.options)
        if key_of(components) != self._request.key:
            raise EngineError(
                compiler_pb2.REASON_INVALID,
                f"the key {self._request.key} is not this capture's, which is {key_of(components)}",
                stage="decode",
            )
        self._manifest.components.CopyFrom(components)
        return capture

    def _decode(self, capture: graph_pb2.Capture) -> DecodedGraph:
        try:
            return decode(capture, self._device)
        except InvalidGraphError as error:
            raise _invalid(error) from error

    def _lower(
        self, capture: graph_pb2.Capture, decoded: DecodedGraph, build: Path
    ) -> tuple[Lowered, list[tune.Trial]]:
        """Lowers every candidate, measures them if there are several, returns the chosen one."""
        options = candidates(self._request.target, self._request.options)
        trials = []
        for number, candidate in enumerate(options):
            trial = tune.Trial(candidate)
            trials.append(trial)
            detail = f"candidate {number + 1} of {len(options)}" if len(options) > 1 else ""
            with self._stage("lower", detail, 0.05 + 0.65 * number / len(options)):
                try:
                    trial.lowered = self._lower_one(capture, candidate, build / str(number))
                except EngineError as error:
                    if number == 0:
                        raise
                    trial.rejected = error.failure.message
        if len(trials) > 1:
            with self._stage("tune"):
                self._manifest.report.measured_by = self._measure(capture, decoded, trials)
        chosen = tune.choose(trials).lowered
        assert chosen is not None  # the first candidate was lowered, or its error was raised
        return chosen, trials

    def _lower_one(self, capture: graph_pb2.Capture, candidate: Candidate, folder: Path) -> Lowered:
        folder.mkdir()
        # The compiler rewrites the graph that it is given, so each candidate gets its own.
        decoded = self._decode(capture)
        target, options = self._request.target, self._request.options
        settings = inductor_settings(
            target, options, candidate, folder / "aot" / "model", random=decoded.random
        )
        (folder / "aot").mkdir()
        return lower(decoded, settings, folder, target)

    def _measure(
        self, capture: graph_pb2.Capture, decoded: DecodedGraph, trials: list[tune.Trial]
    ) -> str:
        """Times every trial; says how: "cuda graph" or "calls"."""
        sizes = symbol_values(capture.signature)[0][0]
        values = random_inputs(capture.signature, sizes, self._device, seed=1)
        arguments = compiled_order(decoded.compiled_inputs, values, sizes)
        cuda = captured = self._device.type == "cuda"
        try:
            calls = self._calls(trials, arguments, captured)
        except RuntimeError as error:
            if not captured:
                raise
            # Launch gaps then count for all alike: a worse measure, but one.
            log.warning("no CUDA graph of the candidates, they are called instead: %s", error)
            captured = False
            calls = self._calls(trials, arguments, captured)
        tune.measure(trials, calls, cuda)
        return "cuda graph" if captured else "calls"

    def _calls(
        self, trials: list[tune.Trial], arguments: list[torch.Tensor], captured: bool
    ) -> dict[str, Callable[[], object]]:
        """By candidate's name. Raises RuntimeError where the defaults can't be called."""
        make = tune.graph_call if captured else tune.plain_call
        calls: dict[str, Callable[[], object]] = {}
        for trial in trials:
            if trial.lowered is None:
                continue
            try:
                calls[trial.candidate.name] = make(trial.lowered, arguments, self._device)
            except RuntimeError as error:
                if trial is trials[0]:
                    raise
                trial.rejected = f"could not be measured: {error}"
        return calls

    def _verify(self, capture: graph_pb2.Capture, chosen: Lowered) -> None:
        decoded = self._decode(capture)
        subject = Subject(
            signature=capture.signature,
            module=decoded.module,
            compiled_inputs=decoded.compiled_inputs,
            run=open_native(chosen.shared_object, self._device).run,
            device=self._device,
            random=decoded.random,
        )
        self._manifest.verification.CopyFrom(verify(subject))

    def _describe(self, capture: graph_pb2.Capture, decoded: DecodedGraph) -> None:
        manifest = self._manifest
        manifest.signature.CopyFrom(capture.signature)
        manifest.calling_convention.CopyFrom(capture.calling_convention)
        manifest.target.CopyFrom(self._request.target)
        manifest.options.CopyFrom(self._request.options)
        manifest.libraries.extend(capture.libraries)
        manifest.graph_summary.CopyFrom(summarize(capture.graph))
        manifest.compiled_inputs.extend(decoded.compiled_inputs)
        manifest.compiled_outputs.extend(decoded.compiled_outputs)


_CPU = torch.device("cpu")


def _invalid(error: CompileFarmError) -> EngineError:
    return EngineError(
        compiler_pb2.REASON_UNSUPPORTED, error.message, remedy=error.remedy, stage="decode"
    )
