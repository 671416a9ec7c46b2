"""What a capture bakes in beside the weights: recorded, part of the key, compared at bind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from compile_farm.capture.export import capture_export
from compile_farm.errors import InvalidGraphError
from compile_farm.key import key_components
from compile_farm.runtime.modules import module_states, why_another
from compile_farm.schema import check_capture
from tests.captures import options, target


class Scaled(nn.Module):
    def __init__(self, factor: float = 2.0, slope: float = 0.1, name: str = "/home/one") -> None:
        super().__init__()
        self.factor = factor
        self.name_or_path = name
        self.steps = [1, 2]
        self.act = torch.relu
        self._calls = 0
        self.layers = nn.Sequential(
            nn.Linear(4, 4), nn.LeakyReLU(slope), nn.LayerNorm(4), nn.Dropout(0.1), nn.ReLU()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * self.factor


def changed(change: Callable[[Scaled], object]) -> Scaled:
    model = Scaled().eval()
    change(model)
    return model


OTHERS = [
    # Forward may read it, whatever its name.
    (lambda model: setattr(model, "_calls", 17), "_calls=17"),
    (lambda model: setattr(model, "factor", 3.0), "the model (Scaled) has factor=3.0"),
    (lambda model: setattr(model, "factor", 2), "factor=2, captured was 2.0"),
    (lambda model: setattr(model, "steps", [1, 3]), "steps=[1, 3], captured was [1, 2]"),
    (lambda model: setattr(model, "act", torch.tanh), "act=the function"),
    (lambda model: delattr(model, "factor"), "factor=missing"),
    (lambda model: setattr(model.layers[1], "negative_slope", 0.5), "negative_slope=0.5"),
    (lambda model: setattr(model.layers[2], "eps", 1e-1), "layers.2 (LayerNorm) has eps=0.1"),
    (lambda model: model.train(), "in train mode, captured was eval"),
    (lambda model: model.layers[3].train(), "layers.3 (Dropout) is in train mode"),
    (lambda model: model.layers.append(nn.Tanh()), "has a module layers.5 (Tanh)"),
    (lambda model: model.layers.pop(4), "layers.4 (ReLU) is missing"),
    (lambda model: model.layers.__setitem__(4, nn.GELU()), "is a GELU, captured was a ReLU"),
]


@pytest.mark.parametrize(("change", "words"), OTHERS)
def test_another_model_is_told_apart(change: Callable[[Scaled], object], words: str) -> None:
    problem = why_another(module_states(Scaled().eval()), changed(change))
    assert problem is not None
    assert words in problem


@pytest.mark.parametrize(
    "change",
    [
        lambda model: None,
        lambda model: setattr(model, "name_or_path", "/somewhere/else"),
        lambda model: setattr(model, "_is_hf_initialized", False),
        lambda model: setattr(model.layers[3], "p", 0.5),  # of no effect in eval mode
        lambda model: setattr(model, "seed", 2**70),
        lambda model: model.layers[0].train(),  # nor of any for this layer
    ],
)
def test_what_is_no_setting_is_not_compared(change: Callable[[Scaled], object]) -> None:
    assert why_another(module_states(Scaled().eval()), changed(change)) is None


def test_a_capture_has_them_and_its_key_moves_with_them() -> None:
    x = torch.randn(3, 4)
    one = capture_export(Scaled().eval(), (x,), None, None)
    paths = [state.path for state in one.calling_convention.modules]
    assert paths[:3] == ["", "layers", "layers.0"]
    again = capture_export(Scaled(name="/elsewhere").eval(), (x,), None, None)
    assert key_components(one, target(), options()) == key_components(again, target(), options())
    other = capture_export(Scaled(factor=2.5).eval(), (x,), None, None)
    mine, theirs = (key_components(c, target(), options()) for c in (one, other))
    assert mine.calling_convention != theirs.calling_convention


def test_an_artifact_without_them_says_nothing() -> None:
    assert why_another([], Scaled()) is None


def test_a_capture_with_absurd_ones_is_refused() -> None:
    capture = capture_export(Scaled().eval(), (torch.randn(3, 4),), None, None)
    capture.calling_convention.modules[0].type_name = "x" * 100_000
    with pytest.raises(InvalidGraphError, match="too long"):
        check_capture(capture)
