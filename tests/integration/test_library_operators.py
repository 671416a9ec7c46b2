"""Operators of libraries: compiled where the farm's operator listed the library, else refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import compile_farm
from compile_farm import CaptureError, CompileFailedError, Farm, TargetMismatchError
from compile_farm.capture.export import capture_export
from compile_farm.key import compute_key
from compile_farm.libraries import version_of
from compile_farm.targets import host_target
from compile_farm.v1 import target_pb2
from tests.farms import RunningFarm, start_farm

LIBRARY = "transformers.integrations.moe"
pytest.importorskip(LIBRARY, reason="needs a transformers with experts")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
# These start a farm of their own, whose child imports transformers.
slow = pytest.mark.slow


class Experts(nn.Module):
    """Rows sorted by expert, as transformers' mixtures of experts multiply them in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 16, 24))

    def forward(self, rows: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.transformers.grouped_mm_fallback(rows, self.weight, ends)
        return torch.relu(product) + 1


ROWS, ENDS = torch.linspace(-1, 1, 128).reshape(8, 16), torch.tensor([2, 2, 5, 8]).int()


@pytest.fixture(scope="module")
def with_library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFarm]:
    running = start_farm(tmp_path_factory.mktemp("farm"), "--library", LIBRARY)
    yield running
    running.stop()
    assert running.process.stdout is not None
    running.process.stdout.close()


@slow
@torch.no_grad()
def test_a_mixture_of_experts_is_compiled_and_equals_eager(
    with_library: RunningFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = Experts().eval()
    with Farm(with_library.address, cache_dir=tmp_path / "cache") as farm:
        artifact = farm.submit(model, (ROWS, ENDS)).result(280)
        (library,) = artifact.manifest.libraries
        assert (library.namespace, library.module) == ("transformers", LIBRARY)
        assert library.version == version_of("transformers")
        run = artifact.bind(model)
        # Which rows are whose is a value, not part of the code.
        for ends in (ENDS, torch.tensor([0, 7, 7, 8]).int()):
            torch.testing.assert_close(run(ROWS, ends), model(ROWS, ends))
        # A process that has not imported it would fail inside the compiled code.
        monkeypatch.delitem(sys.modules, LIBRARY)
        with pytest.raises(TargetMismatchError, match="has not imported"):
            farm.artifact(artifact.key).open()


@slow
@torch.no_grad()
def test_by_torch_compile(
    with_library: RunningFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "cache"))
    torch._dynamo.reset()
    model = Experts().eval()
    options = {"url": with_library.address, "on_miss": "wait"}
    run = torch.compile(model, backend="compile_farm", options=options)
    torch.testing.assert_close(run(ROWS, ENDS), model(ROWS, ENDS))
    assert compile_farm.compiled_graphs()[-1].state == "ready"


@torch.no_grad()
def test_a_farm_that_does_not_load_it_says_how_to(farm: Farm) -> None:
    with pytest.raises(CompileFailedError, match="does not load") as caught:
        farm.submit(Experts().eval(), (ROWS, ENDS)).result(280)
    assert caught.value.reason == "unsupported"
    assert f"--library {LIBRARY}" in caught.value.remedy


@torch.no_grad()
def test_the_librarys_version_moves_the_key() -> None:
    capture = capture_export(Experts().eval(), (ROWS, ENDS), None, None)
    target, options = host_target("cpu"), target_pb2.Options()
    key = compute_key(capture, target, options)
    capture.libraries[0].version += ".post1"
    assert compute_key(capture, target, options) != key


@torch.no_grad()
def test_an_operator_of_no_package_is_refused_at_capture() -> None:
    @torch.library.custom_op("tests_own::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = twice(x)
            return result + 1

    with pytest.raises(CaptureError, match="belongs to no installed package") as caught:
        capture_export(Model(), (ROWS,), None, None)
    assert "--library" in caught.value.remedy
