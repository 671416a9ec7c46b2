"""The key moves with everything that decides a compile, and with nothing else."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_farm.key import KEY_VERSION, compute_key, key_components
from compile_farm.v1 import graph_pb2, target_pb2
from tests.captures import (
    Change,
    add_capture,
    capture_of,
    diamond_capture,
    dynamic_capture,
    expr,
    options,
    target,
    tensor,
    user_input,
    value,
)


def _key(capture: graph_pb2.Capture) -> str:
    return compute_key(capture, target(), options())


def test_golden_key() -> None:
    """Fails when what enters a digest changes: then KEY_VERSION must change with it."""
    assert KEY_VERSION == 2
    assert _key(dynamic_capture()) == GOLDEN


GOLDEN = "a3026edd2fd420953a007a18e38c2ff722250ceebc462835c33a00537fa24f73"


def test_another_process_agrees() -> None:
    program = (
        "from tests.captures import *; from compile_farm.key import compute_key;"
        "print(compute_key(dynamic_capture(), target(), options()))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "77", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == GOLDEN


def _op(capture: graph_pb2.Capture) -> None:
    capture.graph.nodes[0].op = "aten::sub.Tensor"


def _argument_order(capture: graph_pb2.Capture) -> None:
    capture.graph.nodes[0].args[0].value, capture.graph.nodes[0].args[1].value = 1, 0


def _keyword(capture: graph_pb2.Capture) -> None:
    capture.graph.nodes[0].kwargs.add(name="alpha", value=graph_pb2.Argument(integer=2))


def _dtype(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].tensor.dtype = "bfloat16"


def _shape(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].tensor.sizes[0].constant = 5


def _stride(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].tensor.strides[0].constant = 8


def _device(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].tensor.device_type = "cuda"


def _role(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].role = graph_pb2.ROLE_PARAMETER


def _name(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].name = "other"


def _mutated(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].mutated = True


def _constant(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].role = graph_pb2.ROLE_CONSTANT
    capture.signature.inputs[0].data = bytes(64)


def _output(capture: graph_pb2.Capture) -> None:
    capture.graph.outputs[0].value = 0


def _result(capture: graph_pb2.Capture) -> None:
    capture.calling_convention.result.leaf.output = 0


def _effect(capture: graph_pb2.Capture) -> None:
    capture.graph.nodes[0].effect = graph_pb2.EFFECT_RANDOM


@pytest.mark.parametrize(
    "change",
    [
        _op, _argument_order, _keyword, _dtype, _shape, _stride, _device, _role, _name, _mutated,
        _constant, _output, _result, _effect,
    ],
)  # fmt: skip
def test_every_factor_of_the_capture_moves_the_key(change: Change) -> None:
    changed = add_capture()
    change(changed)
    assert _key(changed) != _key(add_capture())


@pytest.mark.parametrize("field", ["torch", "torch_git", "triton", "cuda_runtime", "platform"])
def test_every_part_of_the_toolchain_moves_the_key(field: str) -> None:
    other = target(**{field: "other"})
    assert compute_key(add_capture(), other, options()) != _key(add_capture())


def test_hardware_moves_the_key() -> None:
    capture = add_capture()
    cards = [
        target_pb2.Target(cuda=target_pb2.CudaHardware(arch="sm_90", device_name=name))
        for name in ("NVIDIA H200", "NVIDIA H100 80GB HBM3")
    ]
    targets = [target(), target(isa="x86-64-v4"), *cards]
    assert len({compute_key(capture, one, options()) for one in targets}) == len(targets)


def test_options_move_the_key() -> None:
    kinds = [
        options(),
        options(effort=target_pb2.EFFORT_TUNED),
        options(numerics=target_pb2.NUMERICS_FAST),
    ]
    assert len({compute_key(add_capture(), target(), kind) for kind in kinds}) == 3


@given(
    first=st.tuples(st.integers(0, 8), st.one_of(st.none(), st.integers(9, 99))),
    second=st.tuples(st.integers(0, 8), st.one_of(st.none(), st.integers(9, 99))),
)
def test_the_range_of_a_symbol_moves_the_key(
    first: tuple[int, int | None], second: tuple[int, int | None]
) -> None:
    same = _key(dynamic_capture(*first)) == _key(dynamic_capture(*second))
    assert same == (first == second)


def test_hints_and_value_ranges_do_not_move_the_key() -> None:
    changed = dynamic_capture()
    changed.signature.symbols[0].hint = 17
    changed.signature.inputs[0].value_range.maximum = 9
    assert _key(changed) == _key(dynamic_capture())


def test_the_order_of_independent_nodes_does_not_move_the_key() -> None:
    swapped = diamond_capture()
    swapped.graph.nodes[0].op, swapped.graph.nodes[1].op = "aten::cos.default", "aten::sin.default"
    swapped.graph.nodes[2].args[0].value, swapped.graph.nodes[2].args[1].value = 2, 1
    assert _key(swapped) == _key(diamond_capture())


def test_a_node_that_nobody_uses_does_not_move_the_key() -> None:
    longer = diamond_capture()
    longer.graph.nodes.add(op="aten::exp.default", args=[value(0)])
    assert _key(longer) == _key(diamond_capture())


@given(st.permutations(range(3)))
def test_the_numbering_of_symbols_does_not_move_the_key(order: list[int]) -> None:
    """Symbols are numbered by first use in the signature."""

    def build(numbers: list[int]) -> graph_pb2.Capture:
        symbols = [graph_pb2.Symbol() for _ in range(3)]
        for rank, number in enumerate(numbers):
            symbols[number].minimum = rank
        names = [f"s{number}" for number in numbers]
        spec = tensor(*names, strides=(1, 1, 1))
        node = graph_pb2.Node(op="aten::relu.default", args=[value(0)])
        return capture_of([user_input(spec)], [node], [1], [spec], symbols)

    assert _key(build(list(order))) == _key(build([0, 1, 2]))


def test_a_read_before_and_after_a_write_are_two_graphs() -> None:
    spec = tensor(4)
    write = graph_pb2.Node(
        op="aten::add_.Tensor", args=[value(0), value(1)], effect=graph_pb2.EFFECT_MUTATES
    )
    read = graph_pb2.Node(op="aten::sin.default", args=[value(0)])
    inputs = [user_input(spec), user_input(spec)]
    before = capture_of(inputs, [read, write], [2], [spec])
    after = capture_of(inputs, [write, read], [3], [spec])
    assert _key(before) != _key(after)


def test_the_order_of_random_draws_moves_the_key() -> None:
    def draw(op: str) -> graph_pb2.Node:
        return graph_pb2.Node(op=op, args=[value(0)], effect=graph_pb2.EFFECT_RANDOM)

    spec = tensor(4)
    one, two = draw("aten::rand_like.default"), draw("aten::randn_like.default")
    first = capture_of([user_input(spec)], [one, two], [1, 2], [spec, spec])
    second = capture_of([user_input(spec)], [two, one], [2, 1], [spec, spec])
    assert _key(first) != _key(second)


def test_minus_zero_and_zero_differ_and_nan_equals_itself() -> None:
    def scaled(number: float) -> graph_pb2.Capture:
        node = graph_pb2.Node(
            op="aten::mul.Scalar", args=[value(0), graph_pb2.Argument(real=number)]
        )
        return capture_of([user_input(tensor(4))], [node], [1], [tensor(4)])

    assert _key(scaled(0.0)) != _key(scaled(-0.0))
    assert _key(scaled(float("nan"))) == _key(scaled(float("nan")))
    assert _key(scaled(1.0)) != _key(scaled(1.0 + 2**-52))


def test_a_number_and_its_float_differ() -> None:
    def node(argument: graph_pb2.Argument) -> graph_pb2.Capture:
        call = graph_pb2.Node(op="aten::mul.Scalar", args=[value(0), argument])
        return capture_of([user_input(tensor(4))], [call], [1], [tensor(4)])

    kinds = [
        graph_pb2.Argument(integer=1),
        graph_pb2.Argument(real=1.0),
        graph_pb2.Argument(boolean=True),
        graph_pb2.Argument(text="1"),
        graph_pb2.Argument(expression=expr(1)),
        graph_pb2.Argument(list=graph_pb2.ArgumentList(items=[graph_pb2.Argument(integer=1)])),
        graph_pb2.Argument(tuple=graph_pb2.ArgumentList(items=[graph_pb2.Argument(integer=1)])),
    ]
    assert len({_key(node(kind)) for kind in kinds}) == len(kinds)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["sin", "cos", "relu", "exp"]), min_size=1, max_size=6))
def test_different_chains_have_different_keys(names: list[str]) -> None:
    def chain(ops: list[str]) -> graph_pb2.Capture:
        nodes = [
            graph_pb2.Node(op=f"aten::{op}.default", args=[value(index)])
            for index, op in enumerate(ops)
        ]
        return capture_of([user_input(tensor(4))], nodes, [len(ops)], [tensor(4)])

    reverse = list(reversed(names))
    assert (_key(chain(names)) == _key(chain(reverse))) == (names == reverse)


def test_components_tell_which_part_moved() -> None:
    one = key_components(add_capture(), target(), options())
    two = key_components(add_capture(), target(torch="2.14.0"), options())
    assert one.target != two.target
    rest = ("graph", "signature", "calling_convention", "options")
    assert all(getattr(one, name) == getattr(two, name) for name in rest)


def test_computing_the_key_leaves_the_capture_alone() -> None:
    capture = dynamic_capture()
    before = copy.deepcopy(capture)
    _key(capture)
    assert capture == before
