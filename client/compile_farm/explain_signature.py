"""In words, how two signatures differ: what goes in and out, and the ranges of sizes.

In: two Signatures that schema.check_interface has passed. Out: Differences, many of one kind drawn
together: all weights of a model differ in their dtype, and one line says so. Inputs are paired by
name where all have one, else by position. Hints, value ranges and the numbers of symbols are not
compared, since a key has none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compile_farm.difference import Difference
from compile_farm.errors import InvalidGraphError
from compile_farm.runtime.expressions import evaluate
from compile_farm.v1 import graph_pb2

_ROLES = {
    graph_pb2.ROLE_USER_INPUT: "input",
    graph_pb2.ROLE_PARAMETER: "weight",
    graph_pb2.ROLE_BUFFER: "buffer",
    graph_pb2.ROLE_CONSTANT: "constant",
}
# So many alike are listed; where more are, they are drawn together.
_LISTED = 3
_INFIX = {
    graph_pb2.OPERATOR_ADD: " + ",
    graph_pb2.OPERATOR_MULTIPLY: " * ",
    graph_pb2.OPERATOR_FLOOR_DIVIDE: " // ",
    graph_pb2.OPERATOR_MODULO: " % ",
    graph_pb2.OPERATOR_POWER: " ** ",
}


def signature_differences(
    here: graph_pb2.Signature, there: graph_pb2.Signature
) -> Iterator[Difference]:
    """Inputs first, then outputs."""
    yield from _gathered(list(_Comparison(here, there).run()))


@dataclass(frozen=True)
class _Found:
    """``subject`` is "weight h.0.weight"; ``aspect`` is what of it differs: "dtype"."""

    kind: str
    subject: str
    aspect: str
    field: str
    here: str
    there: str
    # What stands before the values, after them, and between them.
    verb: str = ""
    tail: str = ""
    matters: bool = True
    between: str = " against "

    def difference(self, subject: str = "") -> Difference:
        """``subject`` in place of its own."""
        tail = f": {self.tail}" if self.tail else ""
        words = f"{subject or self.subject}: {self.verb}{self.here}{self.between}{self.there}{tail}"
        return Difference("signature", self.field, self.here, self.there, words, self.matters)


def _gathered(found: Sequence[_Found]) -> Iterator[Difference]:
    groups: dict[tuple[str, str], list[_Found]] = {}
    for one in found:
        groups.setdefault((one.kind, one.aspect), []).append(one)
    for (kind, aspect), group in groups.items():
        first = group[0]
        if len(group) <= _LISTED:
            yield from (one.difference() for one in group)
        elif len({(one.here, one.there) for one in group}) == 1:
            name = first.subject.removeprefix(f"{kind} ")
            yield first.difference(f"{len(group)} {kind}s ({name}, ...)")
        else:
            yield from (one.difference() for one in group[:_LISTED])
            rest = group[_LISTED:]
            words = f"{len(rest)} more {kind}s differ in {aspect} ({rest[0].subject}, ...)"
            matters = any(one.matters for one in rest)
            yield Difference("signature", rest[0].field, "", "", words, matters)


class _Sizes:
    """Expressions of one signature, with symbols numbered by first use as the key numbers them."""

    def __init__(self, signature: graph_pb2.Signature) -> None:
        self._symbols = signature.symbols
        self._canonical: dict[int, int] = {}

    def number(self, symbol: int) -> int:
        return self._canonical.setdefault(symbol, len(self._canonical))

    def text(self, expr: graph_pb2.Expr) -> str:
        kind = expr.WhichOneof("kind")
        if kind == "constant":
            return str(expr.constant)
        if kind == "symbol":
            return f"s{self.number(expr.symbol)}"
        operation = expr.operation
        operands = [self.text(operand) for operand in operation.operands]
        if operation.operator in (graph_pb2.OPERATOR_ADD, graph_pb2.OPERATOR_MULTIPLY):
            operands.sort()
        if operation.operator == graph_pb2.OPERATOR_MINIMUM:
            return f"min({', '.join(sorted(operands))})"
        if operation.operator == graph_pb2.OPERATOR_MAXIMUM:
            return f"max({', '.join(sorted(operands))})"
        return f"({_INFIX.get(operation.operator, ' ? ').join(operands)})"

    def range_of(self, expr: graph_pb2.Expr) -> tuple[int, int | None] | None:
        """The symbol's range; None for what is no bare symbol."""
        if expr.WhichOneof("kind") != "symbol":
            return None
        symbol = self._symbols[expr.symbol]
        return symbol.minimum, symbol.maximum if symbol.HasField("maximum") else None

    def layout(self, spec: graph_pb2.TensorSpec) -> str:
        """ "contiguous", "channels last" or "not contiguous"."""
        # Sizes for which no product is equal to another by chance.
        values = {index: 1009 + 2 * index for index in range(len(self._symbols))}
        try:
            sizes = [evaluate(expr, values) for expr in spec.sizes]
            strides = [evaluate(expr, values) for expr in spec.strides]
        except (InvalidGraphError, ZeroDivisionError, KeyError):
            return "not contiguous"
        rank = len(sizes)
        if _dense(sizes, strides, range(rank)):
            return "contiguous"
        if rank in (4, 5) and _dense(sizes, strides, (0, *range(2, rank), 1)):
            return "channels last"
        return "not contiguous"


def _dense(sizes: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    step = 1
    for dimension in reversed(order):
        if sizes[dimension] != 1 and strides[dimension] != step:
            return False
        step *= max(sizes[dimension], 1)
    return True


class _Comparison:
    def __init__(self, here: graph_pb2.Signature, there: graph_pb2.Signature) -> None:
        self._here, self._there = here, there
        self._mine, self._theirs = _Sizes(here), _Sizes(there)
        # Pairs of symbols whose ranges were compared: told once, not at each use.
        self._told: set[tuple[int, int]] = set()

    def run(self) -> Iterator[_Found]:
        for signature, sizes in ((self._here, self._mine), (self._there, self._theirs)):
            for entry in signature.inputs:
                for expr in (*entry.tensor.sizes, *entry.tensor.strides):
                    sizes.text(expr)
        yield from self._inputs()
        yield from self._outputs()

    def _inputs(self) -> Iterator[_Found]:
        here, there = list(self._here.inputs), list(self._there.inputs)
        names = [entry.name for entry in here]
        others = [entry.name for entry in there]
        named = all(names) and all(others)
        if named and len({*names}) == len(names) and len({*others}) == len(others):
            positions = {name: index for index, name in enumerate(others)}
            pairs = [(i, positions[name]) for i, name in enumerate(names) if name in positions]
            alone = [i for i, name in enumerate(names) if name not in positions]
            alone_there = [i for i, name in enumerate(others) if name not in {*names}]
            if sorted(place for _, place in pairs) != [place for _, place in pairs]:
                yield _Found(
                    "input", "the inputs", "order", "inputs", "one order", "another one",
                    tail="the same names",
                )  # fmt: skip
        else:
            count = min(len(here), len(there))
            pairs = [(index, index) for index in range(count)]
            alone = list(range(count, len(here)))
            alone_there = list(range(count, len(there)))
            if named != (all(names) or all(others)) or names[:count] != others[:count]:
                yield from self._names(pairs)
        for index in alone:
            yield self._alone(here, index, "taken here", "not there")
        for index in alone_there:
            yield self._alone(there, index, "not taken here", "taken there")
        for mine, theirs in pairs:
            yield from self._input(mine, theirs)

    def _names(self, pairs: Sequence[tuple[int, int]]) -> Iterator[_Found]:
        for mine, theirs in pairs:
            names = self._here.inputs[mine].name, self._there.inputs[theirs].name
            if names[0] != names[1]:
                here, there = (repr(name) if name else "nameless" for name in names)
                field = f"inputs[{mine}].name"
                yield _Found("input", f"input {mine}", "name", field, here, there)

    @staticmethod
    def _alone(entries: Sequence[graph_pb2.Input], index: int, here: str, there: str) -> _Found:
        kind, subject = _subject(entries, index)
        field = f"inputs[{index}]"
        return _Found(kind, subject, f"being {here}", field, here, there, between=", ")

    def _input(self, index: int, other: int) -> Iterator[_Found]:
        mine, theirs = self._here.inputs[index], self._there.inputs[other]
        kind, subject = _subject(self._here.inputs, index)
        field = f"inputs[{index}]"
        if mine.role != theirs.role:
            roles = _ROLES.get(mine.role, "?"), _ROLES.get(theirs.role, "?")
            yield _Found(kind, subject, "role", f"{field}.role", *roles, verb="its role is ")
        if mine.mutated != theirs.mutated:
            said = ["written to" if entry.mutated else "only read" for entry in (mine, theirs)]
            yield _Found(kind, subject, "being written to", f"{field}.mutated", said[0], said[1])
        kinds = [entry.WhichOneof("kind") or "" for entry in (mine, theirs)]
        if kinds[0] != kinds[1]:
            words = ["a tensor" if kind == "tensor" else "a number" for kind in kinds]
            yield _Found(kind, subject, "kind", field, words[0], words[1])
        elif kinds[0] == "tensor":
            yield from self._tensor(kind, subject, f"{field}.tensor", mine.tensor, theirs.tensor)
            yield from _data(kind, subject, f"{field}.data", mine, theirs)
        else:
            yield from self._size(
                kind, subject, "value", f"{field}.scalar", mine.scalar, theirs.scalar
            )

    def _outputs(self) -> Iterator[_Found]:
        here, there = self._here.outputs, self._there.outputs
        if len(here) != len(there):
            counts = str(len(here)), str(len(there))
            yield _Found("output", "the number of outputs", "number", "outputs", *counts)
        for index, (mine, theirs) in enumerate(zip(here, there, strict=False)):
            kinds = [output.WhichOneof("kind") or "" for output in (mine, theirs)]
            subject, field = f"output {index}", f"outputs[{index}]"
            if kinds[0] != kinds[1]:
                yield _Found("output", subject, "kind", field, kinds[0], kinds[1])
            elif kinds[0] == "tensor":
                field = f"{field}.tensor"
                yield from self._tensor("output", subject, field, mine.tensor, theirs.tensor)
            elif kinds[0] == "scalar":
                field = f"{field}.scalar"
                yield from self._size("output", subject, "value", field, mine.scalar, theirs.scalar)

    def _tensor(
        self,
        kind: str,
        subject: str,
        field: str,
        mine: graph_pb2.TensorSpec,
        theirs: graph_pb2.TensorSpec,
    ) -> Iterator[_Found]:
        if mine.dtype != theirs.dtype:
            yield _Found(kind, subject, "dtype", f"{field}.dtype", mine.dtype, theirs.dtype)
        if mine.device_type != theirs.device_type:
            types = mine.device_type, theirs.device_type
            yield _Found(kind, subject, "device", f"{field}.device_type", *types, verb="on ")
        if len(mine.sizes) != len(theirs.sizes):
            ranks = str(len(mine.sizes)), str(len(theirs.sizes))
            yield _Found(
                kind, subject, "number of dimensions", f"{field}.sizes", *ranks, verb="dimensions: "
            )
            return
        differ = False
        for dimension, (size, other) in enumerate(zip(mine.sizes, theirs.sizes, strict=True)):
            where = f"{field}.sizes[{dimension}]"
            aspect = f"size of dimension {dimension}"
            for one in self._size(kind, subject, aspect, where, size, other):
                differ = True
                yield one
        yield from self._strides(kind, subject, field, mine, theirs, differ)

    def _size(
        self,
        kind: str,
        subject: str,
        aspect: str,
        field: str,
        mine: graph_pb2.Expr,
        theirs: graph_pb2.Expr,
    ) -> Iterator[_Found]:
        ranges = self._mine.range_of(mine), self._theirs.range_of(theirs)
        texts = self._mine.text(mine), self._theirs.text(theirs)
        verb = f"{aspect}: "
        if ranges[0] and ranges[1]:
            pair = self._mine.number(mine.symbol), self._theirs.number(theirs.symbol)
            if ranges[0] != ranges[1] and pair not in self._told:
                self._told.add(pair)
                here, there = map(_range, ranges)  # type: ignore[arg-type]
                wider = _covers(ranges[1], ranges[0])
                tail = "there it may be all of these and more" if wider else ""
                yield _Found(kind, subject, aspect, field, here, there, verb, tail, not wider)
            elif pair[0] != pair[1]:
                tail = "it is tied to another dimension"
                yield _Found(kind, subject, aspect, field, *texts, verb=verb, tail=tail)
            elif self._unbacked(mine, theirs) and pair not in self._told:
                self._told.add(pair)
                tail = "one is known from the inputs, the other from their values"
                yield _Found(kind, subject, aspect, field, *texts, verb=verb, tail=tail)
            return
        constants = mine.WhichOneof("kind") == "constant", theirs.WhichOneof("kind") == "constant"
        if constants[0] and ranges[1]:
            fits = _covers(ranges[1], (mine.constant, mine.constant))
            here, there = f"fixed to {texts[0]} here", f"may be {_range(ranges[1])} there"
            tail = "submit with dynamic_shapes" if kind == "input" else ""
            yield _Found(kind, subject, aspect, field, here, there, verb, tail, not fits, ", ")
        elif constants[1] and ranges[0]:
            here, there = f"may be {_range(ranges[0])} here", f"fixed to {texts[1]} there"
            yield _Found(kind, subject, aspect, field, here, there, verb, between=", ")
        elif texts[0] != texts[1]:
            tail = ""
            if all(constants) and kind == "input":
                tail = "with dynamic_shapes one artifact could serve both"
            yield _Found(kind, subject, aspect, field, *texts, verb=verb, tail=tail)

    def _unbacked(self, mine: graph_pb2.Expr, theirs: graph_pb2.Expr) -> bool:
        here, there = self._here.symbols[mine.symbol], self._there.symbols[theirs.symbol]
        return here.unbacked != there.unbacked

    def _strides(
        self,
        kind: str,
        subject: str,
        field: str,
        mine: graph_pb2.TensorSpec,
        theirs: graph_pb2.TensorSpec,
        sizes_differ: bool,
    ) -> Iterator[_Found]:
        here = [self._mine.text(expr) for expr in mine.strides]
        there = [self._theirs.text(expr) for expr in theirs.strides]
        layouts = self._mine.layout(mine), self._theirs.layout(theirs)
        if here == there or (sizes_differ and layouts[0] == layouts[1] != "not contiguous"):
            return  # they follow from the sizes
        changed = [d for d, pair in enumerate(zip(here, there, strict=True)) if pair[0] != pair[1]]
        if not sizes_differ and all(_is_one(mine.sizes[d]) for d in changed):
            tail = "torch ignores it in a dimension of size 1; a clone() has the usual one"
            matters = False
        else:
            sides = zip(layouts, ("here", "there"), strict=True)
            odd = [f"{layout} {side}" for layout, side in sides if layout != "contiguous"]
            tail, matters = ", ".join(odd), True
        if len(changed) == 1:
            d = changed[0]
            where, verb = f"{field}.strides[{d}]", f"stride of dimension {d}: "
            values = here[d], there[d]
        else:
            where, verb = f"{field}.strides", "strides: "
            values = f"({', '.join(here)})", f"({', '.join(there)})"
        yield _Found(
            kind, subject, "strides", where, *values, verb=verb, tail=tail, matters=matters
        )


def _subject(entries: Sequence[graph_pb2.Input], index: int) -> tuple[str, str]:
    """What kind of input it is, and how to call it: user inputs by their place among their own."""
    entry = entries[index]
    kind = _ROLES.get(entry.role, "input")
    if kind != "input":
        return kind, f"{kind} {entry.name or index}"
    place = sum(one.role == entry.role for one in entries[:index])
    return kind, f"input {place} ({entry.name})" if entry.name else f"input {index}"


def _data(
    kind: str, subject: str, field: str, mine: graph_pb2.Input, theirs: graph_pb2.Input
) -> Iterator[_Found]:
    if mine.data == theirs.data:
        return
    said = [f"{len(entry.data)} bytes" if entry.data else "no bytes" for entry in (mine, theirs)]
    if mine.data and theirs.data:
        tail = "other values; a constant that forward makes travels with them, a buffer does not"
    else:
        tail = "its values travel with one side only, and were not compared"
    yield _Found(kind, subject, "values", field, said[0], said[1], tail=tail)


def _covers(outer: tuple[int, int | None] | None, inner: tuple[int, int | None] | None) -> bool:
    if outer is None or inner is None or outer[0] > inner[0]:
        return False
    return outer[1] is None or (inner[1] is not None and inner[1] <= outer[1])


def _range(bounds: tuple[int, int | None] | None) -> str:
    low, high = bounds or (0, None)
    return f"{low} and more" if high is None else f"{low} to {high}"


def _is_one(expr: graph_pb2.Expr) -> bool:
    return expr.WhichOneof("kind") == "constant" and expr.constant == 1
