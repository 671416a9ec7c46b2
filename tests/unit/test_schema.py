"""What counts as a Capture: every broken reference, name or number is refused, and named."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_farm.errors import InvalidGraphError
from compile_farm.schema import MAX_SUBGRAPH_DEPTH, check_capture, parse_capture
from compile_farm.v1 import graph_pb2
from tests.captures import (
    Change,
    add_capture,
    chain_capture,
    diamond_capture,
    dynamic_capture,
    value,
)


@pytest.mark.parametrize("capture", [add_capture(), diamond_capture(), dynamic_capture()])
def test_valid_captures_pass(capture: graph_pb2.Capture) -> None:
    assert parse_capture(capture.SerializeToString()) == capture


def test_thousands_of_nodes_pass() -> None:
    capture = chain_capture(5000)
    assert len(parse_capture(capture.SerializeToString()).graph.nodes) == 5000


def _version(capture: graph_pb2.Capture) -> None:
    capture.graph.schema_version = 99


def _later_value(capture: graph_pb2.Capture) -> None:
    capture.graph.nodes[0].args[0].value = 2


def _output_out_of_range(capture: graph_pb2.Capture) -> None:
    capture.graph.outputs[0].value = 77


def _bad_op(capture: graph_pb2.Capture) -> None:
    capture.graph.nodes[0].op = "os.system('x')"


def _bad_keyword(capture: graph_pb2.Capture) -> None:
    capture.graph.nodes[0].kwargs.add(name="a b", value=value(0))


def _keyword_twice(capture: graph_pb2.Capture) -> None:
    for _ in range(2):
        capture.graph.nodes[0].kwargs.add(name="alpha", value=value(0))


def _empty_argument(capture: graph_pb2.Capture) -> None:
    capture.graph.nodes[0].args.add()


def _missing_subgraph(capture: graph_pb2.Capture) -> None:
    capture.graph.nodes[0].args.add(subgraph=0)


def _unknown_dtype(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].tensor.dtype = "float7"


def _unknown_device(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].tensor.device_type = "cuda:1"


def _strides_missing(capture: graph_pb2.Capture) -> None:
    del capture.signature.inputs[0].tensor.strides[0]


def _negative_size(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].tensor.sizes[0].constant = -1


def _unknown_symbol(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].tensor.sizes[0].symbol = 3


def _empty_size(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].tensor.sizes[0].Clear()


def _huge_size(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].tensor.sizes[0].constant = 2**62 + 1


def _unknown_operator(capture: graph_pb2.Capture) -> None:
    size = capture.signature.inputs[0].tensor.sizes[0]
    size.operation.operands.extend([graph_pb2.Expr(constant=1), graph_pb2.Expr(constant=1)])
    size.operation.operator = 40  # type: ignore[assignment]


def _division_of_three(capture: graph_pb2.Capture) -> None:
    size = capture.signature.inputs[0].tensor.sizes[0]
    size.operation.operator = graph_pb2.OPERATOR_FLOOR_DIVIDE
    size.operation.operands.extend([graph_pb2.Expr(constant=1)] * 3)


def _role(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].role = graph_pb2.ROLE_UNSPECIFIED


def _data_of_a_parameter(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].role = graph_pb2.ROLE_PARAMETER
    capture.signature.inputs[0].data = bytes(64)


def _short_data(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[0].role = graph_pb2.ROLE_CONSTANT
    capture.signature.inputs[0].data = bytes(63)


def _inputs_disagree(capture: graph_pb2.Capture) -> None:
    capture.graph.input_count = 3


def _outputs_disagree(capture: graph_pb2.Capture) -> None:
    capture.graph.outputs.add(value=0)


def _result_out_of_range(capture: graph_pb2.Capture) -> None:
    capture.calling_convention.result.leaf.output = 9


def _alias_out_of_range(capture: graph_pb2.Capture) -> None:
    capture.calling_convention.result.leaf.alias.input = 9


def _keys_without_children(capture: graph_pb2.Capture) -> None:
    container = capture.calling_convention.kwargs.container
    container.kind = graph_pb2.CONTAINER_KIND_DICT
    container.keys.add(text="x")


@pytest.mark.parametrize(
    "change",
    [
        _version, _later_value, _output_out_of_range, _bad_op, _bad_keyword, _keyword_twice,
        _empty_argument, _missing_subgraph, _unknown_dtype, _unknown_device, _strides_missing,
        _negative_size, _unknown_symbol, _empty_size, _huge_size, _unknown_operator,
        _division_of_three, _role, _data_of_a_parameter, _short_data, _inputs_disagree,
        _outputs_disagree, _result_out_of_range, _alias_out_of_range, _keys_without_children,
    ],
)  # fmt: skip
def test_broken_captures_are_refused(change: Change) -> None:
    capture = add_capture()
    change(capture)
    with pytest.raises(InvalidGraphError) as caught:
        check_capture(capture)
    assert len(caught.value.message) > 10


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(InvalidGraphError, match="range is 9 to 3"):
        check_capture(dynamic_capture(9, 3))


def test_subgraphs_nested_too_deep_are_refused() -> None:
    capture = add_capture()
    graph = capture.graph
    for _ in range(MAX_SUBGRAPH_DEPTH + 1):
        graph = graph.subgraphs.add(schema_version=1)
    with pytest.raises(InvalidGraphError, match="nested"):
        check_capture(capture)


def test_expressions_nested_too_deep_are_refused() -> None:
    capture = add_capture()
    size = capture.signature.inputs[0].tensor.sizes[0]
    for _ in range(45):
        size.operation.operator = graph_pb2.OPERATOR_ADD
        size.operation.operands.add(constant=1)
        size = size.operation.operands.add()
    size.constant = 1
    with pytest.raises(InvalidGraphError, match="deep"):
        check_capture(capture)


def test_an_expression_nested_10000_deep_is_refused_by_the_parser() -> None:
    """Built by hand, since protobuf would not serialise it either."""

    def field(number: int, body: bytes) -> bytes:
        length, out = len(body), bytearray([number << 3 | 2])
        while length > 127:
            out.append(length & 127 | 128)
            length >>= 7
        return bytes(out) + bytes([length]) + body

    body = bytes([1 << 3, 2])
    for _ in range(10_000):
        body = field(3, bytes([1 << 3, 1]) + field(2, body))
    tensor = field(3, field(3, body))
    with pytest.raises(InvalidGraphError, match="protobuf"):
        parse_capture(field(2, field(2, tensor)))


def test_fields_of_a_newer_version_are_refused() -> None:
    """They would be missing from the key."""
    newer = add_capture().SerializeToString() + bytes([15 << 3, 1])
    with pytest.raises(InvalidGraphError, match="does not know"):
        parse_capture(newer)


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_noise_is_refused_or_empty(data: bytes) -> None:
    with pytest.raises(InvalidGraphError):
        parse_capture(data)


@settings(max_examples=500)
@given(st.data())
def test_a_flipped_byte_is_refused_or_still_valid(data: st.DataObject) -> None:
    """Nothing but InvalidGraphError may come out, whatever is altered."""
    raw = bytearray(dynamic_capture().SerializeToString())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse_capture(bytes(raw))
    except InvalidGraphError:
        pass
