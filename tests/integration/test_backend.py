"""torch.compile(model, backend="compile_farm") in the ways that people and libraries call it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import compile_farm
from compile_farm.backend import BackendOptions, CompiledGraph, _farms
from compile_farm.errors import CompileFarmError
from compile_farm.v1 import compiler_pb2
from tests.farms import RunningFarm


@pytest.fixture(autouse=True)
def client(
    farm_server: RunningFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Dynamo without memory, the farm by its environment variable, an empty local cache."""
    monkeypatch.setenv("COMPILE_FARM_URL", farm_server.address)
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("compile_farm.backend._farms", {})
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


class Block(nn.Module):
    """With a constant of its own, so that each test's graph is new to the farm."""

    def __init__(self, constant: float) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.constant = constant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x)) * self.constant + x


def _last() -> CompiledGraph:
    return compile_farm.compiled_graphs()[-1]


def _wait_until_ready(graph: CompiledGraph) -> None:
    deadline = time.monotonic() + 120
    while graph.state == "compiling" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert graph.state == "ready", graph.reason


def test_a_miss_runs_eager_and_swaps_when_ready() -> None:
    model, x = Block(1.01).eval(), torch.randn(2, 8)
    run = torch.compile(model, backend="compile_farm")
    expected = model(x)
    assert torch.equal(run(x), expected)
    graph = _last()
    assert not graph.hit
    _wait_until_ready(graph)
    torch.testing.assert_close(run(x), expected)
    assert graph.fallbacks == 0


def test_a_second_process_worth_of_tracing_hits() -> None:
    model, x = Block(1.02).eval(), torch.randn(2, 8)
    options = {"on_miss": "wait", "timeout": 120.0}
    torch.compile(model, backend="compile_farm", options=options)(x)
    assert not _last().hit
    torch._dynamo.reset()
    run = torch.compile(Block(1.02).eval(), backend="compile_farm", options={"on_miss": "error"})
    run(x)
    assert (_last().hit, _last().state) == (True, "ready")


def test_on_miss_error_raises_and_names_the_key() -> None:
    run = torch.compile(Block(1.03), backend="compile_farm", options={"on_miss": "error"})
    with pytest.raises(Exception, match="no artifact for this graph"):
        run(torch.randn(2, 8))


def test_repeated_blocks_share_one_artifact() -> None:
    """As diffusers compiles a model's blocks, one by one."""
    blocks = nn.Sequential(*(Block(1.04) for _ in range(4))).eval()
    x = torch.randn(2, 8)
    expected = blocks(x)
    before = len(compile_farm.compiled_graphs())
    for block in blocks:
        block.compile(backend="compile_farm", options={"on_miss": "wait", "timeout": 120.0})
    torch.testing.assert_close(blocks(x), expected)
    assert len({graph.key for graph in compile_farm.compiled_graphs()[before:]}) == 1


def test_a_mode_is_an_effort_and_fullgraph_passes() -> None:
    """As transformers' CompileConfig passes them."""
    from transformers import CompileConfig

    config = CompileConfig(backend="compile_farm", mode="reduce-overhead", fullgraph=True)
    model, x = Block(1.05).eval(), torch.randn(2, 8)
    run = torch.compile(model, **config.to_dict())
    run(x)
    graph = _last()
    _wait_until_ready(graph)
    torch.testing.assert_close(run(x), model(x))


def test_a_stance_forces_the_backend() -> None:
    model, x = Block(1.06).eval(), torch.randn(2, 8)
    run = torch.compile(model)
    with torch.compiler.set_stance(force_backend="compile_farm"):
        assert torch.equal(run(x), model(x))
    _wait_until_ready(_last())


def test_each_graph_of_a_broken_model_uses_the_farm() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.sin(x) * 1.07
            torch._dynamo.graph_break()
            return torch.cos(y) * 1.07

    before = len(compile_farm.compiled_graphs())
    options = {"on_miss": "wait", "timeout": 120.0}
    x = torch.randn(4)
    run = torch.compile(Broken(), backend="compile_farm", options=options)
    torch.testing.assert_close(run(x), Broken()(x))
    graphs = compile_farm.compiled_graphs()[before:]
    assert [graph.state for graph in graphs] == ["ready", "ready"]


def test_a_farm_that_is_away_costs_nothing_but_speed() -> None:
    model, x = Block(1.08).eval(), torch.randn(2, 8)
    run = torch.compile(model, backend="compile_farm", options={"url": "127.0.0.1:1"})
    assert torch.equal(run(x), model(x))
    assert _last().state == "unavailable"
    assert "127.0.0.1:1" in _last().reason


def test_training_runs_eager_with_its_reason() -> None:
    model, x = Block(1.09), torch.randn(2, 8)
    with torch.enable_grad():
        torch.compile(model, backend="compile_farm")(x).sum().backward()
    assert model.layer.weight.grad is not None
    assert _last().state == "refused"
    assert _last().kind == "gradients"
    assert "gradients" in _last().reason


def test_the_farm_counts_what_could_not_be_captured(farm_server: RunningFarm) -> None:
    def counted() -> int:
        with compile_farm.Farm(farm_server.address) as farm:
            refusals = farm.status().refusals
        return sum(one.count for one in refusals if one.refusal == compiler_pb2.REFUSAL_GRADIENTS)

    # What the tests before this one were refused may still be on its way.
    for farm in list(_farms.values()):
        farm._refusals.flush()
    before = counted()
    with torch.enable_grad():
        torch.compile(Block(1.2), backend="compile_farm")(torch.randn(2, 8))
    deadline = time.monotonic() + 30
    while counted() == before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert counted() == before + 1


@pytest.mark.parametrize(
    ("mode", "options", "words"),
    [
        (None, {"urll": "x"}, "no option urll"),
        ("fastest", None, "mode 'fastest'"),
        (None, {"on_miss": "panic"}, "on_miss is 'panic'"),
        (None, {"effort": "max"}, "effort is 'max'"),
        (None, {"numerics": "none"}, "numerics is 'none'"),
    ],
)
def test_options_are_checked(mode: str | None, options: dict[str, Any] | None, words: str) -> None:
    with pytest.raises(CompileFarmError, match=words):
        BackendOptions.parse(mode, options)


def test_max_autotune_asks_for_tuning() -> None:
    assert BackendOptions.parse("max-autotune", None).effort == "tuned"
    assert BackendOptions.parse("max-autotune", {"effort": "fast"}).effort == "fast"


def test_a_call_that_does_not_fit_runs_eager() -> None:
    """Inputs that share memory, one of them written to: only eager is right."""

    def write(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(1.11)
        return a + b

    options = {"on_miss": "wait", "timeout": 120.0}
    run = torch.compile(write, backend="compile_farm", options=options)
    x, y = torch.ones(3), torch.ones(3)
    torch.testing.assert_close(run(x, y), torch.full((3,), 2.11))
    base = torch.ones(6)
    mine, theirs = base.clone(), base.clone()
    given = run(mine[:3], mine[1:4])
    torch.testing.assert_close(given, write(theirs[:3], theirs[1:4]))
    torch.testing.assert_close(mine, theirs)
