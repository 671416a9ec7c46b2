"""Calls by position, as the torch.compile way makes them: all inputs come with each call."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from compile_farm.errors import InputMismatchError
from compile_farm.runtime.positional import positional
from tests.loadable import Opened, example, opened


@pytest.fixture(scope="module")
def affine(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return opened("affine", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return opened("nested", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return opened("cache", tmp_path_factory.mktemp("cache"))


def inputs_of(artifact: Opened, model: torch.nn.Module, users: dict[str, Any]) -> list[Any]:
    """The signature's inputs in order: weights by name, the rest from ``users``."""
    held = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
        **{name: value for name, value in vars(model).items() if isinstance(value, torch.Tensor)},
        **users,
    }
    return [held[entry.name] for entry in artifact.loaded.manifest.signature.inputs]


def test_outputs_come_in_the_signatures_order(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    call = positional(affine.loaded)
    (y,) = call(inputs_of(affine, model, {"x": x}))
    with torch.no_grad():
        torch.testing.assert_close(y, model(x))


def test_numbers_among_the_outputs_follow_from_the_sizes(nested: Opened) -> None:
    model, (x, parts), kwargs, _ = example("nested")
    users = {
        "x": x,
        "parts[0]": parts[0],
        "parts[1]": parts[1],
        "batch['mask']": kwargs["batch"]["mask"],
    }
    outputs = positional(nested.loaded)(inputs_of(nested, model, users))
    kinds = [entry.WhichOneof("kind") for entry in nested.loaded.manifest.signature.outputs]
    assert outputs[kinds.index("scalar")] == 2 * x.shape[0]
    with torch.no_grad():
        expected = model(x, parts, **kwargs)["pair"]
    torch.testing.assert_close(outputs[0], expected.first)


def test_new_weights_are_checked_and_used(affine: Opened) -> None:
    call = positional(affine.loaded)
    for seed in (1, 2, 1):
        model, (x,), _, _ = example("affine", seed)
        with torch.no_grad():
            expected = model(x)
        torch.testing.assert_close(call(inputs_of(affine, model, {"x": x}))[0], expected)


@pytest.mark.parametrize(
    ("position", "value", "words"),
    [
        (0, torch.zeros(4, 9), "linear.weight has size 9"),
        (0, torch.zeros(8, 4).T, "linear.weight has strides"),
        (0, None, "linear.weight is a NoneType"),
        (1, torch.zeros(4).double(), "linear.bias is torch.float64"),
        (2, torch.zeros(65, 8), "'x': size of dimension 0 is 65"),
        (2, torch.zeros(3, 8).long(), "'x' is torch.int64"),
    ],
)
def test_what_does_not_fit_is_refused_and_later_calls_go_on(
    affine: Opened, position: int, value: Any, words: str
) -> None:
    model, (x,), _, _ = example("affine")
    call = positional(affine.loaded)
    good = inputs_of(affine, model, {"x": x})
    call(good)
    wrong = list(good)
    wrong[position] = value
    for _ in range(2):
        with pytest.raises(InputMismatchError, match=words):
            call(wrong)
    call(good)


def test_the_number_of_inputs_is_checked(affine: Opened) -> None:
    with pytest.raises(InputMismatchError, match="2 inputs, the artifact takes 3"):
        positional(affine.loaded)([torch.zeros(1), torch.zeros(1)])


def test_a_refused_call_writes_nothing(cache: Opened) -> None:
    model, (x, position, state), _, _ = example("cache")
    call = positional(cache.loaded)
    users = {"x": x, "position": position, "state": state}
    good = inputs_of(cache, model, users)
    before = [value.clone() for value in good]
    shared = inputs_of(cache, model, {**users, "state": x[:, 0]})
    with pytest.raises(InputMismatchError, match="shares memory"):
        call(shared)
    with pytest.raises(InputMismatchError, match=r"'position' is torch.int32"):
        call(inputs_of(cache, model, {**users, "position": position.int()}))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(good, before, strict=True))
    call(good)
    assert not torch.equal(state, before[-1])
