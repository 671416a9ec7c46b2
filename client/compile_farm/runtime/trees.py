"""A model's calling convention: from its arguments to flat inputs, from flat outputs to its result.

Each Tree is compiled once into a closure. Classes of results are looked up among the modules that
this process has imported; nothing is imported because an artifact says so.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

from compile_farm.errors import BindError, InputMismatchError
from compile_farm.runtime.checks import torch_dtype
from compile_farm.runtime.expressions import evaluate
from compile_farm.schema_convention import ORDERED_DICT as ORDERED_DICT
from compile_farm.v1 import graph_pb2

# Puts the leaves of an argument into the list of inputs, which has a place for each.
Flatten = Callable[[Any, list[Any]], None]
# Makes a result from the outputs, all inputs by index, and the values of the symbols.
Build = Callable[[Sequence[Any], Callable[[int], torch.Tensor], dict[int, int]], Any]


def literal_of(value: Any) -> graph_pb2.Literal:
    """None, a bool, an int of 64 bits, a float or a string; raises TypeError for anything else."""
    message = graph_pb2.Literal()
    if value is None:
        message.none.SetInParent()
    elif isinstance(value, bool):
        message.boolean = value
    elif isinstance(value, int) and abs(value) < 2**63:
        message.integer = value
    elif isinstance(value, float):
        message.real = value
    elif isinstance(value, str):
        message.text = value
    else:
        raise TypeError(f"no literal is a {type(value).__name__}")
    return message


def literal_value(literal: graph_pb2.Literal) -> Any:
    """The Python value."""
    kind = literal.WhichOneof("kind")
    return None if kind in (None, "none") else getattr(literal, kind)


def same_literal(value: Any, fixed: Any) -> bool:
    """Whether a call with either does the same: True is not 1, 0.0 not -0.0, and NaN is NaN."""
    if type(value) is not type(fixed):
        return False
    return repr(value) == repr(fixed) if isinstance(fixed, float) else bool(value == fixed)


def compile_flatten(tree: graph_pb2.Tree, name: str) -> Flatten:
    """Raises InputMismatchError naming ``name`` when an argument's structure differs."""
    if tree.WhichOneof("kind") == "leaf":
        return _flatten_leaf(tree.leaf, name)
    container = tree.container
    keys = [literal_value(key) for key in container.keys]
    parts = [
        compile_flatten(child, f"{name}[{key!r}]")
        for key, child in zip(keys or range(len(container.children)), container.children)  # noqa: B905
    ]
    if container.kind == graph_pb2.CONTAINER_KIND_DICT:
        return _flatten_dict(keys, parts, name)
    if container.kind == graph_pb2.CONTAINER_KIND_RECORD:
        return _flatten_record([str(key) for key in keys], parts, name)
    kind = list if container.kind == graph_pb2.CONTAINER_KIND_LIST else tuple

    def flatten_sequence(value: Any, inputs: list[Any]) -> None:
        if not isinstance(value, kind) or len(value) != len(parts):
            raise InputMismatchError(
                f"argument {name} is {_shape(value)}, captured was a {kind.__name__} of "
                f"{len(parts)}"
            )
        for part, item in zip(parts, value, strict=True):
            part(item, inputs)

    return flatten_sequence


def _flatten_record(names: list[str], parts: list[Flatten], name: str) -> Flatten:
    taken = set(names)

    def flatten_record(value: Any, inputs: list[Any]) -> None:
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            raise InputMismatchError(
                f"argument {name} is {_shape(value)}, captured was a dataclass"
            )
        for field in dataclasses.fields(value):
            if field.name not in taken and getattr(value, field.name, None) is not None:
                raise InputMismatchError(
                    f"argument {name} has {field.name}, which was None at capture"
                )
        for attribute, part in zip(names, parts, strict=True):
            part(getattr(value, attribute, None), inputs)

    return flatten_record


def _flatten_dict(keys: list[Any], parts: list[Flatten], name: str) -> Flatten:
    def flatten_dict(value: Any, inputs: list[Any]) -> None:
        # The order as well: forward may go through the items.
        if not isinstance(value, dict) or list(value) != keys:
            given = f" with the keys {list(value)}" if isinstance(value, dict) else ""
            raise InputMismatchError(
                f"argument {name} is {_shape(value)}{given}, captured was a dict with the keys "
                f"{keys} in this order"
            )
        for key, part in zip(keys, parts, strict=True):
            part(value[key], inputs)

    return flatten_dict


def _flatten_leaf(leaf: graph_pb2.Leaf, name: str) -> Flatten:
    if leaf.WhichOneof("kind") == "input":
        index = leaf.input

        def flatten_input(value: Any, inputs: list[Any]) -> None:
            inputs[index] = value

        return flatten_input
    fixed = literal_value(leaf.literal)

    def flatten_literal(value: Any, inputs: list[Any]) -> None:
        if value is not fixed and not same_literal(value, fixed):
            raise InputMismatchError(
                f"argument {name} is {_shape(value)}, it was {fixed!r} at capture and is fixed",
                remedy="capture the model with that value, or pass a tensor",
            )

    return flatten_literal


def _shape(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of size {tuple(value.shape)}"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value)[:80]


def compile_build(tree: graph_pb2.Tree) -> Build:
    """Raises BindError for a class that this process does not have."""
    if tree.WhichOneof("kind") == "leaf":
        return _build_leaf(tree.leaf)
    container = tree.container
    parts = [compile_build(child) for child in container.children]
    keys = [literal_value(key) for key in container.keys]
    kind = container.kind
    if kind == graph_pb2.CONTAINER_KIND_TUPLE:
        return lambda out, inp, sym: tuple([part(out, inp, sym) for part in parts])
    if kind == graph_pb2.CONTAINER_KIND_LIST:
        return lambda out, inp, sym: [part(out, inp, sym) for part in parts]
    if kind == graph_pb2.CONTAINER_KIND_DICT:
        make = OrderedDict if container.type_name == ORDERED_DICT else dict
        return lambda out, inp, sym: make(
            [(key, part(out, inp, sym)) for key, part in zip(keys, parts, strict=True)]
        )
    made = find_class(container.type_name)
    if kind == graph_pb2.CONTAINER_KIND_RECORD:
        return lambda out, inp, sym: made(
            **{key: part(out, inp, sym) for key, part in zip(keys, parts, strict=True)}
        )
    if kind == graph_pb2.CONTAINER_KIND_NAMED_TUPLE:
        return lambda out, inp, sym: made(*[part(out, inp, sym) for part in parts])
    # torch.return_types take one sequence.
    return lambda out, inp, sym: made([part(out, inp, sym) for part in parts])


def find_class(type_name: str) -> Any:
    """A class by "module:QualifiedName", among what is imported already; raises BindError."""
    module_name, _, qualified = type_name.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in qualified.split("."):
        # Not getattr: a module may import whatever it is asked for.
        found = vars(found).get(part) if isinstance(found, type | ModuleType) else None
    if not isinstance(found, type):
        raise BindError(
            f"the model takes or returns a {type_name}, which this process has not imported",
            remedy=f"import {module_name} before binding",
        )
    # By its own name, and of a kind that only holds values: never just any callable thing.
    honest = (found.__module__, found.__qualname__) == (module_name, qualified)
    holds_values = (
        (issubclass(found, tuple) and hasattr(found, "_fields"))
        or module_name == "torch.return_types"
        or dataclasses.is_dataclass(found)
    )
    if not (honest and holds_values):
        raise BindError(f"{type_name} is neither a named tuple nor a dataclass")
    return found


def _build_leaf(leaf: graph_pb2.Leaf) -> Build:
    kind = leaf.WhichOneof("kind")
    if kind == "output":
        index = leaf.output
        return lambda out, inp, sym: out[index]
    if kind == "alias":
        return _build_alias(leaf.alias)
    fixed = literal_value(leaf.literal)
    return lambda out, inp, sym: fixed


def _build_alias(alias: graph_pb2.Alias) -> Build:
    index = alias.input
    if alias.identity:
        return lambda out, inp, sym: inp(index)
    dtype = torch_dtype(alias.dtype) if alias.dtype else None

    def build(out: Sequence[Any], inp: Callable[[int], torch.Tensor], sym: dict[int, int]) -> Any:
        # A result of inference, as all others; and offsets are in elements of its own dtype.
        base = inp(index).detach()
        base = base if dtype is None else base.view(dtype)
        offset = evaluate(alias.storage_offset, sym) + base.storage_offset()
        sizes = [evaluate(size, sym) for size in alias.sizes]
        strides = [evaluate(stride, sym) for stride in alias.strides]
        return base.as_strided(sizes, strides, offset)

    return build
