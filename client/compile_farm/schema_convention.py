"""The schema's rules for the calling convention: containers, fixed values, states of modules
and of tensor subclasses.

In: a CallingConvention from a stranger, and the checked Signature that it refers to. Out: nothing,
or InvalidGraphError that says what is wrong and where.
"""

from __future__ import annotations

from compile_farm.errors import InvalidGraphError
from compile_farm.limits import (
    MAX_DEPTH,
    MAX_INPUTS,
    MAX_LONG_TEXT,
    MAX_MODULES,
    MAX_SETTINGS,
    MAX_TEXT,
    MAX_TREE_PARTS,
)
from compile_farm.schema_signature import (
    DTYPE_BYTES,
    check_expression,
    check_member,
    check_sizes,
)
from compile_farm.v1 import graph_pb2

# A dict that is not a plain one, by the Container's type_name.
ORDERED_DICT = "collections:OrderedDict"

_KEYED = frozenset({graph_pb2.CONTAINER_KIND_DICT, graph_pb2.CONTAINER_KIND_RECORD})
_NAMED = frozenset(
    {
        graph_pb2.CONTAINER_KIND_NAMED_TUPLE,
        graph_pb2.CONTAINER_KIND_RETURN_TYPE,
        graph_pb2.CONTAINER_KIND_RECORD,
    }
)
# What a leaf may be: on the way in it takes a value, on the way out it makes one.
_TAKEN = frozenset({"input", "literal"})
_GIVEN = frozenset({"output", "alias", "literal"})


def check_convention(
    convention: graph_pb2.CallingConvention, signature: graph_pb2.Signature
) -> None:
    """Raises InvalidGraphError."""
    trees = _Trees(signature)
    for name in ("args", "kwargs", "result"):
        if convention.HasField(name):  # type: ignore[arg-type]
            place = f"calling convention, {name}"
            trees.check(getattr(convention, name), place, _GIVEN if name == "result" else _TAKEN)
    _check_outermost(convention)
    if len(convention.modules) > MAX_MODULES:
        raise InvalidGraphError(f"{len(convention.modules)} modules; at most {MAX_MODULES}")
    for state in convention.modules:
        _check_state("a module", state)
    if len(convention.subclasses) > MAX_INPUTS:
        raise InvalidGraphError(f"{len(convention.subclasses)} subclasses; at most {MAX_INPUTS}")
    paths: set[str] = set()
    for subclass in convention.subclasses:
        _check_state("a tensor subclass", subclass)
        if not subclass.path or subclass.path in paths:
            raise InvalidGraphError("a tensor subclass has no name, or another's")
        paths.add(subclass.path)


def _check_outermost(convention: graph_pb2.CallingConvention) -> None:
    """The arguments of a call are a tuple, and a dict with names as keys."""
    args, kwargs = convention.args, convention.kwargs
    if convention.HasField("args") and args.container.kind != graph_pb2.CONTAINER_KIND_TUPLE:
        raise InvalidGraphError("calling convention: the positional arguments are no tuple")
    if convention.HasField("kwargs"):
        is_dict = kwargs.container.kind == graph_pb2.CONTAINER_KIND_DICT
        if not is_dict or any(key.WhichOneof("kind") != "text" for key in kwargs.container.keys):
            raise InvalidGraphError("calling convention: the keyword arguments are no dict")


def _check_state(what: str, state: graph_pb2.ModuleState | graph_pb2.Subclass) -> None:
    if len(state.settings) > MAX_SETTINGS:
        raise InvalidGraphError(f"{what} has {len(state.settings)} settings")
    if len(state.path) > MAX_TEXT or len(state.type_name) > MAX_TEXT:
        raise InvalidGraphError(f"{what} has too long a name")
    for setting in state.settings:
        if len(setting.name) > MAX_TEXT or len(setting.value.text) > MAX_TEXT:
            raise InvalidGraphError(f"{what} has too long a setting")


class _Trees:
    def __init__(self, signature: graph_pb2.Signature) -> None:
        self._inputs = len(signature.inputs)
        self._outputs = len(signature.outputs)
        self._symbols = len(signature.symbols)
        self._parts = 0

    def check(
        self, tree: graph_pb2.Tree, place: str, leaves: frozenset[str], depth: int = 0
    ) -> None:
        self._parts += 1
        if self._parts > MAX_TREE_PARTS:
            raise InvalidGraphError(f"{place}: over {MAX_TREE_PARTS} values and containers")
        if depth > MAX_DEPTH:
            raise InvalidGraphError(f"{place}: containers nested over {MAX_DEPTH} deep")
        kind = tree.WhichOneof("kind")
        if kind == "leaf":
            self._leaf(tree.leaf, place, leaves, depth)
        elif kind == "container":
            _check_container(tree.container, place)
            for child in tree.container.children:
                self.check(child, place, leaves, depth + 1)
        else:
            raise InvalidGraphError(f"{place}: a part of a kind that this version does not know")

    def _leaf(self, leaf: graph_pb2.Leaf, place: str, allowed: frozenset[str], depth: int) -> None:
        kind = leaf.WhichOneof("kind")
        if kind not in allowed:
            raise InvalidGraphError(f"{place}: a leaf of a kind that has no place there: {kind}")
        if kind == "alias":
            self._alias(leaf.alias, place, depth)
        elif kind == "literal":
            _check_literal(leaf.literal, place)
        elif kind == "input" and leaf.input >= self._inputs:
            raise InvalidGraphError(f"{place}: refers to input {leaf.input}")
        elif kind == "output" and leaf.output >= self._outputs:
            raise InvalidGraphError(f"{place}: refers to output {leaf.output}")

    def _alias(self, alias: graph_pb2.Alias, place: str, depth: int) -> None:
        if alias.input >= self._inputs:
            raise InvalidGraphError(f"{place}: refers to input {alias.input}")
        if alias.dtype:
            check_member(alias.dtype, DTYPE_BYTES, "dtype", place)
        # As deep as it stands in the tree, so that both together stay what a parser takes.
        check_sizes(alias.sizes, alias.strides, self._symbols, place, depth)
        if alias.HasField("storage_offset"):
            check_expression(alias.storage_offset, self._symbols, place, depth)
        elif not alias.identity:
            raise InvalidGraphError(f"{place}: a view without its offset")


def _check_container(container: graph_pb2.Container, place: str) -> None:
    kind = container.kind
    if kind not in range(1, 7):
        raise InvalidGraphError(f"{place}: container kind {kind} is not known")
    if len(container.keys) != (len(container.children) if kind in _KEYED else 0):
        raise InvalidGraphError(f"{place}: a container's keys and children differ in number")
    keys = [_key(key, place) for key in container.keys]
    # As Python compares them: a dict takes 1, 1.0 and True for one key.
    if len(set(keys)) != len(keys):
        raise InvalidGraphError(f"{place}: a container has a key twice")
    if kind == graph_pb2.CONTAINER_KIND_RECORD and not all(_is_name(key) for key in keys):
        raise InvalidGraphError(f"{place}: a dataclass has a field whose name is none")
    name = container.type_name
    if kind in _NAMED:
        module, _, qualified = name.partition(":")
        if len(name) > MAX_TEXT or not module or not all(map(_is_name, qualified.split("."))):
            raise InvalidGraphError(f"{place}: {name[:80]!r} is no class's name")
    elif name and (kind != graph_pb2.CONTAINER_KIND_DICT or name != ORDERED_DICT):
        raise InvalidGraphError(f"{place}: a container of the class {name[:80]!r}")


def _key(literal: graph_pb2.Literal, place: str) -> object:
    _check_literal(literal, place)
    kind = literal.WhichOneof("kind")
    return None if kind in (None, "none") else getattr(literal, kind)


def _check_literal(literal: graph_pb2.Literal, place: str) -> None:
    if len(literal.text) > MAX_LONG_TEXT:
        raise InvalidGraphError(f"{place}: a fixed text of {len(literal.text)} characters")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()
