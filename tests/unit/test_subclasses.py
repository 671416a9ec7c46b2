"""Tensor subclasses as weights: what is captured of them, and what binding compares."""

from __future__ import annotations

import copy
import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from compile_farm.capture.aot import AotCapture
from compile_farm.capture.export import capture_export
from compile_farm.difference import Side
from compile_farm.errors import BindError, CaptureError, InvalidGraphError
from compile_farm.explain import differences
from compile_farm.key import compute_key
from compile_farm.runtime.canary import Canary
from compile_farm.runtime.subclasses import (
    IncomparableError,
    plain_parts,
    rebuilt,
    subclass_states,
    why_another,
)
from compile_farm.runtime.weights import Place, find_slots, weight_problem
from compile_farm.schema import check_capture
from compile_farm.v1 import artifact_pb2, graph_pb2
from tests.captures import options, target
from tests.subclasses import Layers, OtherSum, Sum, weight

X = torch.linspace(-1, 1, 24).reshape(3, 8)
NAMES = [
    "first.weight.coarse",
    "first.weight.fine",
    "first.bias",
    "second.weight.coarse",
    "second.weight.fine.coarse",
    "second.weight.fine.fine",
    "second.bias",
    "x",
]
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def captured(model: nn.Module | None = None, **more: Any) -> graph_pb2.Capture:
    return capture_export(model or Layers(), (X,), **more)


def key(capture: graph_pb2.Capture) -> str:
    return compute_key(capture, target(), options())


def parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    return [part for _, part in plain_parts("", tensor)]


def test_the_plain_tensors_inside_are_the_inputs() -> None:
    capture = captured()
    check_capture(capture)
    assert [entry.name for entry in capture.signature.inputs] == NAMES
    assert {entry.role for entry in capture.signature.inputs[:-1]} == {graph_pb2.ROLE_PARAMETER}
    assert not any("access_subclass" in node.op for node in capture.graph.nodes)
    assert sum(node.op == "aten::add.Tensor" for node in capture.graph.nodes) == 3
    paths = [state.path for state in capture.calling_convention.subclasses]
    assert paths == ["first.weight", "second.weight", "second.weight.fine"]


def test_capturing_leaves_the_model_as_it_is() -> None:
    model = Layers()
    model.second.weight = nn.Parameter(
        Sum(model.second.weight.coarse, torch.randn(4, 12), 1.0), requires_grad=False
    )
    before = [(name, value, id(value)) for name, value in model.named_parameters()]
    inside = [id(part) for _, value, _ in before for part in parts(value)]
    captured(model)
    after = [(name, value, id(value)) for name, value in model.named_parameters()]
    assert [one[2] for one in before] == [one[2] for one in after]
    assert inside == [id(part) for _, value, _ in after for part in parts(value)]
    assert type(model.first) is nn.Linear


def test_values_do_not_move_the_key_and_contexts_do() -> None:
    assert key(captured()) == key(captured())
    assert key(captured()) != key(captured(Layers(factor=0.25)))
    model = Layers()
    model.first.weight = weight(12, 8, kind=OtherSum)
    here, there = captured(), captured(model)
    assert key(here) != key(there)
    (found,) = differences(
        *(Side.of_capture(one, target(), options()) for one in (here, there)),
    )
    assert found.field == "subclasses[first.weight]"
    assert "tests.subclasses:OtherSum there" in found.words


def test_a_dynamic_size_stays_open() -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    capture = captured(dynamic_shapes=({0: batch},))
    (symbol,) = capture.signature.symbols
    assert (symbol.minimum, symbol.maximum) == (1, 64)


def test_integers_inside_come_with_their_range() -> None:
    class Scaled(Sum):
        def plain(self) -> torch.Tensor:
            return self.coarse + self.factor * self.fine.float()

    model = nn.Linear(4, 4, bias=False)
    fine = torch.arange(-8, 8, dtype=torch.int8).reshape(4, 4)
    model.weight = nn.Parameter(Scaled(torch.randn(4, 4), fine, 0.1), requires_grad=False)
    capture = capture_export(model, (torch.randn(2, 4),))
    entry = capture.signature.inputs[1]
    assert (entry.name, entry.tensor.dtype) == ("weight.fine", "int8")
    assert (entry.value_range.minimum, entry.value_range.maximum) == (-8, 7)


def test_tied_subclasses_are_an_input_for_each_name() -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[0].weight = weight(8, 8)
    model[1].weight = nn.Parameter(
        Sum(torch.randn(8, 8), model[0].weight.fine, 0.5), requires_grad=False
    )
    untied = [entry.name for entry in captured(model).signature.inputs]
    model[1].weight = model[0].weight
    assert [entry.name for entry in captured(model).signature.inputs] == untied
    assert len(untied) == 5
    assert model[1].weight is model[0].weight


class Weighted(nn.Module):
    def __init__(self, forward: Callable[..., Any], held: Any = None) -> None:
        super().__init__()
        self.weight = weight(8, 4) if held is None else held
        self.run = forward

    def forward(self, x: torch.Tensor, times: int = 2, other: Any = None) -> Any:
        return self.run(self, x)


def _replace(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.weight.fine = model.weight.fine + 1
    return x @ model.weight


def _write(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.weight.fine.add_(1)
    return x @ model.weight


class Foreign(torch.Tensor):
    """Has nothing by which it could be taken apart."""


def _foreign() -> nn.Parameter:
    return nn.Parameter(torch.randn(8, 4).as_subclass(Foreign), requires_grad=False)


class Unclear(Sum):
    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["coarse", "fine"], {"factor": self.factor, "what": object()}


@pytest.mark.parametrize(
    ("model", "reason", "words"),
    [
        (Weighted(lambda m, x: m.weight.t()), "tensor", "result 0 is a tests.subclasses.Sum"),
        (Weighted(_replace), "state", "writes to the attribute 'weight.fine'"),
        (Weighted(_write), "state", "writes to weight.fine, which lies inside"),
        (Weighted(lambda m, x: (x @ m.weight).nonzero()), "size", "depends on a tensor's values"),
        (Weighted(lambda m, x: x @ m.weight, _foreign()), "tensor", "that can't be taken apart"),
        (
            Weighted(lambda m, x: x @ m.weight, weight(8, 4, kind=Unclear)),
            "tensor",
            r"context\['what'\] is a object",
        ),
    ],
)
def test_what_can_not_be_kept_equal_is_refused(model: nn.Module, reason: str, words: str) -> None:
    with pytest.raises(CaptureError, match=words) as caught:
        captured(model)
    assert caught.value.reason == reason
    assert caught.value.remedy


def test_an_argument_that_is_a_subclass_is_refused_by_name() -> None:
    model = Weighted(lambda m, x: x @ m.weight)
    for value in (weight(3, 8), torch.randn(3, 8).as_subclass(Foreign)):
        with pytest.raises(CaptureError, match="the argument 'x' is a tests") as caught:
            capture_export(model, (value,))
        assert caught.value.reason == "tensor"


def test_a_tensor_inside_a_weight_as_result_is_that_very_input() -> None:
    capture = captured(Weighted(lambda m, x: (m.weight.coarse[1:], m.weight.fine, x @ m.weight)))
    view, whole, product = (
        tree.leaf for tree in capture.calling_convention.result.container.children
    )
    assert (view.alias.input, view.alias.storage_offset.constant) == (0, 4)
    assert (whole.alias.input, whole.alias.identity) == (1, True)
    assert product.output == 0


def test_fixed_arguments_keep_their_places() -> None:
    capture = capture_export(Weighted(lambda m, x: x @ m.weight), (X, 3, None))
    leaves = [tree.leaf for tree in capture.calling_convention.args.container.children]
    assert [leaf.WhichOneof("kind") for leaf in leaves] == ["input", "literal", "literal"]
    assert leaves[0].input == 2
    assert leaves[1].literal.integer == 3


def test_by_torch_compile_each_part_has_its_weights_role() -> None:
    found: list[AotCapture] = []

    def backend(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        found.append(AotCapture(module, examples))
        return found[-1].run_wrapped

    model = Layers()
    result = torch.compile(model, backend=backend)(X)
    torch.testing.assert_close(result, model(X))
    (one,) = found
    roles = [entry.role for entry in one.capture.signature.inputs]
    assert roles.count(graph_pb2.ROLE_PARAMETER) == 7
    assert roles.count(graph_pb2.ROLE_USER_INPUT) == 1
    assert len(one.written) == 1


class Color(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: float


@dataclass
class Options:
    block: tuple[int, ...]
    dtype: torch.dtype
    color: Color | None = None


def _with(context: Any) -> Sum:
    class Said(Sum):
        def __tensor_flatten__(self) -> tuple[list[str], Any]:
            return ["coarse", "fine"], context

    Said.__qualname__ = "Said"
    return Said(torch.zeros(2), torch.zeros(2), 1.0)


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        (1, True, "context=True, captured was 1"),
        (0.0, -0.0, "context=-0.0, captured was 0.0"),
        ([1, 2], [1, 3], r"context\[1\]=3, captured was 2"),
        ((1, 2), [1, 2], "context=list of 2, captured was tuple of 2"),
        ({"a": 1}, {"b": 1}, r"context\['a'\]=missing, captured was 1"),
        ({"a": 1}, {"a": 1, "b": None}, "context=dict of 2, captured was dict of 1"),
        (Options((1, 2), torch.int8), Options((1, 4), torch.int8), r"context.block\[1\]=4"),
        (Options((1,), torch.int8), Options((1,), torch.int4), "context.dtype=torch.int4"),
        (Options((1,), torch.int8, Color.RED), Options((1,), torch.int8), "Color.RED"),
        (Point(1, 2.0), Point(1, 3.0), "context.y=3.0, captured was 2.0"),
        (nn.functional.relu, nn.functional.silu, "silu, captured was .*relu"),
        (None, object(), "can't be compared with what was captured: context is a object"),
    ],
)
def test_another_context_is_named(then: Any, now: Any, words: str) -> None:
    (state,) = subclass_states("weight", _with(then))
    assert why_another(state, _with(copy.deepcopy(then))) is None
    assert re.search(words, why_another(state, _with(now)) or "")


@pytest.mark.parametrize("context", [lambda: 1, {1.5: 2}, {"a": {3}}, 2**63, "a" * 5000, b"x"])
def test_a_context_that_no_other_process_could_compare(context: Any) -> None:
    with pytest.raises(IncomparableError, match="context"):
        list(subclass_states("weight", _with(context)))


def test_another_shape_around_the_same_parts_is_another() -> None:
    (state,) = subclass_states("weight", weight(4, 6))
    problem = why_another(state, weight(6, 4))
    assert problem == "(tests.subclasses:Sum) has shape=(6, 4), captured was (4, 6)"


def slots_of(model: nn.Module, capture: graph_pb2.Capture) -> list[Place]:
    subclasses = capture.calling_convention.subclasses
    return find_slots(model, capture.signature.inputs[:-1], subclasses, CPU)


def test_slots_are_the_live_tensors_and_see_what_was_replaced() -> None:
    model, capture = Layers(), captured()
    slots = slots_of(model, capture)
    held = [home[name] for home, name in slots]
    live = [part for _, value in model.named_parameters() for part in parts(value)]
    assert sorted(map(id, held)) == sorted(map(id, live))
    problems = map(weight_problem, capture.signature.inputs, held, [CPU] * len(held))
    assert list(problems) == [None] * 7
    # A tensor inside it.
    model.first.weight.fine = torch.ones(12, 8)
    home, name = slots[1]
    with pytest.raises(KeyError):
        home[name]
    assert home.get(name) is model.first.weight.fine
    assert home[name] is model.first.weight.fine
    # The whole weight, by one that says the same: to be checked first.
    model.first.weight = weight(12, 8)
    with pytest.raises(KeyError):
        home[name]
    assert home.get(name) is model.first.weight.fine
    assert home[name] is model.first.weight.fine
    # One inside another.
    nested, name = slots[4]
    model.second.weight = weight(4, 12, nested=True)
    with pytest.raises(KeyError):
        nested[name]
    assert nested.get(name) is model.second.weight.fine.coarse


def test_a_subclass_that_changes_under_the_same_object_is_noticed() -> None:
    model, capture = Layers(), captured()
    home, name = slots_of(model, capture)[0]
    first = model.first.weight
    first.factor = 0.25
    with pytest.raises(KeyError):
        home[name]
    with pytest.raises(BindError, match=r"factor.*=0\.25, captured was 0\.5"):
        home.get(name)
    first.factor = 0.5
    assert home.get(name) is home[name] is first.coarse
    first.more = [1, 2]
    assert home.get(name) is first.coarse
    first.more[0] = 3
    with pytest.raises(KeyError):
        home[name]
    # As model.half() does it.
    torch.utils.swap_tensors(first, nn.Parameter(Sum(first.coarse, first.fine, 2.0), False))
    with pytest.raises(KeyError):
        home[name]
    with pytest.raises(BindError, match=r"factor.*=2\.0, captured was 0\.5"):
        home.get(name)


@pytest.mark.parametrize(
    ("replaced", "words"),
    [
        (weight(12, 8, 0.25), r"has context\['factor'\]=0.25, captured was 0.5"),
        (weight(12, 8, kind=OtherSum), "is a tests.subclasses:OtherSum, captured was a .*:Sum"),
        (nn.Parameter(torch.randn(12, 8)), "is a torch.nn.parameter:Parameter, captured was a"),
        (weight(12, 9), r"has shape=\(12, 9\), captured was \(12, 8\)"),
    ],
)
def test_another_subclass_is_refused_at_binding_and_after(replaced: Any, words: str) -> None:
    capture, model = captured(), Layers()
    home, name = slots_of(model, capture)[1]
    model.first.weight = replaced
    with pytest.raises(BindError, match=f"the weight first.weight .*{words}"):
        home.get(name)
    with pytest.raises(BindError, match=words):
        slots_of(model, capture)


def test_a_subclass_where_a_plain_tensor_was() -> None:
    model, capture = Layers(), captured()
    model.first.weight = weight(12, 8, nested=True)
    held = [home[name] for home, name in slots_of(model, capture)]
    problem = weight_problem(capture.signature.inputs[1], held[1], CPU)
    assert problem == "is a Sum, a subclass of Tensor"


def test_the_canary_compares_and_restores_what_lies_inside() -> None:
    given, original = weight(3, 8), weight(3, 8)
    original = rebuilt(given, torch.clone)

    def eager(one: Sum) -> Sum:
        one.coarse.add_(1)
        return Sum(one.coarse * 2, one.fine, 1.0)

    def wrong(one: Sum) -> Sum:
        one.coarse.add_(1)
        return Sum(one.coarse * 3, one.fine, 1.0)

    canary = Canary(artifact_pb2.Manifest(), 1, eager)
    result = canary.call(wrong, (given,), {})
    assert canary.difference is not None
    assert canary.difference.startswith("result 0")
    torch.testing.assert_close(given.coarse, original.coarse + 1)
    torch.testing.assert_close(result.coarse, (original.coarse + 1) * 2)


def test_the_schema_has_bounds_for_them() -> None:
    capture = captured()
    state = capture.calling_convention.subclasses[0]
    capture.calling_convention.subclasses.append(state)
    with pytest.raises(InvalidGraphError, match="no name, or another's"):
        check_capture(capture)
    del capture.calling_convention.subclasses[-1]
    state.settings[0].value.text = "a" * 5000
    with pytest.raises(InvalidGraphError, match="a tensor subclass has too long a setting"):
        check_capture(capture)
