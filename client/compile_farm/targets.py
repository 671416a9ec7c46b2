"""What this process can run, and whether an artifact was built for it.

In: the process's own torch and hardware. Out: a Target, the choice of one among those that a farm
serves, or in words why an artifact's does not fit. Native code runs on the wrong version or card
without complaint and answers wrongly, so everything must be equal but the CPU's level, which may be
lower in the artifact.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from compile_farm.errors import CompileFarmError
from compile_farm.v1 import target_pb2

ISA_VARIABLE = "COMPILE_FARM_ISA"
# From lowest to highest; each runs what the ones before it run.
ISA_LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")

# As Linux names them in /proc/cpuinfo ("abm" is LZCNT).
_V3_FLAGS = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
_V4_FLAGS = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
_V2_FLAGS = frozenset({"cx16", "popcnt", "sse4_1", "sse4_2", "ssse3"})


def host_target(device_type: str, device_index: int | None = None) -> target_pb2.Target:
    """This process's target for "cpu" or "cuda" (the current GPU, or that index).

    Raises CompileFarmError for "cuda" where torch sees no GPU.
    """
    target = target_pb2.Target(toolchain=host_toolchain())
    if device_type == "cpu":
        target.cpu.isa = host_isa()
    elif device_type == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise CompileFarmError(
                "torch sees no CUDA GPU in this process",
                remedy="install a CUDA build of torch and a driver, or use the CPU",
            )
        major, minor = torch.cuda.get_device_capability(device_index)
        target.cuda.arch = f"sm_{major}{minor}"
        target.cuda.device_name = torch.cuda.get_device_name(device_index)
    else:
        raise CompileFarmError(
            f"there is no target for the device type {device_type!r}", remedy="use cpu or cuda"
        )
    return target


@functools.lru_cache(maxsize=1)
def _toolchain() -> target_pb2.Toolchain:
    import torch

    return target_pb2.Toolchain(
        torch=str(torch.__version__),
        torch_git=torch.version.git_version or "",
        triton=_triton_version(),
        cuda_runtime=torch.version.cuda or "",
        platform=f"{sys.platform}-{platform.machine()}",
    )


def host_toolchain() -> target_pb2.Toolchain:
    """The versions in this process that compiled code depends on."""
    copy = target_pb2.Toolchain()
    copy.CopyFrom(_toolchain())
    return copy


def host_isa() -> str:
    """The CPU's level, or the lower one that COMPILE_FARM_ISA admits.

    Raises CompileFarmError if the variable names no level.
    """
    found = _cpu_isa()
    admitted = os.environ.get(ISA_VARIABLE)
    if not admitted:
        return found
    if admitted not in ISA_LEVELS:
        raise CompileFarmError(
            f"{ISA_VARIABLE} is {admitted!r}", remedy=f"use one of {', '.join(ISA_LEVELS)}"
        )
    return min(found, admitted, key=ISA_LEVELS.index)


def why_incompatible(
    built: target_pb2.Target, host: target_pb2.Target, *, other_card: bool = False
) -> str | None:
    """Why an artifact for ``built`` must not run on ``host``, in words; None if it may.

    ``other_card``: a GPU of the same architecture and another name will do. Its machine code is the
    same; what was tuned was tuned for another one.
    """
    hardware = built.WhichOneof("hardware")
    if hardware is None or hardware != host.WhichOneof("hardware"):
        return f"it was built for {hardware or 'nothing'}, this is {host.WhichOneof('hardware')}"
    for name, what in (
        ("torch", "torch"),
        ("torch_git", "the torch build"),
        ("triton", "Triton"),
        ("cuda_runtime", "the CUDA runtime"),
        ("platform", "the platform"),
    ):
        ours, theirs = getattr(host.toolchain, name), getattr(built.toolchain, name)
        if ours != theirs:
            return f"it was built with {what} {theirs or 'none'}, this process has {ours or 'none'}"
    if hardware == "cpu":
        return _why_isa_too_high(built.cpu.isa, host.cpu.isa)
    if built.cuda.arch != host.cuda.arch:
        return f"it was built for {built.cuda.arch}, this GPU is {host.cuda.arch}"
    if built.cuda.device_name != host.cuda.device_name and not other_card:
        return f"it was built for {built.cuda.device_name}, this GPU is {host.cuda.device_name}"
    return None


def admissible_targets(host: target_pb2.Target) -> list[target_pb2.Target]:
    """Every target whose artifacts run on ``host``, the host's own first."""
    targets = [host]
    if host.WhichOneof("hardware") == "cpu" and host.cpu.isa in ISA_LEVELS:
        for isa in reversed(ISA_LEVELS[: ISA_LEVELS.index(host.cpu.isa)]):
            lower = target_pb2.Target()
            lower.CopyFrom(host)
            lower.cpu.isa = isa
            targets.append(lower)
    return targets


def choose_target(
    host: target_pb2.Target, served: Sequence[target_pb2.Target]
) -> target_pb2.Target:
    """The served target to ask for: the host's own, else the best that it can run.

    Where none is served it is the host's own, so that the farm says that no worker serves it.
    """
    for candidate in admissible_targets(host):
        if candidate in served:
            return candidate
    return host


def describe(target: target_pb2.Target) -> str:
    """A target in a line, for people."""
    if target.WhichOneof("hardware") == "cuda":
        hardware = f"{target.cuda.device_name} ({target.cuda.arch})"
    else:
        hardware = f"CPU {target.cpu.isa}"
    toolchain = target.toolchain
    parts = [hardware, f"torch {toolchain.torch}"]
    if toolchain.triton:
        parts.append(f"Triton {toolchain.triton}")
    if toolchain.cuda_runtime:
        parts.append(f"CUDA {toolchain.cuda_runtime}")
    return ", ".join(parts)


def _why_isa_too_high(built: str, host: str) -> str | None:
    if built not in ISA_LEVELS or host not in ISA_LEVELS:
        return f"its CPU level {built!r} or this CPU's {host!r} is not known"
    if ISA_LEVELS.index(built) > ISA_LEVELS.index(host):
        return f"it needs a CPU of level {built}, this process admits {host}"
    return None


@functools.lru_cache(maxsize=1)
def _cpu_isa() -> str:
    flags = _cpu_flags()
    level = 0
    for wanted in (_V2_FLAGS, _V3_FLAGS, _V4_FLAGS):
        if not wanted <= flags:
            break
        level += 1
    return ISA_LEVELS[level]


def _cpu_flags() -> frozenset[str]:
    """Those that every core has."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    cores = [frozenset(line.partition(":")[2].split()) for line in lines if line[:5] == "flags"]
    return frozenset.intersection(*cores) if cores else frozenset()


def _triton_version() -> str:
    # Importing it costs a second, and its metadata says the same.
    for name in ("triton", "pytorch-triton"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
