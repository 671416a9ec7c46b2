"""An artifact that differs from eager on a host: used no more, there or anywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import compile_farm
from compile_farm import ArtifactNotFoundError, CompileFailedError, Farm, QuarantinedError
from compile_farm.cli import main
from tests.farms import RunningFarm

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

ClientMaker = Callable[[str], Farm]


class Counting(nn.Module):
    """``wrong`` makes it another model with the same weights: what a miscompile looks like.

    Binding compares the modules, their numbers and the names of functions, not what an object does.
    """

    def __init__(self, wrong: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(()))
        self.activation = partial(torch.sigmoid if wrong else torch.tanh)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.activation(self.linear(x))


X = torch.linspace(-1, 1, 24).reshape(3, 8)


@pytest.fixture
def client(farm_server: RunningFarm, tmp_path: Path) -> ClientMaker:
    """A host of its own: a farm's client with a local cache by that name."""
    return lambda host: Farm(farm_server.address, cache_dir=tmp_path / host)


@torch.no_grad()
def test_a_right_artifact_runs_on(client: ClientMaker) -> None:
    torch.manual_seed(0)
    model = Counting()
    with client("one") as farm:
        key = farm.submit(model, (X,)).result(280).key
        model.calls.zero_()
        run: Any = farm.bind(key, model, verify_on_load=2)
        for count in (1, 2, 3):
            torch.testing.assert_close(run(X), model.linear(X).tanh())
            assert model.calls.item() == count
        assert run.difference is None
        assert farm.lookup([key])


@torch.no_grad()
def test_a_wrong_one_ends_on_every_host(client: ClientMaker, farm_server: RunningFarm) -> None:
    torch.manual_seed(1)
    built_for, model = Counting(), Counting(wrong=True)
    with client("warm") as warm:
        key = warm.submit(built_for, (X,)).result(280).key
    with client("canary") as farm:
        run: Any = farm.bind(key, model, verify_on_load=1)
        for count in (1, 2):
            torch.testing.assert_close(run(X), model.linear(X).sigmoid())
            assert model.calls.item() == count
        assert run.difference is not None
        with pytest.raises(QuarantinedError, match="differs from eager on a host"):
            farm.artifact(key)
        (listed,) = [one for one in farm.artifacts() if one.key == key]
        assert "differs from eager" in listed.quarantined
    with client("fresh") as farm:
        with pytest.raises(QuarantinedError, match="--lift"):
            farm.artifact(key)
        with pytest.raises(CompileFailedError) as caught:
            farm.submit(built_for, (X,)).result(280)
        assert caught.value.reason == "quarantined"
    with client("warm") as farm:
        # It has the artifact, and hears of the quarantine when it asks.
        with pytest.raises(CompileFailedError, match="quarantine"):
            farm.submit(built_for, (X,)).result(280)
        with pytest.raises(QuarantinedError):
            farm.artifact(key)
    # The operator's way back.
    arguments = ["quarantine", key, "--url", farm_server.address]
    assert main([*arguments, "--lift"]) == 0
    assert main([*arguments, "--lift"]) == 1
    with client("fresh") as farm:
        with pytest.raises(ArtifactNotFoundError):
            farm.artifact(key)
        run = farm.submit(built_for, (X,)).result(280).bind(built_for, verify_on_load=1)
        torch.testing.assert_close(run(X), built_for.linear(X).tanh())
        assert run.difference is None


@torch.no_grad()
def test_by_torch_compile(
    client: ClientMaker, farm_server: RunningFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "jit"))
    torch.manual_seed(2)
    model, twin = Counting(), Counting()
    twin.load_state_dict(model.state_dict())
    options = {"url": farm_server.address, "on_miss": "wait", "verify_on_load": 2}
    run = torch.compile(model, backend="compile_farm", options=options)
    for _ in range(4):
        torch.testing.assert_close(run(X), twin(X))
        torch.testing.assert_close(model.calls, twin.calls)
    graph = compile_farm.compiled_graphs()[-1]
    assert (graph.state, graph.fallbacks) == ("ready", 0)
    assert main(["quarantine", graph.key, "--url", farm_server.address, "--reason", "a test"]) == 0
    torch._dynamo.reset()
    torch.testing.assert_close(run(X), twin(X))
    graph = compile_farm.compiled_graphs()[-1]
    assert graph.state == "quarantined"
    assert "a test" in graph.reason
    assert main(["quarantine", graph.key, "--url", farm_server.address, "--lift"]) == 0
