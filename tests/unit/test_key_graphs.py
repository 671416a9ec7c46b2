"""On generated captures: no two graphs share a key, and no graph has two.

What may differ between two captures of one graph does not move the key; and after any edit the keys
are equal if and only if the normal forms are, which know nothing of hashes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from compile_farm.errors import InvalidGraphError
from compile_farm.key import compute_key
from compile_farm.schema import check_capture
from compile_farm.v1 import graph_pb2
from tests.captures import expr, options, target
from tests.generated import (
    arguments_of,
    captures,
    graphs,
    insert_node,
    leaves_of,
    normal_form,
    renumber,
    reordered,
    used_nodes,
    values_of,
)

Capture = graph_pb2.Capture
Edit = Callable[[Capture, st.DataObject], None]


def _key(capture: Capture) -> str:
    check_capture(capture)
    return compute_key(capture, target(), options())


def _hints(capture: Capture, data: st.DataObject) -> None:
    for symbol in capture.signature.symbols:
        symbol.hint = data.draw(st.integers(0, 99))
    for entry in capture.signature.inputs:
        entry.value_range.minimum = data.draw(st.integers(-9, 9))


def _numbers_of_symbols(capture: Capture, data: st.DataObject) -> None:
    new = data.draw(st.permutations(range(len(capture.signature.symbols))))
    renumber(capture, new)
    held = [copy.deepcopy(symbol) for symbol in capture.signature.symbols]
    for symbol, number in zip(held, new, strict=True):
        capture.signature.symbols[number].CopyFrom(symbol)


def _order_of_independent_nodes(capture: Capture, data: st.DataObject) -> None:
    shuffled = reordered(capture.graph, data.draw(st.builds(Random, st.integers(0, 999))))
    capture.graph.CopyFrom(shuffled)


def _unused_nodes(capture: Capture, data: st.DataObject) -> None:
    graph, symbols = capture.graph, capture.signature.symbols
    symbols.add(minimum=3)
    size = expr(f"s{data.draw(st.integers(0, len(symbols) - 1))}")
    calm = [index for index in used_nodes(graph) if not graph.nodes[index].effect]
    if calm:
        # One that equals a call in use, before it.
        index = data.draw(st.sampled_from(calm))
        insert_node(graph, index, copy.deepcopy(graph.nodes[index]))
    unused = graph_pb2.Node(op="aten::full.default", args=[graph_pb2.Argument(expression=size)])
    insert_node(graph, 0, unused)


def _unused_bodies(capture: Capture, data: st.DataObject) -> None:
    body = data.draw(graphs(1, tuple(range(len(capture.signature.symbols))), 1))
    for argument in arguments_of(capture.graph):
        if argument.WhichOneof("kind") == "subgraph":
            argument.subgraph += 1
    capture.graph.subgraphs.insert(0, body)


def _order_of_names(capture: Capture, data: st.DataObject) -> None:
    """Of keyword arguments, of entries of a dictionary, of libraries."""
    capture.libraries.add(namespace="yourlib", module="your.ops", version="1.0")
    named = [node.kwargs for node in capture.graph.nodes]
    for argument in arguments_of(capture.graph):
        if argument.WhichOneof("kind") == "dictionary":
            named.append(argument.dictionary.items)
    for entries in (*named, capture.libraries):
        entries.reverse()  # type: ignore[attr-defined]


def _order_of_summands(capture: Capture, data: st.DataObject) -> None:
    """Of symbols that an input has as its sizes, as sympy's printed names may turn them."""
    signature = capture.signature
    entries: list[Any] = [*signature.inputs, *signature.outputs]
    for entry in entries:
        for expression in (entry.scalar, *entry.tensor.sizes, *entry.tensor.strides):
            _turn(expression)


def _turn(expression: graph_pb2.Expr) -> None:
    for operand in expression.operation.operands:
        _turn(operand)
    if expression.operation.operator in (1, 2, 5, 6):
        expression.operation.operands.reverse()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "edit",
    [
        _hints, _numbers_of_symbols, _order_of_independent_nodes, _unused_nodes, _unused_bodies,
        _order_of_names, _order_of_summands,
    ],
)  # fmt: skip
@settings(max_examples=8, deadline=None)
@given(capture=captures(), data=st.data())
def test_what_is_irrelevant_does_not_move_the_key(
    edit: Edit, capture: Capture, data: st.DataObject
) -> None:
    other = copy.deepcopy(capture)
    edit(other, data)
    if edit is _order_of_names:
        capture.libraries.add(namespace="yourlib", module="your.ops", version="1.0")
    assert _key(other) == _key(capture)


def _change_a_leaf(capture: Capture, data: st.DataObject) -> None:
    leaves = list(leaves_of(capture))
    holder, field = leaves[data.draw(st.integers(0, len(leaves) - 1))]
    held = getattr(holder, field.name)
    if isinstance(held, bool):
        setattr(holder, field.name, not held)
    elif isinstance(held, int):
        setattr(
            holder, field.name, held + data.draw(st.sampled_from([1, 2, -1] if held else [1, 2]))
        )
    elif isinstance(held, float):
        setattr(holder, field.name, 2.5)
    elif isinstance(held, bytes):
        setattr(holder, field.name, held[::-1])
    else:
        words = ["float64", "cuda", "cpu", "aten::sin.default", "x", "preserve_format"]
        setattr(holder, field.name, data.draw(st.sampled_from(words)))


def _take_another_value(capture: Capture, data: st.DataObject) -> None:
    taken = [one for one in arguments_of(capture.graph) if one.WhichOneof("kind") == "value"]
    argument = taken[data.draw(st.integers(0, len(taken) - 1))]
    argument.value = data.draw(st.integers(0, capture.graph.input_count + 2))


def _double_a_call(capture: Capture, data: st.DataObject) -> None:
    """Some uses go to the second; a call with an effect happens once more."""
    graph = capture.graph
    index = data.draw(st.integers(0, len(graph.nodes) - 1))
    insert_node(graph, index + 1, copy.deepcopy(graph.nodes[index]))
    for argument in arguments_of(graph):
        first = graph.input_count + index
        if argument.WhichOneof("kind") == "value" and argument.value == first:
            argument.value += data.draw(st.integers(0, 1))


def _swap_neighbours(capture: Capture, data: st.DataObject) -> None:
    graph = capture.graph
    index = data.draw(st.integers(0, len(graph.nodes) - 2))
    first = graph.input_count + index
    assume(first not in values_of(graph.nodes[index + 1]))
    pair = [copy.deepcopy(graph.nodes[index + place]) for place in (1, 0)]
    for place, node in enumerate(pair):
        graph.nodes[index + place].CopyFrom(node)
    for argument in arguments_of(graph):
        if argument.WhichOneof("kind") == "value" and argument.value in (first, first + 1):
            argument.value = 2 * first + 1 - argument.value


_EDITS: list[Edit] = [
    _change_a_leaf, _change_a_leaf, _take_another_value, _double_a_call, _swap_neighbours,
    _order_of_independent_nodes, _unused_nodes, _numbers_of_symbols,
]  # fmt: skip


def _two_keys_for_two_graphs(one: Capture, edits: list[Edit], data: st.DataObject) -> None:
    other = copy.deepcopy(one)
    for edit in edits:
        edit(other, data)
        try:
            check_capture(other)
        except InvalidGraphError:
            assume(False)
    assert (_key(one) == _key(other)) == (normal_form(one) == normal_form(other))


_edits = st.lists(st.sampled_from(_EDITS), min_size=1, max_size=3)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(one=captures(), edits=_edits, data=st.data())
def test_two_keys_for_two_graphs(one: Capture, edits: list[Edit], data: st.DataObject) -> None:
    """Edits that may change something: the keys differ if and only if the normal forms do."""
    _two_keys_for_two_graphs(one, edits, data)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=5_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(one=captures(), edits=_edits, data=st.data())
def test_two_keys_for_two_graphs_in_depth(
    one: Capture, edits: list[Edit], data: st.DataObject
) -> None:
    _two_keys_for_two_graphs(one, edits, data)
