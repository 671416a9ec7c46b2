"""Misses at a real farm, explained: by request, by key, on the command line, in torch.compile."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from compile_farm import ArtifactNotFoundError, Farm
from compile_farm.cli import main
from compile_farm.explain import Explanation
from tests.farms import RunningFarm, start_farm

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

MODEL = """
import torch
class Told(torch.nn.Module):
    def __init__(self, act=torch.tanh):
        super().__init__()
        self.linear = torch.nn.Linear(12, 6)
        self.act = act
    def forward(self, x):
        return self.act(self.linear(x)).sum(-1)
def dynamic(model, maximum=32):
    batch = torch.export.Dim("batch", min=2, max=maximum)
    return dict(model=model.eval(), args=(torch.randn(4, 12),), dynamic_shapes=({0: batch},))
def make():
    return dynamic(Told())
def other():
    return dynamic(Told(torch.relu))
"""


class Told(nn.Module):
    """As in MODEL."""

    def __init__(self, act: Any = torch.tanh) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 6)
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.linear(x)).sum(-1)


def shapes(maximum: int = 32) -> Any:
    return ({0: torch.export.Dim("batch", min=2, max=maximum)},)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFarm]:
    """A farm of these tests' own: what is nearest must not hang on other tests' artifacts."""
    running = start_farm(tmp_path_factory.mktemp("explained"))
    yield running
    running.stop()
    assert running.process.stdout is not None
    running.process.stdout.close()


@pytest.fixture(autouse=True)
def environment(alone: RunningFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPILE_FARM_URL", alone.address)
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "told.py").write_text(MODEL)


@pytest.fixture(scope="module")
def stored(alone: RunningFarm, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The key of the only artifact that there is; what an empty store says was seen before."""
    cache = tmp_path_factory.mktemp("cache")
    with Farm(alone.address, cache_dir=cache) as farm:
        found = farm.explain(Told().eval(), (torch.randn(4, 12),))
        assert found.there is None
        assert "nothing to compare" in str(found)
        return farm.submit(
            Told().eval(), (torch.randn(4, 12),), dynamic_shapes=shapes()
        ).result(280).key  # fmt: skip


@pytest.fixture
def farm(stored: str) -> Iterator[Farm]:
    with Farm() as client:
        yield client


def words(found: Explanation) -> list[str]:
    return [f"{one.component}: {one.words}" for one in found.differences]


def test_the_very_request_is_a_hit(farm: Farm, stored: str) -> None:
    found = farm.explain(Told().eval(), (torch.randn(4, 12),), dynamic_shapes=shapes())
    assert (found.hit, found.here.key, found.differences) == (True, stored, [])


def test_the_summary_is_in_the_manifest(farm: Farm, stored: str) -> None:
    summary = farm.artifact(stored).manifest.graph_summary
    assert summary.operators["aten::tanh.default"] == 1
    assert summary.nodes == sum(summary.operators.values())


def test_a_miss_by_dtype(farm: Farm, stored: str) -> None:
    x = torch.randn(4, 12, dtype=torch.float64)
    found = farm.explain(Told().double().eval(), (x,), dynamic_shapes=shapes())
    assert found.there is not None
    assert found.there.key == stored
    assert "signature: weight linear.weight: float64 against float32" in words(found)
    assert "signature: input 0 (x): float64 against float32" in words(found)
    assert all(one.component == "signature" for one in found.differences)


def test_a_miss_by_stride(farm: Farm) -> None:
    x = torch.randn(12, 4).t()
    (found,) = words(farm.explain(Told().eval(), (x,), dynamic_shapes=shapes()))
    assert "input 0 (x): strides: " in found
    assert "not contiguous here" in found


def test_a_miss_by_range(farm: Farm) -> None:
    found = farm.explain(Told().eval(), (torch.randn(4, 12),), dynamic_shapes=shapes(64))
    (one,) = found.differences
    assert "size of dimension 0: 2 to 64 against 2 to 32" in one.words
    assert one.matters
    found = farm.explain(Told().eval(), (torch.randn(4, 12),))
    assert "fixed to 4 here, may be 2 to 32 there: submit with dynamic_shapes" in str(found)
    assert not any(one.matters for one in found.differences if one.component == "signature")


def test_a_miss_by_options(farm: Farm) -> None:
    found = farm.explain(
        Told().eval(), (torch.randn(4, 12),), dynamic_shapes=shapes(), effort="tuned"
    )
    assert words(found) == [
        "options: the effort is tuned here, fast there: only defaults were tried there"
    ]


def test_a_miss_by_another_operator(farm: Farm) -> None:
    found = farm.explain(Told(torch.relu).eval(), (torch.randn(4, 12),), dynamic_shapes=shapes())
    assert words(found) == [
        "calling_convention: the model has act 'the function relu' here, 'the function tanh' there",
        "graph: aten.relu once here, aten.tanh once there",
    ]


def test_explaining_compiles_nothing(farm: Farm) -> None:
    before = farm.status().compiled
    farm.explain(Told(torch.sin).eval(), (torch.randn(4, 12),))
    assert farm.status().compiled == before
    assert not farm.status().jobs


def test_a_key_against_itself_and_against_none(farm: Farm, stored: str) -> None:
    assert "one and the same key" in str(farm.explain_key(stored, stored))
    assert farm.explain_key(stored).there is None
    with pytest.raises(ArtifactNotFoundError):
        farm.explain_key(stored, "00" * 32)


# The command line


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    return code, capsys.readouterr().out


def test_explain_a_factory(stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "explain", f"{tmp_path}/told.py:other")
    assert code == 0
    assert f"there  {stored}" in out
    # The modules of MODEL and of this file are two classes of one name.
    assert "graph: aten.relu once here, aten.tanh once there" in out

    code, out = printed(capsys, "explain", f"{tmp_path}/told.py:other", stored[:12], "--json")
    given = json.loads(out)
    assert code == 0
    assert given["there"] == stored
    assert given["hit"] is False
    assert given["same"] == ["target", "options", "signature"]
    setting, operator = given["differences"]
    assert (setting["component"], operator["component"]) == ("calling_convention", "graph")
    assert operator["matters"] is True


def test_explain_keys(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "explain", stored, stored[:10])
    assert (code, "one and the same key" in out) == (0, True)
    assert printed(capsys, "explain", "0" * 64)[0] == 1
    assert printed(capsys, "explain", stored, "0" * 64)[0] == 1
    assert printed(capsys, "explain", "no-key")[0] == 2
    assert printed(capsys, "explain", stored, "model.py:make")[0] == 2


def test_require_hit(
    farm: Farm, stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = farm.status().compiled
    code, out = printed(capsys, "compile", f"{tmp_path}/told.py:make", "--require-hit", "--json")
    given = json.loads(out)
    assert (code, given["key"], given["hit"]) == (0, stored, True)

    code, out = printed(capsys, "compile", f"{tmp_path}/told.py:other", "--require-hit")
    assert code == 1
    assert "aten.relu once here, aten.tanh once there" in out
    code, out = printed(capsys, "compile", f"{tmp_path}/told.py:other", "--require-hit", "--json")
    assert (code, json.loads(out)["hit"]) == (1, False)
    assert farm.status().compiled == before


# torch.compile


@pytest.fixture
def dynamo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("compile_farm.backend._farms", {})
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("dynamo", "stored")
def test_on_miss_error_raises_with_the_explanation() -> None:
    run = torch.compile(Told().eval(), backend="compile_farm", options={"on_miss": "error"})
    with pytest.raises(Exception, match="no artifact for this graph") as caught:
        run(torch.randn(4, 12))
    assert "captured by torch.compile here, by submit there" in str(caught.value)
    assert "compile it ahead of time" in str(caught.value)


@pytest.mark.usefixtures("dynamo", "stored")
def test_an_explanation_that_fails_does_not_hide_the_miss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> Explanation:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(Farm, "explain_capture", fail)
    run = torch.compile(Told().eval(), backend="compile_farm", options={"on_miss": "error"})
    with pytest.raises(Exception, match="no artifact for this graph") as caught:
        run(torch.randn(4, 12))
    assert "broken on purpose" not in str(caught.value)
