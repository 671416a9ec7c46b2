"""Verifying: what passes for eager, and what doesn't, at every size that was promised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from compile_farm.v1 import artifact_pb2, graph_pb2
from compiler_service.engine.depth import DepthMeter, least_bound
from compiler_service.engine.errors import EngineError
from compiler_service.engine.inputs import symbol_values
from compiler_service.engine.verify import Subject, verify

aten = torch.ops.aten

Run = Callable[[list[torch.Tensor]], list[torch.Tensor]]


def graph_of(*calls: tuple[Any, tuple[Any, ...]], inputs: int = 1) -> fx.GraphModule:
    """A chain: each call takes the value before it first."""
    graph = fx.Graph()
    values = [graph.placeholder(f"input_{index}") for index in range(inputs)]
    value = values[0]
    for target, rest in calls:
        others = tuple(values[item.index] if isinstance(item, Given) else item for item in rest)
        value = graph.call_function(target, (value, *others))
    graph.output((value,))
    return fx.GraphModule(torch.nn.Module(), graph)


class Given:
    def __init__(self, index: int) -> None:
        self.index = index


def signature(
    *sizes: tuple[int | str, ...], symbols: tuple[tuple[int, int, int | None], ...] = ()
) -> graph_pb2.Signature:
    """Contiguous float32 inputs; a size "y0" is symbol 0; symbols are (hint, minimum, maximum)."""
    message = graph_pb2.Signature()
    for hint, low, high in symbols:
        message.symbols.add(hint=hint, minimum=low, maximum=high)
    for shape in sizes:
        spec = message.inputs.add(role=graph_pb2.ROLE_USER_INPUT).tensor
        spec.dtype, spec.device_type = "float32", "cpu"
        stride = 1
        strides = []
        for size in reversed(shape):
            strides.append(stride)
            stride *= size if isinstance(size, int) else 1  # symbols stand first here
        for size, step in zip(shape, reversed(strides), strict=True):
            expr = spec.sizes.add()
            if isinstance(size, int):
                expr.constant = size
            else:
                expr.symbol = int(size[1:])
            spec.strides.add(constant=step)
    return message


def subject(module: fx.GraphModule, given: graph_pb2.Signature, run: Run | None = None) -> Subject:
    order = [artifact_pb2.CompiledInput(input=index) for index in range(len(given.inputs))]
    return Subject(
        given,
        module,
        order,
        run or (lambda inputs: list(module(*inputs))),
        torch.device("cpu"),
        False,
    )


TANH = graph_of((aten.tanh.default, ()))


def test_eager_passes_for_itself() -> None:
    result = verify(subject(TANH, signature((4, 8))))
    assert result.reference_precision == "float64"
    assert len(result.runs) == 2  # two sets of inputs
    assert all(run.error <= run.bound for run in result.runs)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: x.tanh() + 1e-3, "relative error"),
        (lambda x: x.tanh().double(), "float64"),
        (lambda x: x.tanh()[:2], "where eager gives"),
        (lambda x: x.tanh().t().contiguous().t(), "strides"),
        (lambda x: torch.where(x == x.max(), torch.nan, x.tanh()), "NaN or infinity"),
        (lambda x: torch.where(x == x.max(), x.tanh() + 1e-3, x.tanh()), "largest element"),
    ],
)
def test_what_differs_is_refused(wrong: Callable[[torch.Tensor], Any], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        verify(subject(TANH, signature((40, 80)), lambda inputs: [wrong(inputs[0])]))


def test_the_sign_of_an_infinity_counts() -> None:
    module = graph_of((aten.div.Scalar, (0.0,)))
    with pytest.raises(EngineError, match="NaN or infinity"):
        verify(subject(module, signature((4, 8)), lambda inputs: [inputs[0].abs() / 0.0]))


def test_a_write_to_an_input_is_seen() -> None:
    with pytest.raises(EngineError, match="writes to the input"):
        verify(subject(TANH, signature((4, 8)), lambda inputs: [inputs[0].tanh_()]))


RANGES = ((4, 1, 64), (10, 2, 30))


def test_sizes_are_tried_together_and_one_by_one() -> None:
    together, alone = symbol_values(signature(("y0", 3), ("y1", 3), symbols=RANGES))
    assert together == [{0: 4, 1: 10}, {0: 1, 1: 2}, {0: 64, 1: 30}]
    assert {values[0] for values in alone if values[1] == 10} == {1, 64, 33}
    assert {values[1] for values in alone if values[0] == 4} == {2, 30, 17}
    assert symbol_values(signature((4, 3))) == ([{}], [])


@pytest.mark.parametrize("size", [1, 4, 33, 64])
def test_wrong_at_one_size_of_one_symbol_is_found(size: int) -> None:
    module = graph_of((aten.sum.dim_IntList, ([0],)), (aten.add.Tensor, (Given(1),)), inputs=2)
    given = signature(("y0", 3), ("y1", 3), symbols=RANGES)

    def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        result = inputs[0].sum(0) + inputs[1]
        # As where a tail is forgotten, and only while the other symbol stands at its hint.
        wrong = inputs[0].shape[0] == size and inputs[1].shape[0] == 10
        return [result * 1.5 if wrong else result]

    verify(subject(module, given))
    with pytest.raises(EngineError, match="relative error"):
        verify(subject(module, given, run))


def test_sizes_that_only_go_together_are_no_reason_to_refuse() -> None:
    module = graph_of((aten.add.Tensor, (Given(1),)), inputs=2)
    given = signature(("y0", 3), ("y1", 3), symbols=((4, 2, 8), (4, 2, 8)))
    assert len(verify(subject(module, given)).runs) == 4


def test_eager_that_fails_at_a_promised_size_is() -> None:
    module = graph_of((aten.mm.default, (Given(1),)), inputs=2)
    given = signature(("y0", 3), (3, 5), symbols=((4, 1, 8),))
    verify(subject(module, given))
    broken = graph_of((aten.view.default, ([4, 3],)))
    with pytest.raises(EngineError, match="eager itself fails"):
        verify(subject(broken, signature(("y0", 3), symbols=((4, 1, 8),))))


def test_a_long_sum_in_another_order_passes_and_a_short_one_does_not() -> None:
    def in_a_row(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [inputs[0].cumsum(0)[-1] + 0 * inputs[0][0]]

    module = graph_of((aten.sum.dim_IntList, ([0],)))
    length = 200_000
    verify(subject(module, signature((length, 2)), in_a_row))
    drift = least_bound(torch.float32, length) * 1.5
    with pytest.raises(EngineError, match="relative error"):
        verify(subject(module, signature((length, 2)), lambda i: [i[0].sum(0) * (1 + drift)]))
    with pytest.raises(EngineError, match="relative error"):
        verify(subject(module, signature((8, 2)), lambda i: [i[0].sum(0) * (1 + drift)]))


def test_the_bound_grows_with_the_root_of_the_depth_and_not_in_16_bits() -> None:
    assert least_bound(torch.float32, 1) == least_bound(torch.float32, 100)
    assert least_bound(torch.float32, 10**8) == pytest.approx(
        10 * least_bound(torch.float32, 10**6)
    )
    assert least_bound(torch.bfloat16, 10**6) == least_bound(torch.bfloat16, 1)
    assert least_bound(torch.complex64, 10**8) == least_bound(torch.float32, 10**8)


@pytest.mark.parametrize(
    ("target", "args", "depth"),
    [
        (aten.mm.default, (torch.ones(2, 300), torch.ones(300, 4)), 300),
        (aten.addmm.default, (torch.ones(4), torch.ones(2, 70), torch.ones(70, 4)), 70),
        (aten.conv2d.default, (torch.ones(1, 3, 8, 8), torch.ones(5, 3, 3, 3)), 27),
        (aten.softmax.int, (torch.ones(4, 90), -1), 90),
        (aten.sum.default, (torch.ones(4, 90),), 360),
        (aten.mean.dim, (torch.ones(4, 90), [1]), 90),
        (aten.layer_norm.default, (torch.ones(4, 90), [90]), 90),
        (aten.relu.default, (torch.ones(4, 90),), 1),
        (
            aten.scaled_dot_product_attention.default,
            (torch.ones(1, 1, 5, 16), torch.ones(1, 1, 40, 16), torch.ones(1, 1, 40, 16)),
            56,
        ),
    ],
)
def test_how_long_the_sums_are(target: Any, args: tuple[Any, ...], depth: int) -> None:
    graph = fx.Graph()
    taken = [
        graph.placeholder(f"input_{index}") if isinstance(value, torch.Tensor) else value
        for index, value in enumerate(args)
    ]
    graph.output((graph.call_function(target, tuple(taken)),))
    meter = DepthMeter(fx.GraphModule(torch.nn.Module(), graph))
    meter.run(*(value for value in args if isinstance(value, torch.Tensor)))
    assert meter.depth == depth
