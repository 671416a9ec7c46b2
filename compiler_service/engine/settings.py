"""Inductor's settings for a target, an effort and a numeric mode: one table, and nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch._inductor import config, cpp_builder

from compile_farm.v1 import target_pb2

# Vector width in bits that each x86-64 level has.
_VECTOR_BITS = {"x86-64-v3": 256, "x86-64-v4": 512}
# The host code of a CUDA artifact runs on any machine that such a card stands in.
_CUDA_HOST_ISA = "x86-64-v3"


@dataclass(frozen=True)
class Candidate:
    """One way to compile a graph: a name for people, and what differs from the defaults."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)


DEFAULT = Candidate("defaults")


def candidates(target: target_pb2.Target, options: target_pb2.Options) -> list[Candidate]:
    """What to compile and measure, the stable choice first; ties go to it."""
    if options.effort != target_pb2.EFFORT_TUNED:
        return [DEFAULT]
    tuned = {"max_autotune": True, "coordinate_descent_tuning": True}
    if target.WhichOneof("hardware") == "cuda":
        return [
            DEFAULT,
            Candidate("coordinate descent", {"coordinate_descent_tuning": True}),
            Candidate("max autotune and coordinate descent", tuned),
        ]
    return [
        DEFAULT,
        Candidate("max autotune and coordinate descent", tuned),
        Candidate("loop ordering after fusion", {"loop_ordering_after_fusion": True}),
    ]


def host_isa(target: target_pb2.Target) -> str:
    """The x86-64 level that the artifact's host code may use."""
    return target.cpu.isa if target.WhichOneof("hardware") == "cpu" else _CUDA_HOST_ISA


def inductor_settings(
    target: target_pb2.Target,
    options: target_pb2.Options,
    candidate: Candidate,
    output: Path,
    *,
    random: bool,
) -> dict[str, Any]:
    """Config patches for one compile, whose files go to ``output``'s folder."""
    isa = host_isa(target)
    settings: dict[str, Any] = {
        "aot_inductor.package": True,
        "aot_inductor.output_path": str(output),
        "cpp.march": isa,
        "cpp.simdlen": _VECTOR_BITS[isa],
        # Else the worker's own number of cores is written into the loops.
        "cpp.dynamic_threads": True,
        # Eager rounds after each bfloat16 operator; fused kernels keep float32 unless told.
        "emulate_precision_casts": options.numerics != target_pb2.NUMERICS_FAST,
        # An addmm of eager rounds once; apart, the product would round before the sum.
        "keep_addmm_fused_for_half_dtypes": options.numerics != target_pb2.NUMERICS_FAST,
        # Inductor's own generator draws other numbers than eager's.
        "fallback_random": random,
        # It would fold weights into the code.
        "freezing": False,
        **candidate.settings,
    }
    if target.WhichOneof("hardware") == "cuda":
        settings["aot_inductor.embed_kernel_binary"] = True
        # A product of 500 columns would be one of 504, and a result with eager's strides no more.
        settings["shape_padding"] = False
    # A setting that this torch does not have yet can't be given to it.
    return {name: value for name, value in settings.items() if _exists(name)}


@contextlib.contextmanager
def march(isa: str) -> Iterator[None]:
    """Builds for ``isa`` also where torch has no ``cpp.march`` (before 2.13): there it would take
    whatever the compiling machine has."""
    if _exists("cpp.march"):
        yield
        return
    original = cpp_builder._get_optimization_cflags

    def portable(*args: Any, **kwargs: Any) -> tuple[list[str], list[str]]:
        compile_flags, link_flags = original(*args, **kwargs)
        replaced = [f"march={isa}" if flag == "march=native" else flag for flag in compile_flags]
        return replaced, link_flags

    cpp_builder._get_optimization_cflags = portable
    try:
        yield
    finally:
        cpp_builder._get_optimization_cflags = original


def _exists(name: str) -> bool:
    owner: Any = config
    for part in name.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True
