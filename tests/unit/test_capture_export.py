"""Capture through torch.export: what the graph, the signature and the calling convention say."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from compile_farm.capture.export import capture_export
from compile_farm.capture.hazards import OverlapError, has_internal_overlap
from compile_farm.errors import CaptureError
from compile_farm.key import compute_key
from compile_farm.v1 import graph_pb2
from tests.captures import options, target


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: torch.Tensor, factor: int = 1, *, bias: bool = True) -> torch.Tensor:
        return self.layer(x) * self.scale * factor


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


class Lambda(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def _inputs(capture: graph_pb2.Capture) -> dict[str, graph_pb2.Input]:
    return {entry.name: entry for entry in capture.signature.inputs}


def test_weights_are_inputs_with_their_names() -> None:
    capture = capture_export(Linear().eval(), (torch.randn(2, 4),))
    inputs = _inputs(capture)
    assert inputs["layer.weight"].role == graph_pb2.ROLE_PARAMETER
    assert inputs["scale"].role == graph_pb2.ROLE_BUFFER
    assert inputs["x"].role == graph_pb2.ROLE_USER_INPUT
    assert [size.constant for size in inputs["layer.weight"].tensor.sizes] == [3, 4]


def test_no_weight_bytes_travel() -> None:
    model = Linear().eval()
    with torch.no_grad():
        model.layer.weight.copy_(torch.randn(3, 4))
    raw = capture_export(model, (torch.randn(2, 4),)).SerializeToString()
    needle = model.layer.weight.detach().numpy().tobytes()
    assert needle[:8] not in raw


def test_other_weights_give_the_same_key() -> None:
    keys = {
        compute_key(capture_export(Linear().eval(), (torch.randn(2, 4),)), target(), options())
        for _ in range(2)
    }
    assert len(keys) == 1


def test_python_values_are_fixed_and_recorded() -> None:
    capture = capture_export(Linear().eval(), (torch.randn(2, 4), 5), {"bias": False})
    args = capture.calling_convention.args.container.children
    kwargs = capture.calling_convention.kwargs.container
    assert args[1].leaf.literal.integer == 5
    assert kwargs.keys[0].text == "bias"
    assert kwargs.children[0].leaf.literal.boolean is False
    assert list(capture.calling_convention.parameters) == ["x", "factor"]


def test_a_dynamic_dimension_carries_its_range() -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    capture = capture_export(
        Lambda(lambda x: x.relu()), (torch.randn(8, 4),), dynamic_shapes=(({0: batch},),)
    )
    symbol = capture.signature.symbols[0]
    assert (symbol.minimum, symbol.maximum, symbol.hint) == (1, 64, 8)
    assert capture.signature.inputs[0].tensor.sizes[0].symbol == 0


def test_the_hint_does_not_move_the_key() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    keys = {
        compute_key(
            capture_export(
                Lambda(lambda x: x.relu()), (torch.randn(rows, 4),), dynamic_shapes=(({0: batch},),)
            ),
            target(),
            options(),
        )
        for rows in (8, 16)
    }
    assert len(keys) == 1


@pytest.mark.parametrize("which", ["twice", "view", "weight"])
def test_arguments_that_share_memory_stay_several_inputs(which: str) -> None:
    """torch.export takes one tensor given twice for one input, whatever a later call gives."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, 3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x - 2 * y + self.weight

    model = Model()
    x = torch.randn(3, 3)
    second = {"twice": x, "view": x.t(), "weight": model.weight}[which]
    apart = capture_export(model, (x, second.detach().clone()))
    capture = capture_export(model, (x, second))
    assert compute_key(capture, target(), options()) == compute_key(apart, target(), options())


def test_tied_weights_are_an_input_for_each_name() -> None:
    """Another model may have them apart; it would be answered with the first's."""

    def model(tied: bool) -> nn.Module:
        layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        if tied:
            layers[1].weight = layers[0].weight
        return layers

    x = torch.randn(2, 4)
    tied = model(True)
    capture, apart = capture_export(tied, (x,)), capture_export(model(False), (x,))
    assert compute_key(capture, target(), options()) == compute_key(apart, target(), options())
    assert tied[0].weight is tied[1].weight


def test_autocast_around_it_is_refused() -> None:
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(CaptureError, match="autocast is on"),
    ):
        capture_export(Linear(), (torch.randn(2, 4),))


@pytest.mark.parametrize("dropout", [nn.Dropout(0.5), nn.Dropout2d(0.5), nn.AlphaDropout(0.5)])
def test_idle_dropout_is_its_argument(dropout: nn.Module) -> None:
    """torch traces it as a copy, and the write below would not reach ``h``."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = dropout

        def forward(self, h: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.drop(h)
            y.add_(1)
            return h * 2

    x = torch.randn(1, 2, 2, 2)
    capture = capture_export(Model().eval(), (x,))
    assert _inputs(capture)["h"].mutated
    assert [node.op for node in capture.graph.nodes] == ["aten::add_.Tensor", "aten::mul.Tensor"]


@pytest.mark.parametrize(
    ("function", "minimum", "refused"),
    [
        (lambda x: x.squeeze(0), 1, True),
        (lambda x: x.squeeze(0), 2, False),
        (lambda x: x.t().contiguous(), 1, True),
        (lambda x: (x.t(), x[:, 1:], x.contiguous(), x + 1, x), 1, False),
        (lambda x: x[:, 1:], 0, False),
    ],
)
def test_views_at_size_one(function: Any, minimum: int, refused: bool) -> None:
    shapes = (({0: torch.export.Dim("h", min=minimum, max=20)},),)
    if not refused:
        capture_export(Lambda(function), (torch.randn(4, 6),), dynamic_shapes=shapes)
        return
    with pytest.raises(CaptureError, match="result 0 is another view of the inputs where a size"):
        capture_export(Lambda(function), (torch.randn(4, 6),), dynamic_shapes=shapes)


class Stateful(nn.Module):
    """Counts its calls, remembers a result, or fills a cache, as ``kind`` says."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.calls, self.history = kind, 1, []
        self.last: Any = None
        self.cached: Any = None

    def forward(self, x: torch.Tensor, found: dict[str, Any]) -> torch.Tensor:
        if self.kind == "calls":
            self.calls += 1
        if self.kind == "history":
            self.history.append(1)
        if self.kind == "last":
            self.last = x * 2
        if self.kind == "argument":
            found["y"] = x + 1
        if self.kind == "cache" and self.cached is None:
            self.cached = 3
        return x * self.calls + len(self.history)


@pytest.mark.filterwarnings("ignore:The tensor attribute")
@pytest.mark.parametrize("kind", ["calls", "history", "last", "argument"])
def test_python_state_that_forward_writes_is_refused(kind: str) -> None:
    """torch.export drops such writes, and the next call would answer as the first did."""
    model = Stateful(kind)
    words = "a container among its arguments" if kind == "argument" else f"the attribute '{kind}'"
    with pytest.raises(CaptureError, match=words):
        capture_export(model, (torch.ones(2), {}))
    assert "forward" not in vars(model)


def test_other_memory_under_an_argument_is_refused() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        x.data = y
        return y + 1

    with pytest.raises(CaptureError, match=r"writes to the \.data of a tensor"):
        capture_export(Lambda(function), (torch.randn(3),))


def test_a_buffer_that_is_given_another_tensor_is_refused() -> None:
    """A graph writes into it, and whoever has the old tensor would see that."""

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total = self.total + x
            return self.total

    with pytest.raises(CaptureError, match="the buffer 'total', by giving it another tensor"):
        capture_export(Sum().eval(), (torch.randn(3),))


_GLOBAL = torch.ones(3)


def _by_default(x: torch.Tensor, y: torch.Tensor = _GLOBAL) -> torch.Tensor:
    return x * y


@pytest.mark.parametrize("function", [lambda x: x * _GLOBAL, lambda x: _by_default(x)])
def test_a_tensor_that_nothing_names_is_refused(function: Any) -> None:
    """Its bytes would be fixed, and whoever holds it may write to it."""
    with pytest.raises(CaptureError, match="no argument and no attribute of a module"):
        capture_export(Lambda(function), (torch.randn(3),))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clone()[1:].add_(x[:-1]),
        lambda x: x.clone().t().add_(x),
        lambda x: torch.add(x, 1, out=x),
    ],
)
def test_writes_beside_what_is_read_are_fine(function: Any) -> None:
    capture_export(Lambda(function), (torch.randn(4, 4),))


def _shifted_sum(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    return torch.add(y[:-1], 1, out=y[1:])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:].add_(x[:-1]),
        lambda x: x[:, 1:].copy_(x[:, :-1]),
        lambda x: x.t().mul_(x),
        lambda x: x.index_add_(0, torch.tensor([0, 1, 2, 3]), x),
        _shifted_sum,
    ],
)
def test_a_call_that_reads_what_it_writes_through_another_view_is_refused(function: Any) -> None:
    with pytest.raises(OverlapError, match="also reads through another view"):
        capture_export(Lambda(function), (torch.randn(4, 4),))


def test_a_cache_that_forward_fills_is_none_of_it() -> None:
    capture_export(Stateful("cache"), (torch.ones(2), {}))


def test_a_mutated_buffer_is_marked() -> None:
    assert _inputs(capture_export(Counter(), (torch.ones(2),)))["count"].mutated


def test_batch_norm_in_training_mode_marks_its_statistics() -> None:
    inputs = _inputs(capture_export(nn.BatchNorm1d(3).train(), (torch.randn(4, 3),)))
    assert inputs["running_mean"].mutated
    assert inputs["running_var"].mutated
    assert not inputs["weight"].mutated


def test_a_mutated_view_marks_its_input() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x.split(2)[0].transpose(0, 1).add_(1)
        return x.sum()

    assert capture_export(Lambda(write), (torch.randn(4, 3),)).signature.inputs[0].mutated


def test_an_output_that_is_an_input_is_an_alias() -> None:
    capture = capture_export(Lambda(lambda x: (x, x.t(), x + 1)), (torch.randn(2, 3),))
    same, view, fresh = capture.calling_convention.result.container.children
    assert same.leaf.alias.identity
    assert [size.constant for size in view.leaf.alias.sizes] == [3, 2]
    assert fresh.leaf.output == 0
    assert len(capture.signature.outputs) == 1


def test_a_parameter_that_is_returned_is_an_alias() -> None:
    class Returns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * self.weight, self.weight

    capture = capture_export(Returns(), (torch.ones(2),))
    returned = capture.calling_convention.result.container.children[1].leaf
    assert capture.signature.inputs[returned.alias.input].name == "weight"


def test_constants_made_in_forward_travel_with_their_bytes() -> None:
    capture = capture_export(Lambda(lambda x: x + torch.tensor([1.0, 2.0])), (torch.zeros(2),))
    constant = next(e for e in capture.signature.inputs if e.role == graph_pb2.ROLE_CONSTANT)
    assert constant.data == torch.tensor([1.0, 2.0]).numpy().tobytes()


def test_an_attribute_of_the_model_is_bound_by_name() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.arange(4.0)

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return self.table[index]

    entry = _inputs(capture_export(Table(), (torch.tensor([1]),)))["table"]
    assert entry.role == graph_pb2.ROLE_CONSTANT
    assert not entry.data


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def test_containers_of_results() -> None:
    def forward(x: torch.Tensor) -> Any:
        return {"pair": Pair(x + 1, x + 2), "none": None, "list": [x + 3], "top": x.max(dim=0)}

    result = capture_export(Lambda(forward), (torch.randn(2, 3),)).calling_convention.result
    pair, none, listed, top = result.container.children
    assert [key.text for key in result.container.keys] == ["pair", "none", "list", "top"]
    assert pair.container.type_name == f"{__name__}:Pair"
    assert none.leaf.literal.WhichOneof("kind") == "none"
    assert listed.container.kind == graph_pb2.CONTAINER_KIND_LIST
    assert top.container.type_name == "torch.return_types:max"


def test_value_ranges_of_integer_inputs_are_noted() -> None:
    capture = capture_export(nn.Embedding(50, 4), (torch.tensor([[3, 41]]),))
    seen = _inputs(capture)["input"].value_range
    assert (seen.minimum, seen.maximum) == (3, 41)


def test_names_of_nested_arguments() -> None:
    class Nested(nn.Module):
        def forward(self, batch: dict[str, torch.Tensor], states: list[torch.Tensor]) -> Any:
            return batch["ids"] + states[1]

    capture = capture_export(
        Nested(), ({"ids": torch.ones(2)},), {"states": [torch.ones(2), torch.ones(2)]}
    )
    assert list(_inputs(capture)) == ["batch['ids']", "states[0]", "states[1]"]


def test_a_write_through_an_overlapping_view_is_refused() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        view = x.clone().as_strided((2, 2), (1, 1))
        return view.add_(1)

    with pytest.raises(OverlapError, match="overlap"):
        capture_export(Lambda(write), (torch.randn(4),))


@pytest.mark.parametrize(
    ("sizes", "strides", "overlaps"),
    [
        ((2, 3), (3, 1), False),
        ((3, 2), (1, 3), False),
        ((2, 2), (1, 1), True),
        ((2, 3), (0, 1), True),
        ((1, 3), (0, 1), False),
        ((0, 3), (0, 0), False),
        ((2, 2), (5, 2), False),
        ((4, 3), (2, 1), True),
    ],
)
def test_overlap(sizes: tuple[int, ...], strides: tuple[int, ...], overlaps: bool) -> None:
    assert has_internal_overlap(torch.empty(20).as_strided(sizes, strides)) is overlaps


@pytest.mark.parametrize(
    ("model", "args", "words"),
    [
        (lambda x: x, (torch.ones(1),), "torch.nn.Module"),
        (Lambda(torch.sin), [torch.ones(1)], "tuple"),
        (Lambda(lambda x: x if x.sum() > 0 else -x), (torch.ones(1),), "torch.export"),
        (Lambda(lambda x: x.to_sparse()), (torch.eye(2),), "sparse"),
        (Lambda(lambda x: x.conj()), (torch.ones(2, dtype=torch.complex64),), "conj"),
        (Lambda(lambda x: x.to_mkldnn()), (torch.ones(2),), "torch.export"),
    ],
)
def test_what_cannot_be_captured_says_so(model: Any, args: Any, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        capture_export(model, args)


def test_transformers_outputs_are_records() -> None:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    capture = capture_export(BertModel(config).eval(), (torch.ones(1, 8, dtype=torch.int64),))
    result = capture.calling_convention.result.container
    assert result.kind == graph_pb2.CONTAINER_KIND_RECORD
    assert result.keys[0].text == "last_hidden_state"
