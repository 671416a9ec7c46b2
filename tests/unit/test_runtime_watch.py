"""What is noticed of a model that changes after it was bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from compile_farm.runtime.watch import ModelWatch


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 2.0
        self.mode = "sum"
        self.steps = [1, 2]
        self.rates = {"low": 0.1}
        self.act = torch.relu
        self.dtype = torch.float16
        self.cache: Any = None
        self.big = list(range(1000))
        self.layers = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Dropout(0.1), nn.LayerNorm(4))


def _set(path: str, value: Any) -> Callable[[nn.Module], None]:
    owner, _, name = path.rpartition(".")
    return lambda model: setattr(model.get_submodule(owner), name, value)


CHANGES: list[tuple[Callable[[Any], Any], str]] = [
    (_set("factor", 3.0), "the model has another factor=3.0, it was 2.0"),
    (_set("factor", 2), "factor=2, it was 2.0"),
    (_set("mode", "mean"), "mode='mean', it was 'sum'"),
    (_set("act", torch.tanh), "another act="),
    (_set("dtype", torch.float32), "dtype=torch.float32"),
    (lambda model: model.steps.append(3), "other values in steps"),
    (lambda model: model.rates.update(low=0.2), "other values in rates"),
    (lambda model: delattr(model, "factor"), "another factor"),
    (_set("layers.2.eps", 0.5), "the module layers.2 has another eps=0.5, it was 1e-05"),
    (lambda model: model.layers[1].train(), "layers.1 has another training=True"),
    (lambda model: model.layers[0].register_parameter("bias", nn.Parameter(torch.ones(4))), "bias"),
    (lambda model: model.layers[2].register_forward_hook(print), "hook"),
    (lambda model: model.register_forward_pre_hook(print), "hook"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_a_change_is_noticed(change: Callable[[Any], Any], words: str) -> None:
    model = Model().eval()
    watch = ModelWatch(model)
    assert watch.is_as_before()
    change(model)
    assert not watch.is_as_before()
    assert words in str(watch.changed())


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "factor", float("2.0")),
        lambda model: setattr(model, "cache", torch.ones(2)),
        lambda model: setattr(model, "_calls", 3),
        lambda model: setattr(model.layers[1], "p", 0.5),  # of no effect in eval mode
        lambda model: model.layers[0].train(),  # nor of any for this layer
        lambda model: model.layers[0].weight.data.fill_(1.0),
    ],
)
def test_what_can_not_matter_is_not(change: Callable[[Any], Any]) -> None:
    model = Model().eval()
    watch = ModelWatch(model)
    change(model)
    assert watch.is_as_before() or watch.changed() is None


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.layers.__setitem__(0, nn.Linear(4, 4)),
        lambda model: model.layers.append(nn.ReLU()),
        lambda model: model.layers.pop(1),
    ],
)
def test_another_submodule_is_noticed(change: Callable[[Any], Any]) -> None:
    model = Model().eval()
    watch = ModelWatch(model)
    assert watch.has_same_modules()
    change(model)
    assert not watch.has_same_modules()
