"""In words, how two calling conventions differ: parameters, containers, fixed values, modules,
tensor subclasses.

In: two Sides. Out: Differences of their calling conventions, at most a handful.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from compile_farm.difference import Difference, Side
from compile_farm.v1 import graph_pb2

_MOST = 8


def convention_differences(here: Side, there: Side) -> Iterator[Difference]:
    """The first few, from the outside in."""
    mine, theirs = here.calling_convention, there.calling_convention
    empty = not mine.ByteSize(), not theirs.ByteSize()
    if any(empty):
        ways = ["torch.compile" if one else "submit" for one in empty]
        words = f"captured by {ways[0]} here, by {ways[1]} there: each way has keys of its own"
        yield _difference("", ways[0], ways[1], words)
        return
    yield from islice(_differences(mine, theirs), _MOST)


def _difference(field: str, here: str, there: str, words: str) -> Difference:
    return Difference("calling_convention", field, here, there, words)


def _differences(
    mine: graph_pb2.CallingConvention, theirs: graph_pb2.CallingConvention
) -> Iterator[Difference]:
    if mine.parameters != theirs.parameters:
        names = ", ".join(mine.parameters), ", ".join(theirs.parameters)
        words = f"forward takes ({names[0]}) here, ({names[1]}) there"
        yield _difference("parameters", *names, words)
    args = mine.args.container.children
    names_of = [*mine.parameters, *(f"args[{i}]" for i in range(len(mine.parameters), len(args)))]
    yield from _trees(mine.args, theirs.args, "args", "the positional arguments", names_of)
    yield from _trees(mine.kwargs, theirs.kwargs, "kwargs", "the keyword arguments", [])
    yield from _trees(mine.result, theirs.result, "result", "the result", None)
    yield from _modules(mine.modules, theirs.modules)
    yield from _subclasses(mine.subclasses, theirs.subclasses)


def _subclasses(
    mine: Iterable[graph_pb2.Subclass], theirs: Iterable[graph_pb2.Subclass]
) -> Iterator[Difference]:
    """Weights that are tensor subclasses on either side, by path."""
    here, there = ({state.path: state for state in side} for side in (mine, theirs))
    for path in [*here, *(path for path in there if path not in here)]:
        one, other = here.get(path), there.get(path)
        what, field = f"the weight {path}", f"subclasses[{path}]"
        types = one.type_name if one else "plain", other.type_name if other else "plain"
        if types[0] != types[1]:
            yield _difference(field, *types, f"{what} is {types[0]} here, {types[1]} there")
        elif one is not None and other is not None:
            yield from _settings(one, other, field, what)


def _modules(
    mine: Iterable[graph_pb2.ModuleState], theirs: Iterable[graph_pb2.ModuleState]
) -> Iterator[Difference]:
    """What the model's modules are and how they are set, by path; training modes drawn together."""
    here, there = ({state.path: state for state in side} for side in (mine, theirs))
    switched: dict[bool, list[str]] = {}
    for path in [*here, *(path for path in there if path not in here)]:
        one, other = here.get(path), there.get(path)
        what, field = (f"module {path}" if path else "the model"), f"modules[{path}]"
        types = one.type_name if one else "nothing", other.type_name if other else "nothing"
        if types[0] != types[1]:
            yield _difference(field, *types, f"{what} is {types[0]} here, {types[1]} there")
        elif one is not None and other is not None:
            if one.training != other.training:
                switched.setdefault(one.training, []).append(path)
            yield from _settings(one, other, field, what)
    for training, paths in switched.items():
        modes = ("train", "eval") if training else ("eval", "train")
        what = "the model" if "" in paths else f"module {paths[0]}"
        if len(paths) > 1:
            what += f" and {len(paths) - 1} more modules"
        words = f"{what}: in {modes[0]} mode here, in {modes[1]} mode there"
        yield _difference(f"modules[{paths[0]}].training", *modes, words)


def _settings(
    one: graph_pb2.ModuleState | graph_pb2.Subclass,
    other: graph_pb2.ModuleState | graph_pb2.Subclass,
    field: str,
    what: str,
) -> Iterator[Difference]:
    here, there = (
        {setting.name: _literal(setting.value) for setting in state.settings}
        for state in (one, other)
    )
    for name in sorted({*here, *there}):
        values = here.get(name, "nothing"), there.get(name, "nothing")
        if values[0] != values[1]:
            words = f"{what} has {name} {values[0]} here, {values[1]} there"
            yield _difference(f"{field}.settings[{name}]", *values, words)


def _trees(
    mine: graph_pb2.Tree,
    theirs: graph_pb2.Tree,
    field: str,
    what: str,
    names: list[str] | None,
) -> Iterator[Difference]:
    """``names`` is given for the outermost container of arguments: what its children are called."""
    one, other = mine.WhichOneof("kind"), theirs.WhichOneof("kind")
    if one != other or one is None:
        if mine != theirs:
            values = _shape(mine), _shape(theirs)
            yield _difference(field, *values, f"{what}: {values[0]} here, {values[1]} there")
        return
    if one == "leaf":
        yield from _leaves(mine.leaf, theirs.leaf, field, what)
        return
    here, there = mine.container, theirs.container
    keys, other_keys = ([_literal(key) for key in side.keys] for side in (here, there))
    if (here.kind, here.type_name) != (there.kind, there.type_name):
        values = _shape(mine), _shape(theirs)
        yield _difference(field, *values, f"{what}: {values[0]} here, {values[1]} there")
    elif keys != other_keys or len(here.children) != len(there.children):
        values = (
            ", ".join(keys) or f"{len(here.children)} of them",
            ", ".join(other_keys) or f"{len(there.children)} of them",
        )
        yield _difference(field, *values, f"{what}: {values[0]} here, {values[1]} there")
    else:
        for index, (child, twin) in enumerate(zip(here.children, there.children, strict=True)):
            label = f"{what}[{keys[index] if keys else index}]"
            if names is not None:
                name = keys[index].strip("'") if keys else names[index]
                label = f"argument {name}"
            yield from _trees(child, twin, f"{field}[{index}]", label, None)


def _leaves(
    mine: graph_pb2.Leaf, theirs: graph_pb2.Leaf, field: str, what: str
) -> Iterator[Difference]:
    if mine == theirs:
        return
    kinds = mine.WhichOneof("kind"), theirs.WhichOneof("kind")
    if kinds == ("literal", "literal"):
        values = _literal(mine.literal), _literal(theirs.literal)
        words = f"{what} is fixed to {values[0]} here, to {values[1]} there"
    elif kinds == ("alias", "alias"):
        values = _alias(mine.alias), _alias(theirs.alias)
        words = f"{what}: {values[0]} here, {values[1]} there"
        if values[0] == values[1]:
            words = f"{what} is {values[0]}, with other sizes, strides or offset"
    else:
        values = _leaf(mine), _leaf(theirs)
        words = f"{what}: {values[0]} here, {values[1]} there"
    yield _difference(field, *values, words)


def _shape(tree: graph_pb2.Tree) -> str:
    if tree.WhichOneof("kind") != "container":
        return _leaf(tree.leaf)
    container = tree.container
    known = graph_pb2.ContainerKind.DESCRIPTOR.values_by_number.get(container.kind)
    kind = known.name.removeprefix("CONTAINER_KIND_").lower() if known else str(container.kind)
    name = f" {container.type_name}" if container.type_name else ""
    return f"a {kind.replace('_', ' ')}{name} of {len(container.children)}"


def _leaf(leaf: graph_pb2.Leaf) -> str:
    kind = leaf.WhichOneof("kind")
    if kind == "literal":
        return f"the fixed value {_literal(leaf.literal)}"
    if kind == "alias":
        return _alias(leaf.alias)
    return f"{kind} {getattr(leaf, kind)}" if kind else "nothing"


def _alias(alias: graph_pb2.Alias) -> str:
    return f"input {alias.input} itself" if alias.identity else f"a view of input {alias.input}"


def _literal(literal: graph_pb2.Literal) -> str:
    kind = literal.WhichOneof("kind")
    return "None" if kind in (None, "none") else repr(getattr(literal, kind))
