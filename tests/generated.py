"""Captures that hypothesis makes, and what of them a key must tell apart.

Out: a strategy for captures that the schema's validator accepts, with several calls, symbols,
writes, random draws, constants, subgraphs, modules and libraries; edits of a graph that change
nothing; and ``normal_form``, which says without any hash whether two captures are one graph.
"""

from __future__ import annotations

import copy
import functools
import math
import struct
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from compile_farm.v1 import graph_pb2
from tests.captures import expr, tensor, value

Draw = st.DrawFn
Numbers = tuple[int, ...]
_PURE = ("aten::sin.default", "aten::add.Tensor", "aten::zeros_like.default", "python::getitem")
_COMMUTATIVE = (1, 2, 5, 6)


@functools.cache
def texts(alphabet: str = "abc_é") -> st.SearchStrategy[str]:
    """A few, so that equal ones are met."""
    return st.text(alphabet, max_size=3)


@functools.cache
def expressions(symbols: Numbers, depth: int = 1) -> st.SearchStrategy[graph_pb2.Expr]:
    """Numbers, and operations over these symbols."""
    plain = st.builds(expr, st.integers(0, 9))
    if symbols:
        plain = st.one_of(plain, st.builds(expr, st.sampled_from([f"s{n}" for n in symbols])))
    if not depth:
        return plain
    operands = st.lists(expressions(symbols, depth - 1), min_size=2, max_size=2)
    operation = st.builds(
        lambda operator, pair: graph_pb2.Expr(
            operation=graph_pb2.Operation(operator=operator, operands=pair)
        ),
        st.integers(1, 6),
        operands,
    )
    return st.one_of(plain, operation)


@functools.cache
def literals(symbols: Numbers, depth: int = 1) -> st.SearchStrategy[graph_pb2.Argument]:
    """Arguments of every kind but values and subgraphs."""
    argument = graph_pb2.Argument
    real = st.sampled_from([0.0, -0.0, 1.0, 1.5, math.nan, math.inf])
    kinds: list[st.SearchStrategy[graph_pb2.Argument]] = [
        st.just(argument(none=graph_pb2.Nothing())),
        st.builds(lambda number: argument(integer=number), st.integers(-2, 2)),
        st.builds(lambda number: argument(real=number), real),
        st.builds(lambda flag: argument(boolean=flag), st.booleans()),
        st.builds(lambda text: argument(text=text), st.sampled_from(["1", "cpu", "float32", "é"])),
        st.builds(lambda a, b: argument(complex={"real": a, "imaginary": b}), real, real),  # type: ignore[arg-type]
        st.builds(lambda name: argument(dtype=name), st.sampled_from(["float32", "bfloat16"])),
        st.builds(lambda name: argument(device_type=name), st.sampled_from(["cpu", "cuda"])),
        st.just(argument(layout="strided")),
        st.builds(
            lambda name: argument(memory_format=name),
            st.sampled_from(["channels_last", "contiguous_format"]),
        ),
        st.builds(lambda name: argument(operator=name), st.sampled_from(_PURE[:3])),
        st.builds(lambda size: argument(expression=size), expressions(symbols)),
    ]
    if depth:
        some = st.lists(literals(symbols, depth - 1), max_size=2)
        kinds += [
            st.builds(lambda items: argument(list={"items": items}), some),  # type: ignore[arg-type]
            st.builds(lambda items: argument(tuple={"items": items}), some),  # type: ignore[arg-type]
            st.builds(
                lambda items: argument(
                    dictionary=graph_pb2.ArgumentDictionary(
                        items=[graph_pb2.NamedArgument(name=k, value=v) for k, v in items.items()]
                    )
                ),
                st.dictionaries(texts(), literals(symbols, depth - 1), max_size=2),
            ),
        ]
    return st.one_of(kinds)


@functools.cache
@st.composite
def graphs(draw: Draw, inputs: int, symbols: Numbers, depth: int = 0) -> graph_pb2.Graph:
    """Calls of every kind on earlier values; the outermost graph has subgraphs."""
    graph = graph_pb2.Graph(schema_version=1, input_count=inputs)
    kinds = ["pure", "pure", "pure", "write", "draw", "assert", *(["body"] if depth == 0 else [])]
    for known in range(inputs, inputs + draw(st.integers(2, 6))):
        refs = st.builds(value, st.integers(0, known - 1))
        kind = draw(st.sampled_from(kinds))
        node = graph_pb2.Node(args=[draw(refs)])
        if kind == "pure":
            node.op = draw(st.sampled_from((*_PURE, "mylib::thing.default")))
            node.args.extend(draw(st.lists(st.one_of(refs, literals(symbols)), max_size=2)))
            for name in draw(st.lists(st.sampled_from(["alpha", "dim", "out"]), unique=True)):
                node.kwargs.add(name=name).value.CopyFrom(draw(st.one_of(literals(symbols), refs)))
        elif kind == "write":
            node.op, node.effect = "aten::add_.Tensor", graph_pb2.EFFECT_MUTATES
            node.args.append(draw(refs))
        elif kind == "draw":
            node.op = draw(st.sampled_from(["aten::rand_like.default", "aten::bernoulli.default"]))
            node.effect = graph_pb2.EFFECT_RANDOM
        elif kind == "assert":
            node.op, node.effect = "aten::_assert_async.msg", graph_pb2.EFFECT_ASSERTS
            node.args.add(text=draw(texts()))
        else:
            node.op = draw(st.sampled_from(["higher_order::cond", "higher_order::while_loop"]))
            node.effect = graph_pb2.EFFECT_MUTATES
            for _ in range(2):
                node.args.add(subgraph=len(graph.subgraphs))
                graph.subgraphs.append(draw(graphs(1, symbols, depth + 1)))
            node.args.add().list.items.append(draw(refs))
        graph.nodes.append(node)
    last = inputs + len(graph.nodes) - 1
    graph.outputs.append(value(last))
    if depth:
        graph.single_output = draw(st.booleans())
    else:
        more = st.lists(st.integers(0, last), max_size=2)
        graph.outputs.extend(value(number) for number in draw(more))
    return graph


@functools.cache
@st.composite
def _tensors(draw: Draw, symbols: Numbers) -> graph_pb2.TensorSpec:
    rank = draw(st.integers(0, 2))
    return graph_pb2.TensorSpec(
        dtype=draw(st.sampled_from(["float32", "bfloat16", "int64"])),
        device_type=draw(st.sampled_from(["cpu", "cuda"])),
        sizes=[draw(expressions(symbols)) for _ in range(rank)],
        strides=[draw(expressions(symbols)) for _ in range(rank)],
    )


@functools.cache
@st.composite
def _symbols(draw: Draw) -> graph_pb2.Symbol:
    symbol = graph_pb2.Symbol(minimum=draw(st.integers(0, 2)), hint=draw(st.integers(2, 9)))
    if draw(st.booleans()):
        symbol.maximum = draw(st.integers(9, 11))
    symbol.unbacked = draw(st.booleans())
    return symbol


@st.composite
def _conventions(
    draw: Draw, signature: graph_pb2.Signature, symbols: Numbers
) -> graph_pb2.CallingConvention:
    """Empty at times, as in the torch.compile way."""
    convention = graph_pb2.CallingConvention()
    if not draw(st.booleans()):
        return convention
    convention.parameters.extend(draw(st.lists(st.sampled_from("xyz"), unique=True)))
    args, kwargs = convention.args.container, convention.kwargs.container
    args.kind, kwargs.kind = graph_pb2.CONTAINER_KIND_TUPLE, graph_pb2.CONTAINER_KIND_DICT
    for index in range(len(signature.inputs)):
        args.children.add().leaf.input = index
    for name in draw(st.lists(st.sampled_from(["flag", "scale"]), unique=True)):
        kwargs.keys.add(text=name)
        literal = kwargs.children.add().leaf.literal
        literal.CopyFrom(
            draw(
                st.sampled_from(
                    [
                        graph_pb2.Literal(integer=1),
                        graph_pb2.Literal(real=1.0),
                        graph_pb2.Literal(boolean=True),
                        graph_pb2.Literal(text="1"),
                        graph_pb2.Literal(none=graph_pb2.Nothing()),
                    ]
                )
            )
        )
    result = convention.result.container
    result.kind = draw(
        st.sampled_from([graph_pb2.CONTAINER_KIND_TUPLE, graph_pb2.CONTAINER_KIND_LIST])
    )
    result.children.add().leaf.output = 0
    alias = result.children.add().leaf.alias
    alias.input, alias.identity = 0, draw(st.booleans())
    if not alias.identity:
        alias.sizes.append(draw(expressions(symbols)))
        alias.strides.append(draw(expressions(symbols)))
        alias.storage_offset.CopyFrom(draw(expressions(symbols)))
    for path in draw(st.lists(st.sampled_from(["", "layer", "layer.0"]), unique=True)):
        state = convention.modules.add(path=path, type_name="Layer", training=draw(st.booleans()))
        state.settings.add(name="eps").value.real = draw(st.sampled_from([1e-5, 1e-6]))
    return convention


@st.composite
def captures(draw: Draw) -> graph_pb2.Capture:
    """Whatever the schema's validator accepts, small. The first input has all symbols' sizes."""
    ranges = draw(st.lists(_symbols(), max_size=3))
    numbers = tuple(range(len(ranges)))
    sizes = [f"s{number}" for number in draw(st.permutations(numbers))]
    first = graph_pb2.Input(name="x", role=graph_pb2.ROLE_USER_INPUT)
    first.tensor.CopyFrom(tensor(*sizes, strides=(1,) * len(sizes)))
    signature = graph_pb2.Signature(symbols=ranges, inputs=[first])
    for role in draw(st.lists(st.sampled_from([1, 2, 3, 4]), max_size=2)):
        entry = signature.inputs.add(name=draw(texts()), role=role)  # type: ignore[arg-type]
        entry.mutated = draw(st.booleans())
        if role == graph_pb2.ROLE_CONSTANT:
            entry.data = draw(st.binary(min_size=1, max_size=2))
            entry.tensor.CopyFrom(tensor(len(entry.data), dtype="uint8"))
        elif draw(st.booleans()):
            entry.scalar.CopyFrom(draw(expressions(numbers)))
        else:
            entry.tensor.CopyFrom(draw(_tensors(numbers)))
    # A symbol that no input has, as the length of what an item() decides.
    free = range(len(ranges), len(ranges) + draw(st.integers(0, 2)))
    signature.symbols.extend(draw(_symbols()) for _ in free)
    graph = draw(graphs(len(signature.inputs), (*numbers, *free)))
    signature.outputs.extend(
        graph_pb2.Output(tensor=draw(_tensors(numbers))) for _ in graph.outputs
    )
    if draw(st.booleans()):
        graph.outputs.add().none.SetInParent()
        signature.outputs.add().scalar.CopyFrom(draw(expressions(numbers)))
    libraries = []
    if any(node.op.startswith("mylib") for node in graph.nodes):
        libraries = [graph_pb2.Library(namespace="mylib", module="my.ops", version="1.0")]
    return graph_pb2.Capture(
        graph=graph,
        signature=signature,
        calling_convention=draw(_conventions(signature, numbers)),
        libraries=libraries,
    )


def arguments_of(graph: graph_pb2.Graph) -> Iterator[graph_pb2.Argument]:
    """All of them, those in containers too, without subgraphs' own."""
    waiting = [*graph.outputs]
    for node in graph.nodes:
        waiting += [*node.args, *(item.value for item in node.kwargs)]
    while waiting:
        argument = waiting.pop()
        yield argument
        kind = argument.WhichOneof("kind")
        if kind in ("list", "tuple"):
            waiting += getattr(argument, kind).items
        elif kind == "dictionary":
            waiting += [item.value for item in argument.dictionary.items]


def values_of(node: graph_pb2.Node) -> list[int]:
    """The values that a call takes."""
    alone = graph_pb2.Graph(nodes=[node])
    return [one.value for one in arguments_of(alone) if one.WhichOneof("kind") == "value"]


def used_nodes(graph: graph_pb2.Graph) -> list[int]:
    """Indices of the calls that an output or an effect needs."""
    count = graph.input_count
    needed = {one.value for one in graph.outputs if one.WhichOneof("kind") == "value"}
    for index in reversed(range(len(graph.nodes))):
        node = graph.nodes[index]
        if node.effect or count + index in needed:
            needed |= {count + index, *values_of(node)}
    return sorted(number - count for number in needed if number >= count)


def reordered(graph: graph_pb2.Graph, random: Random) -> graph_pb2.Graph:
    """The same calls in another order: each after its arguments and between the same two writes,
    and those with an effect in the order that they had."""
    count, nodes = graph.input_count, list(graph.nodes)
    writes, before = 0, []
    for node in nodes:
        before.append(writes)
        writes += node.effect == graph_pb2.EFFECT_MUTATES
    order: list[int] = []
    left = list(range(len(nodes)))
    while left:
        segment = before[left[0]]
        effects = [index for index in left if nodes[index].effect]
        ready = [
            index
            for index in left
            if before[index] == segment
            and (not nodes[index].effect or index == effects[0])
            and all(one < count or one - count in order for one in values_of(nodes[index]))
        ]
        # A write ends its segment, so it comes when nothing else is left of it.
        calm = [index for index in ready if nodes[index].effect != graph_pb2.EFFECT_MUTATES]
        order.append(random.choice(calm or ready))
        left.remove(order[-1])
    new = {count + index: count + place for place, index in enumerate(order)}
    other = copy.deepcopy(graph)
    del other.nodes[:]
    other.nodes.extend(nodes[index] for index in order)
    for argument in arguments_of(other):
        if argument.WhichOneof("kind") == "value":
            argument.value = new.get(argument.value, argument.value)
    return other


def renumber(message: Any, new: Sequence[int]) -> None:
    """Gives every symbol in ``message`` its new number, but leaves the list of them as it is."""
    if isinstance(message, graph_pb2.Expr) and message.WhichOneof("kind") == "symbol":
        message.symbol = new[message.symbol]
        return
    for field, held in message.ListFields():
        if field.message_type is not None:
            for one in held if field.is_repeated else [held]:
                renumber(one, new)


class _NormalForm:
    """Numbers values and symbols by where a walk from the effects and outputs meets them."""

    def __init__(self, capture: graph_pb2.Capture) -> None:
        self._symbols = capture.signature.symbols
        self._numbers: dict[int, int] = {}

    def size(self, one: graph_pb2.Expr) -> Any:
        kind = one.WhichOneof("kind")
        if kind == "constant":
            return "number", one.constant
        if kind == "operation":
            parts = [self.size(operand) for operand in one.operation.operands]
            if one.operation.operator in _COMMUTATIVE:
                parts.sort(key=repr)
            return "operation", one.operation.operator, parts
        met = one.symbol in self._numbers
        number = self._numbers.setdefault(one.symbol, len(self._numbers))
        symbol = self._symbols[one.symbol]
        limit = symbol.maximum if symbol.HasField("maximum") else None
        return "symbol", number, met, symbol.minimum, limit, symbol.unbacked

    def message(self, one: Any) -> Any:
        """Any message in which the order of all fields counts."""
        if isinstance(one, graph_pb2.Expr):
            return self.size(one)
        if isinstance(one, float):
            return "nan" if math.isnan(one) else struct.pack("<d", one)
        if not hasattr(one, "DESCRIPTOR"):
            return type(one).__name__, one
        fields = []
        for field, held in one.ListFields():
            if field.name != "value_range":
                parts = list(held) if field.is_repeated else [held]
                fields.append((field.name, [self.message(part) for part in parts]))
        return fields

    def graph(self, graph: graph_pb2.Graph) -> Any:
        rows: list[Any] = []
        numbers = {index: ("input", index) for index in range(graph.input_count)}
        subgraphs: dict[int, Any] = {}
        places = [index for index, node in enumerate(graph.nodes) if node.effect]
        writes = [index for index in places if graph.nodes[index].effect == 1]

        def visit(argument: graph_pb2.Argument) -> Any:
            kind = argument.WhichOneof("kind")
            if kind == "value":
                if argument.value not in numbers:
                    row = call(argument.value - graph.input_count)
                    numbers[argument.value] = ("row", len(rows))
                    rows.append(row)
                return kind, numbers[argument.value]
            if kind == "subgraph":
                if argument.subgraph not in subgraphs:
                    subgraphs[argument.subgraph] = self.graph(graph.subgraphs[argument.subgraph])
                return kind, subgraphs[argument.subgraph]
            if kind in ("list", "tuple"):
                return kind, [visit(item) for item in getattr(argument, kind).items]
            if kind == "dictionary":
                return kind, named(argument.dictionary.items)
            return kind, self.message(argument)

        def named(items: Any) -> Any:
            return [(one.name, visit(one.value)) for one in sorted(items, key=lambda one: one.name)]

        def call(index: int) -> Any:
            node = graph.nodes[index]
            place = places.index(index) if index in places else None
            earlier = sum(one < index for one in writes)
            # Values are numbered before anything else of their call, as the key visits them.
            for argument in [*node.args, *(pair.value for pair in _sorted(node))]:
                for one in _values(argument):
                    visit(one)
            arguments = [visit(argument) for argument in node.args]
            return node.op, node.effect, place, earlier, arguments, named(node.kwargs)

        effects = [visit(value(graph.input_count + index)) for index in places]
        outputs = [visit(argument) for argument in graph.outputs]
        return graph.schema_version, graph.input_count, graph.single_output, effects, outputs, rows


def _sorted(node: graph_pb2.Node) -> list[graph_pb2.NamedArgument]:
    return sorted(node.kwargs, key=lambda item: item.name)


def _values(argument: graph_pb2.Argument) -> Iterator[graph_pb2.Argument]:
    kind = argument.WhichOneof("kind")
    if kind == "value":
        yield argument
    elif kind in ("list", "tuple"):
        for item in getattr(argument, kind).items:
            yield from _values(item)
    elif kind == "dictionary":
        for entry in sorted(argument.dictionary.items, key=lambda item: item.name):
            yield from _values(entry.value)


def normal_form(capture: graph_pb2.Capture) -> Any:
    """Equal for two captures that ask for one and the same compile, and only for these."""
    form = _NormalForm(capture)
    signature = [form.message(one) for one in capture.signature.inputs]
    signature += [form.message(one) for one in capture.signature.outputs]
    graph = form.graph(capture.graph)
    convention = form.message(capture.calling_convention)
    libraries = sorted((one.namespace, one.module, one.version) for one in capture.libraries)
    return len(capture.signature.inputs), signature, graph, convention, libraries


def leaves_of(message: Any) -> Iterator[tuple[Any, Any]]:
    """Each number, flag and text in a message: (what holds it, its field)."""
    for field, held in message.ListFields():
        if field.message_type is not None:
            for one in held if field.is_repeated else [held]:
                yield from leaves_of(one)
        elif not field.is_repeated:
            yield message, field


def insert_input(capture: graph_pb2.Capture, entry: graph_pb2.Input) -> None:
    """One more input, after all others."""
    graph = capture.graph
    for argument in arguments_of(graph):
        if argument.WhichOneof("kind") == "value" and argument.value >= graph.input_count:
            argument.value += 1
    graph.input_count += 1
    capture.signature.inputs.append(entry)


def insert_node(graph: graph_pb2.Graph, index: int, node: graph_pb2.Node) -> None:
    """One more call, before the one at ``index``, of which nobody takes the result yet."""
    for argument in arguments_of(graph):
        if argument.WhichOneof("kind") == "value" and argument.value >= graph.input_count + index:
            argument.value += 1
    graph.nodes.insert(index, node)
