"""Weights that are tensor subclasses, through a real farm: one of our own, and torchao's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import compile_farm
from compile_farm import BindError, Farm
from tests.farms import RunningFarm
from tests.subclasses import Layers, OtherSum, Sum, weight

X = torch.linspace(-1, 1, 24).reshape(3, 8)


@pytest.fixture(autouse=True)
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "cache"))
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def compiled(model: Any, server: RunningFarm, **more: Any) -> Any:
    options = {"url": server.address, "on_miss": "wait", "timeout": 280.0, **more}
    return torch.compile(model, backend="compile_farm", options=options)


def test_bound_to_the_tensors_inside_the_live_model(farm: Farm) -> None:
    artifact = farm.submit(Layers().eval(), (X,)).result(280)
    # Another model of the same configuration, by key, as a host would.
    model = Layers().eval()
    run: Any = farm.bind(artifact.key, model, verify_on_load=1)
    torch.testing.assert_close(run(X), model(X))
    model.first.weight.fine.mul_(3)  # in place
    torch.testing.assert_close(run(X), model(X))
    model.second.weight.fine.coarse = torch.ones(4, 12)  # one inside it
    torch.testing.assert_close(run(X), model(X))
    model.first.weight = weight(12, 8)  # the whole
    torch.testing.assert_close(run(X), model(X))
    assert run.difference is None
    kept = model.first.weight
    for other in (weight(12, 8, 0.25), weight(12, 8, kind=OtherSum), kept.plain()):
        model.first.weight = nn.Parameter(other, requires_grad=False)
        with pytest.raises(BindError, match=r"the weight first\.weight .*captured was"):
            run(X)
        with pytest.raises(BindError, match=r"the weight first\.weight .*captured was"):
            artifact.bind(model)
    model.first.weight = kept
    torch.testing.assert_close(run(X), model(X))


def test_by_torch_compile(farm_server: RunningFarm) -> None:
    model = Layers().eval()
    run = compiled(model, farm_server, verify_on_load=1)
    torch.testing.assert_close(run(X), model(X))
    model.first.weight = weight(12, 8)
    torch.testing.assert_close(run(X), model(X))
    graph = compile_farm.compiled_graphs()[-1]
    assert (graph.state, graph.fallbacks) == ("ready", 0)


@pytest.mark.slow
def test_arguments_results_and_another_context_by_torch_compile(farm_server: RunningFarm) -> None:
    class Model(nn.Module):
        def forward(self, one: Any, x: torch.Tensor) -> Any:
            return one.t(), torch.sin(x @ one.t())

    model = Model()
    run = compiled(model, farm_server, verify_on_load=1)
    for factor in (0.5, 0.5, 0.25):
        one = weight(4, 8, factor).detach()
        (mine, y), (theirs, expected) = run(one, X), model(one, X)
        assert isinstance(mine, Sum)
        assert mine.factor == theirs.factor
        assert torch.equal(mine.fine, theirs.fine)
        torch.testing.assert_close(y, expected)
    assert {graph.state for graph in compile_farm.compiled_graphs()[-2:]} == {"ready"}


def _quantized(name: str, dtype: torch.dtype) -> nn.Module:
    quantization = pytest.importorskip("torchao.quantization", reason="needs torchao")
    configurations: dict[str, Callable[[], Any]] = {
        "int8 weight-only": quantization.Int8WeightOnlyConfig,
        "int8 dynamic": quantization.Int8DynamicActivationInt8WeightConfig,
        "int4 weight-only": lambda: quantization.IntxWeightOnlyConfig(
            weight_dtype=torch.int4, granularity=quantization.PerGroup(32)
        ),
        "int4, int8 dynamic": lambda: quantization.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=quantization.PerGroup(32)
        ),
        "float8 weight-only": quantization.Float8WeightOnlyConfig,
    }
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).eval().to(dtype)
    quantization.quantize_(model, configurations[name]())
    return model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("int8 weight-only", torch.float32),
        ("int8 weight-only", torch.bfloat16),
        ("int8 dynamic", torch.float32),
        ("int8 dynamic", torch.bfloat16),
        ("int4 weight-only", torch.float32),
        ("int4, int8 dynamic", torch.float32),
        ("float8 weight-only", torch.bfloat16),
    ],
)
def test_models_that_torchao_quantized(
    name: str, dtype: torch.dtype, farm: Farm, farm_server: RunningFarm
) -> None:
    x = torch.randn(4, 64, dtype=dtype)
    model = _quantized(name, dtype)
    artifact = farm.submit(model, (x,)).result(280)
    # Its operators come apart into torch's own: no farm needs the library.
    assert not artifact.manifest.libraries
    inputs = [entry.name for entry in artifact.manifest.signature.inputs]
    assert "0.weight.qdata" in inputs
    tolerance = {"rtol": 2e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {}
    other = _quantized(name, dtype)
    torch.testing.assert_close(artifact.bind(other)(x), other(x), **tolerance)
    with pytest.raises(BindError, match=r"the weight 0\.weight is a"):
        artifact.bind(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).to(dtype))
    torch.testing.assert_close(compiled(model, farm_server)(x), model(x), **tolerance)
    graph = compile_farm.compiled_graphs()[-1]
    assert (graph.state, graph.reason, graph.fallbacks) == ("ready", "", 0)
