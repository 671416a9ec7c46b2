"""Lower: one decoded graph through AOTInductor, once per candidate.

In: a decoded graph and the settings. Out: a stripped shared object (and the list of its fallback
calls, where it has any) in a folder of its own, with the report of what was fused. Every message
that the compiler raises, also an empty AssertionError, becomes a readable Failure.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._guards import TracingContext, tracing
from torch.utils._sympy.value_ranges import bound_sympy

from compile_farm.v1 import artifact_pb2, compiler_pb2, target_pb2
from compiler_service.engine.decode import DecodedGraph
from compiler_service.engine.errors import (
    EngineError,
    in_words,
    ran_out_of_memory,
    unsupported,
)
from compiler_service.engine.neutral import neutralise
from compiler_service.engine.report import FusionHook
from compiler_service.engine.settings import host_isa, march


@dataclass
class Lowered:
    """What one candidate compiled to."""

    # "model.so", and "model.json" where the code calls operators by name.
    files: dict[str, Path]
    report: artifact_pb2.Report

    @property
    def shared_object(self) -> Path:
        return self.files["model.so"]


def lower(
    decoded: DecodedGraph, settings: dict[str, Any], folder: Path, target: target_pb2.Target
) -> Lowered:
    """Compiles into ``folder``; raises EngineError.

    ``decoded`` is used up: the compiler rewrites its graph.
    """
    from torch._inductor.compile_fx import compile_fx_aot

    from compiler_service.engine import exact
    from compiler_service.engine.bounds import BoundsPass

    exact.install()
    hook = FusionHook()
    patches = {**settings, "_post_fusion_custom_pass": hook}
    if target.WhichOneof("hardware") == "cpu":
        patches["post_grad_custom_pre_pass"] = BoundsPass()
    _reset()
    try:
        with torch.no_grad(), tracing(TracingContext(decoded.mode)), march(host_isa(target)):
            written = compile_fx_aot(
                decoded.module,
                decoded.fakes,  # type: ignore[arg-type]
                config_patches=patches,
            )
    except EngineError:
        raise
    except Exception as error:
        raise _readable(error) from error
    finally:
        _reset()
    _check_guards(decoded)
    return _collect(list(written), folder, hook)  # type: ignore[arg-type]


def _reset() -> None:
    """No state of one stranger's graph may reach the next."""
    import torch._dynamo

    torch._dynamo.reset()
    torch._inductor.codecache.PyCodeCache.cache_clear()


def _collect(written: list[Any], folder: Path, hook: FusionHook) -> Lowered:
    paths = [path for path in written if isinstance(path, str)]
    shared = [Path(path) for path in paths if path.endswith(".so")]
    if len(shared) != 1:
        raise EngineError(
            compiler_pb2.REASON_COMPILER_ERROR,
            f"AOTInductor wrote {len(shared)} shared objects instead of one",
            stage="lower",
        )
    for path in paths:
        if path.endswith(".wrapper.cpp"):
            hook.read_wrapper(Path(path))
    files = {"model.so": folder / "model.so"}
    shutil.copyfile(shared[0], files["model.so"])
    subprocess.run(["strip", "--strip-unneeded", str(files["model.so"])], check=True)
    neutralise(files["model.so"], [folder, shared[0].parent])
    # Operators without a C shim are called by name; the runner reads them from beside the object.
    calls = shared[0].with_suffix(".json")
    if calls.exists():
        files["model.json"] = folder / "model.json"
        shutil.copyfile(calls, files["model.json"])
    return Lowered(files, hook.report)


def _check_guards(decoded: DecodedGraph) -> None:
    """Refuses code that holds for a part of the symbols' ranges only.

    AOTInductor drops the guards that lowering added; the artifact would answer wrongly outside.
    """
    environment = decoded.mode.shape_env
    assert environment is not None
    for index, number in decoded.symbols.items():
        known = environment.replace(number.node.expr)
        if known.is_number:
            raise unsupported(
                f"compiling fixed the dynamic dimension of symbol {index} to {known}",
                remedy="make that dimension static, or change the code that depends on its value",
                stage="lower",
            )
    for guard in environment.guards:
        # A condition between symbols and numbers; what the ranges already promise is no news.
        bounds = bound_sympy(environment.simplify(guard.expr), environment.var_to_range)
        if not (bounds.is_singleton() and bool(bounds.lower)):
            raise unsupported(
                "compiling needs a condition on dynamic dimensions that the request did not "
                f"promise: {guard.expr}",
                remedy="narrow the range in dynamic_shapes, or make the dimension static",
                stage="lower",
            )


def _readable(error: Exception) -> EngineError:
    """A Failure that says what failed and where, even for an exception without a message."""
    cause: BaseException = error
    while type(cause).__name__ in ("InductorError", "BackendCompilerFailed") and (
        inner := getattr(cause, "inner_exception", None) or cause.__cause__
    ):
        cause = inner
    name = type(cause).__name__
    is_missing = isinstance(cause, NotImplementedError) or name in (
        "MissingOperatorWithoutDecomp",
        "MissingOperatorWithDecomp",
        "UnsupportedOperatorException",
        "GuardOnDataDependentSymNode",
    )
    reason = compiler_pb2.REASON_UNSUPPORTED if is_missing else compiler_pb2.REASON_COMPILER_ERROR
    if ran_out_of_memory(cause):
        reason = compiler_pb2.REASON_OUT_OF_MEMORY
    return EngineError(
        reason,
        f"Inductor could not compile the graph: {in_words(cause)}",
        remedy="the model runs eager meanwhile; a graph without this operator would compile",
        stage="lower",
    )
