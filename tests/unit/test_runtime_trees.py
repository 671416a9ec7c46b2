"""Literals, dataclasses and named tuples of a calling convention, without compiled code."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections import namedtuple
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten

from compile_farm.capture.trees import encode_tree
from compile_farm.errors import BindError, InputMismatchError
from compile_farm.runtime.trees import compile_build, compile_flatten, find_class, same_literal
from compile_farm.v1 import graph_pb2


@dataclasses.dataclass
class Batch:
    ids: Any
    mask: Any = None
    extra: Any = None


Point = namedtuple("Point", ["x", "y"])


def leaf(**kind: Any) -> graph_pb2.Tree:
    return graph_pb2.Tree(leaf=graph_pb2.Leaf(**kind))


def container(kind: graph_pb2.ContainerKind, *children: graph_pb2.Tree, **rest: Any) -> Any:
    return graph_pb2.Tree(
        container=graph_pb2.Container(kind=kind, children=children, **rest),
    )


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        (0.0, -0.0, False),
        (math.nan, math.nan, True),
        ("a", "a", True),
        (None, None, True),
        (None, False, False),
    ],
)
def test_literals_are_the_same_only_in_type_and_value(one: Any, other: Any, same: bool) -> None:
    assert same_literal(one, other) is same


def test_fields_of_a_dataclass_go_to_their_places() -> None:
    tree = container(
        graph_pb2.CONTAINER_KIND_RECORD,
        leaf(input=1),
        leaf(input=0),
        keys=[graph_pb2.Literal(text="ids"), graph_pb2.Literal(text="mask")],
    )
    flatten = compile_flatten(tree, "'batch'")
    inputs: list[Any] = [None, None]
    flatten(Batch("i", "m"), inputs)
    assert inputs == ["m", "i"]
    with pytest.raises(InputMismatchError, match="'batch' has extra, which was None"):
        flatten(Batch("i", "m", "more"), inputs)
    with pytest.raises(InputMismatchError, match="captured was a dataclass"):
        flatten({"ids": 1, "mask": 2}, inputs)


def test_keys_of_a_dict_come_in_their_order() -> None:
    """Forward may go through them."""
    keys = [graph_pb2.Literal(text="b"), graph_pb2.Literal(text="a")]
    tree = container(graph_pb2.CONTAINER_KIND_DICT, leaf(input=0), leaf(input=1), keys=keys)
    flatten = compile_flatten(tree, "'batch'")
    inputs: list[Any] = [None, None]
    flatten({"b": 1, "a": 2}, inputs)
    assert inputs == [1, 2]
    with pytest.raises(InputMismatchError, match=r"keys \['a', 'b'\].* in this order"):
        flatten({"a": 2, "b": 1}, inputs)


def build(tree: graph_pb2.Tree, outputs: list[Any], inputs: list[Any] | None = None) -> Any:
    return compile_build(tree)(outputs, lambda index: (inputs or [])[index], {0: 3})


def test_an_ordered_dict_is_one_again() -> None:
    value = collections.OrderedDict(z=torch.ones(1), a=torch.zeros(1))
    leaves, spec = tree_flatten(value)
    tree = encode_tree(spec, iter([graph_pb2.Leaf(output=0), graph_pb2.Leaf(output=1)]))
    made = build(tree, leaves)
    assert type(made) is collections.OrderedDict
    assert list(made) == ["z", "a"]
    plain = tree_flatten(dict(value))[1]
    tree = encode_tree(plain, iter([graph_pb2.Leaf(output=0), graph_pb2.Leaf(output=1)]))
    assert type(build(tree, leaves)) is dict


def test_results_are_rebuilt_in_their_classes() -> None:
    point = container(
        graph_pb2.CONTAINER_KIND_NAMED_TUPLE,
        leaf(output=1),
        leaf(literal=graph_pb2.Literal(none=graph_pb2.Nothing())),
        type_name=f"{__name__}:Point",
    )
    assert build(point, ["a", "b"]) == Point("b", None)
    batch = container(
        graph_pb2.CONTAINER_KIND_RECORD,
        leaf(output=0),
        type_name=f"{__name__}:Batch",
        keys=[graph_pb2.Literal(text="ids")],
    )
    assert build(batch, ["a"]) == Batch("a")


def test_a_view_of_an_input_has_symbolic_sizes_and_its_own_dtype() -> None:
    alias = graph_pb2.Alias(
        input=0,
        sizes=[graph_pb2.Expr(symbol=0)],
        strides=[graph_pb2.Expr(constant=2)],
        storage_offset=graph_pb2.Expr(constant=1),
        dtype="int32",
    )
    base = torch.arange(16, dtype=torch.float32)[4:].requires_grad_()
    view = build(leaf(alias=alias), [], [base])
    assert torch.equal(view, base.detach().view(torch.int32)[1:7:2])
    assert view.data_ptr() == base.data_ptr() + 4
    assert not view.requires_grad


@pytest.mark.parametrize(
    "name", ["nowhere:Point", f"{__name__}:Missing", f"{__name__}:dataclasses.Field", "", ":"]
)
def test_a_class_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(BindError):
        find_class(name)
