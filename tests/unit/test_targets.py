"""What fits what: equal toolchains, the same card, a CPU level that is not higher."""

from __future__ import annotations

import subprocess
import sys

import pytest

from compile_farm import targets
from compile_farm.errors import CompileFarmError
from compile_farm.targets import (
    ISA_LEVELS,
    admissible_targets,
    choose_target,
    host_target,
    why_incompatible,
)
from compile_farm.v1 import target_pb2


def cpu(isa: str = "x86-64-v3", **toolchain: str) -> target_pb2.Target:
    versions = {"torch": "2.13.0+cpu", "torch_git": "abc", "platform": "linux-x86_64"}
    return target_pb2.Target(
        cpu=target_pb2.CpuHardware(isa=isa),
        toolchain=target_pb2.Toolchain(**{**versions, **toolchain}),
    )


def cuda(arch: str = "sm_90", name: str = "NVIDIA H200") -> target_pb2.Target:
    return target_pb2.Target(
        cuda=target_pb2.CudaHardware(arch=arch, device_name=name), toolchain=cpu().toolchain
    )


def test_a_target_fits_itself() -> None:
    assert why_incompatible(cpu(), cpu()) is None
    assert why_incompatible(cuda(), cuda()) is None


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("torch", "torch other"),
        ("torch_git", "the torch build other"),
        ("triton", "Triton other"),
        ("cuda_runtime", "the CUDA runtime other"),
        ("platform", "the platform other"),
    ],
)
def test_each_field_of_the_toolchain_must_be_equal(field: str, words: str) -> None:
    reason = why_incompatible(cpu(**{field: "other"}), cpu())
    assert reason is not None
    assert words in reason


def test_a_lower_cpu_level_fits_and_a_higher_does_not() -> None:
    assert why_incompatible(cpu("x86-64-v3"), cpu("x86-64-v4")) is None
    reason = why_incompatible(cpu("x86-64-v4"), cpu("x86-64-v3"))
    assert reason == "it needs a CPU of level x86-64-v4, this process admits x86-64-v3"
    assert "not known" in str(why_incompatible(cpu("armv9"), cpu()))


def test_another_card_does_not_fit() -> None:
    assert "sm_80" in str(why_incompatible(cuda("sm_80"), cuda()))
    # The same architecture: its tuned kernels run there, and may answer wrongly.
    assert "NVIDIA H100" in str(why_incompatible(cuda(name="NVIDIA H100"), cuda()))


def test_kinds_of_hardware_do_not_fit_each_other() -> None:
    assert why_incompatible(cpu(), cuda()) == "it was built for cpu, this is cuda"
    assert why_incompatible(target_pb2.Target(), cpu()) == "it was built for nothing, this is cpu"


def test_the_hosts_own_target_is_chosen_first_then_the_best_lower_one() -> None:
    host = cpu("x86-64-v4")
    served = [cpu("x86-64-v2"), cpu("x86-64-v3"), cpu("x86-64-v4", torch="2.12"), cuda()]
    assert choose_target(host, [*served, host]) == host
    assert choose_target(host, served) == cpu("x86-64-v3")
    assert choose_target(cpu("x86-64-v2"), [cpu("x86-64-v3")]) == cpu("x86-64-v2")


def test_a_target_nobody_serves_is_asked_for_all_the_same() -> None:
    assert choose_target(cuda(), [cpu()]) == cuda()
    assert choose_target(cpu(), []) == cpu()


def test_all_admissible_targets_fit() -> None:
    host = cpu("x86-64-v4")
    found = admissible_targets(host)
    assert [entry.cpu.isa for entry in found] == list(reversed(ISA_LEVELS))
    assert all(why_incompatible(entry, host) is None for entry in found)
    assert admissible_targets(cuda()) == [cuda()]


def test_the_host_is_what_torch_says() -> None:
    import torch

    host = host_target("cpu")
    assert host.toolchain.torch == torch.__version__
    assert host.toolchain.torch_git == torch.version.git_version
    assert host.toolchain.platform == "linux-x86_64"
    assert host.cpu.isa in ISA_LEVELS
    with pytest.raises(CompileFarmError, match="'mps'"):
        host_target("mps")


def test_a_returned_toolchain_may_be_changed() -> None:
    host_target("cpu").toolchain.torch = "changed"
    assert host_target("cpu").toolchain.torch != "changed"


def test_the_variable_lowers_the_level_and_never_raises_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(targets, "_cpu_isa", lambda: "x86-64-v3")
    monkeypatch.setenv("COMPILE_FARM_ISA", "x86-64-v2")
    assert targets.host_isa() == "x86-64-v2"
    monkeypatch.setenv("COMPILE_FARM_ISA", "x86-64-v4")
    assert targets.host_isa() == "x86-64-v3"
    monkeypatch.setenv("COMPILE_FARM_ISA", "avx2")
    with pytest.raises(CompileFarmError, match="use one of"):
        targets.host_isa()


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        (set(), "x86-64"),
        (targets._V2_FLAGS, "x86-64-v2"),
        (targets._V2_FLAGS | targets._V3_FLAGS, "x86-64-v3"),
        (targets._V2_FLAGS | targets._V3_FLAGS | {"avx512f"}, "x86-64-v3"),
        (targets._V2_FLAGS | targets._V3_FLAGS | targets._V4_FLAGS, "x86-64-v4"),
        # A hypervisor may show AVX-512 and hide what comes below it.
        (targets._V2_FLAGS | targets._V4_FLAGS, "x86-64-v2"),
    ],
)
def test_levels_follow_from_flags(
    flags: set[str], level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "_cpu_flags", lambda: frozenset(flags))
    assert targets._cpu_isa.__wrapped__() == level


def test_tritons_version_is_known_without_importing_it() -> None:
    code = (
        "import sys; from compile_farm.targets import host_target; host_target('cpu');"
        "assert 'triton' not in sys.modules and 'torch._inductor' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
