"""The key: SHA-256 over the digests of what decides a compile, each kept apart so that a miss can
be explained.

In: a checked Capture, a Target and Options. Out: KeyComponents and 64 hexadecimal digits. Needs no
torch, since the gateway recomputes it.

The graph's digest is a Merkle hash: a value's digest covers its operator and its arguments'
digests, so neither names nor the order of independent nodes move it. Calls with an effect (writes,
random draws, assertions) carry their place among each other, and every call carries how many writes
came before it: a read before a write and a read after it are two graphs. Two equal calls are two
values. Hints, value ranges and node names never enter. docs/keys.md has it byte for byte.

Change what enters a digest, and KEY_VERSION must change: the golden test fails until it does.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from compile_farm.v1 import artifact_pb2, graph_pb2, target_pb2

# 2: modules and libraries entered; artifacts of 1 divided floats by their rounded quotient.
KEY_VERSION = 2

# sympy orders their operands by the symbols' names, which differ between captures.
_COMMUTATIVE = frozenset(
    {
        graph_pb2.OPERATOR_ADD,
        graph_pb2.OPERATOR_MULTIPLY,
        graph_pb2.OPERATOR_MINIMUM,
        graph_pb2.OPERATOR_MAXIMUM,
    }
)


def compute_key(
    capture: graph_pb2.Capture, target: target_pb2.Target, options: target_pb2.Options
) -> str:
    """The key in 64 hexadecimal digits. ``capture`` must have passed schema.check_capture."""
    return key_of(key_components(capture, target, options))


def key_of(components: artifact_pb2.KeyComponents) -> str:
    """The key of these components."""
    return _hash(
        b"compile-farm key",
        components.version.to_bytes(4, "big"),
        *(
            bytes.fromhex(digest)
            for digest in (
                components.graph,
                components.signature,
                components.calling_convention,
                components.target,
                components.options,
            )
        ),
    ).hex()


def key_components(
    capture: graph_pb2.Capture, target: target_pb2.Target, options: target_pb2.Options
) -> artifact_pb2.KeyComponents:
    """One digest for each thing that decides a compile."""
    symbols = _Symbols(capture.signature)
    # The signature first: symbols are numbered by where they first stand in it.
    signature = _signature(capture.signature, symbols)
    return artifact_pb2.KeyComponents(
        version=KEY_VERSION,
        graph=_with_libraries(_graph(capture.graph, symbols), capture.libraries).hex(),
        signature=signature.hex(),
        calling_convention=_convention(capture.calling_convention, symbols).hex(),
        target=_target(target).hex(),
        options=_hash(b"options", _integer(options.effort), _integer(options.numerics)).hex(),
    )


def _hash(*parts: bytes) -> bytes:
    """Each part with its length before it, so that no two lists of parts read alike."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _text(value: str) -> bytes:
    return b"s" + value.encode()


def _integer(value: int) -> bytes:
    return b"i%d" % value


def _real(value: float) -> bytes:
    # One NaN for all; minus zero stays itself.
    return b"f" + (b"nan" if math.isnan(value) else struct.pack(">d", value))


class _Symbols:
    """Numbers symbols by first use, since their own numbers depend on how they were captured."""

    def __init__(self, signature: graph_pb2.Signature) -> None:
        self._symbols = signature.symbols
        self._canonical: dict[int, int] = {}

    def encode(self, expr: graph_pb2.Expr) -> bytes:
        kind = expr.WhichOneof("kind")
        if kind == "constant":
            return _integer(expr.constant)
        if kind == "operation":
            operation = expr.operation
            operands = [self.encode(operand) for operand in operation.operands]
            if operation.operator in _COMMUTATIVE:
                operands.sort()
            return _hash(b"operation", _integer(operation.operator), *operands)
        first = expr.symbol not in self._canonical
        number = self._canonical.setdefault(expr.symbol, len(self._canonical))
        if not first:
            return b"y%d" % number
        symbol = self._symbols[expr.symbol]
        return _hash(
            b"symbol",
            _integer(number),
            _integer(symbol.minimum),
            _integer(symbol.maximum) if symbol.HasField("maximum") else b"unbounded",
            b"unbacked" if symbol.unbacked else b"backed",
        )


def _tensor(spec: graph_pb2.TensorSpec, symbols: _Symbols) -> bytes:
    return _hash(
        b"tensor",
        _text(spec.dtype),
        _text(spec.device_type),
        *(symbols.encode(expr) for expr in spec.sizes),
        *(symbols.encode(expr) for expr in spec.strides),
    )


def _signature(signature: graph_pb2.Signature, symbols: _Symbols) -> bytes:
    parts = [b"signature", _integer(len(signature.inputs))]
    for entry in signature.inputs:
        value = (
            _tensor(entry.tensor, symbols)
            if entry.WhichOneof("kind") == "tensor"
            else _hash(b"scalar", symbols.encode(entry.scalar))
        )
        data = hashlib.sha256(entry.data).digest() if entry.data else b""
        parts.append(
            _hash(
                _text(entry.name),
                _integer(entry.role),
                value,
                b"mutated" if entry.mutated else b"",
                data,
            )
        )
    for output in signature.outputs:
        kind = output.WhichOneof("kind")
        if kind == "tensor":
            parts.append(_tensor(output.tensor, symbols))
        elif kind == "scalar":
            parts.append(_hash(b"scalar", symbols.encode(output.scalar)))
        else:
            parts.append(b"none")
    return _hash(*parts)


def _graph(graph: graph_pb2.Graph, symbols: _Symbols) -> bytes:
    return _Graph(graph, symbols).digest()


class _Graph:
    """The digest of one graph.

    Values are visited from what the graph does, effects first and then outputs, each after its own
    arguments. So what nobody uses is never met, and nothing hangs on the order of the nodes: not
    which of two equal calls is the first, nor which symbol of no input is.
    """

    def __init__(self, graph: graph_pb2.Graph, symbols: _Symbols) -> None:
        self._message = graph
        self._symbols = symbols
        inputs = [_hash(b"input", _integer(index)) for index in range(graph.input_count)]
        self._values: list[bytes | None] = [*inputs, *(None for _ in graph.nodes)]
        self._subgraphs: dict[int, bytes] = {}
        self._equals: dict[bytes, int] = {}
        # Of each node: how many writes and how many effects come before it.
        self._before: list[tuple[int, int]] = []
        writes = effects = 0
        for node in graph.nodes:
            self._before.append((writes, effects))
            writes += node.effect == graph_pb2.EFFECT_MUTATES
            effects += node.effect != graph_pb2.EFFECT_NONE

    def digest(self) -> bytes:
        graph = self._message
        effects = [
            self._value(graph.input_count + index)
            for index, node in enumerate(graph.nodes)
            if node.effect != graph_pb2.EFFECT_NONE
        ]
        outputs = []
        for argument in graph.outputs:
            for value in _references(argument):
                self._value(value)
            outputs.append(self._argument(argument))
        return _hash(
            b"graph",
            _integer(graph.schema_version),
            _integer(graph.input_count),
            b"single" if graph.single_output else b"several",
            _hash(*outputs),
            _hash(*effects),
        )

    def _value(self, wanted: int) -> bytes:
        """That value's digest. A chain of thousands of calls needs no recursion."""
        waiting = [wanted]
        while (digest := self._values[wanted]) is None:
            value = waiting[-1]
            if self._values[value] is not None:
                waiting.pop()
                continue
            index = value - self._message.input_count
            missing = [
                one
                for argument in _arguments(self._message.nodes[index])
                for one in _references(argument)
                if self._values[one] is None
            ]
            if missing:
                waiting += reversed(missing)
            else:
                self._values[value] = self._node(index)
        return digest

    def _node(self, index: int) -> bytes:
        node = self._message.nodes[index]
        writes, effects = self._before[index]
        parts = [b"node", _text(node.op), _integer(writes), _integer(node.effect)]
        if node.effect != graph_pb2.EFFECT_NONE:
            parts.append(_integer(effects))
        parts.append(_hash(*map(self._argument, node.args)))
        parts.append(_hash(*self._named(node.kwargs)))
        digest = _hash(*parts)
        # Two calls of zeros() are two tensors, and a write to one of them leaves the other alone.
        equals = self._equals.get(digest, 0)
        self._equals[digest] = equals + 1
        return _hash(b"again", digest, _integer(equals)) if equals else digest

    def _argument(self, argument: graph_pb2.Argument) -> bytes:
        kind = argument.WhichOneof("kind")
        value: Any = getattr(argument, kind) if kind else None
        if kind == "value":
            digest = self._values[argument.value]
            assert digest is not None  # _value has visited what this call holds
            return b"v" + digest
        if kind == "integer":
            return _integer(argument.integer)
        if kind == "real":
            return _real(argument.real)
        if kind == "boolean":
            return b"true" if argument.boolean else b"false"
        if kind in ("list", "tuple"):
            return _hash(kind.encode(), *map(self._argument, value.items))
        if kind == "dictionary":
            return _hash(b"dictionary", *self._named(argument.dictionary.items))
        if kind == "subgraph":
            return b"g" + self._subgraph(argument.subgraph)
        if kind == "complex":
            return _hash(b"complex", _real(value.real), _real(value.imaginary))
        if kind == "expression":
            return _hash(b"expression", self._symbols.encode(argument.expression))
        if kind == "none" or kind is None:
            return b"none"
        # What is left is text: dtype, device_type, layout, memory_format, operator, text.
        return _hash(kind.encode(), _text(value))

    def _named(self, items: Iterable[graph_pb2.NamedArgument]) -> list[bytes]:
        return [
            _hash(_text(item.name), self._argument(item.value))
            for item in sorted(items, key=_name_of)
        ]

    def _subgraph(self, index: int) -> bytes:
        if index not in self._subgraphs:
            self._subgraphs[index] = _graph(self._message.subgraphs[index], self._symbols)
        return self._subgraphs[index]


def _name_of(item: graph_pb2.NamedArgument) -> str:
    return item.name


def _arguments(node: graph_pb2.Node) -> Iterator[graph_pb2.Argument]:
    """In the order in which they enter the digest."""
    yield from node.args
    yield from (item.value for item in sorted(node.kwargs, key=_name_of))


def _references(argument: graph_pb2.Argument) -> Iterator[int]:
    """The values that an argument holds, in the order in which they enter the digest."""
    kind = argument.WhichOneof("kind")
    if kind == "value":
        yield argument.value
    elif kind in ("list", "tuple"):
        for item in getattr(argument, kind).items:
            yield from _references(item)
    elif kind == "dictionary":
        for entry in sorted(argument.dictionary.items, key=_name_of):
            yield from _references(entry.value)


def _with_libraries(graph: bytes, libraries: Iterable[graph_pb2.Library]) -> bytes:
    """A graph that calls operators of libraries is another one with each of their versions."""
    named = [_hash(*map(_text, (one.namespace, one.module, one.version))) for one in libraries]
    return _hash(b"libraries", graph, *sorted(named)) if named else graph


def _literal(literal: graph_pb2.Literal) -> bytes:
    kind = literal.WhichOneof("kind")
    if kind == "boolean":
        return b"true" if literal.boolean else b"false"
    if kind == "integer":
        return _integer(literal.integer)
    if kind == "real":
        return _real(literal.real)
    return _text(literal.text) if kind == "text" else b"none"


def _tree(tree: graph_pb2.Tree, symbols: _Symbols) -> bytes:
    if tree.WhichOneof("kind") == "container":
        container = tree.container
        return _hash(
            b"container",
            _integer(container.kind),
            _text(container.type_name),
            _hash(*map(_literal, container.keys)),
            *(_tree(child, symbols) for child in container.children),
        )
    leaf = tree.leaf
    kind = leaf.WhichOneof("kind")
    if kind == "alias":
        alias = leaf.alias
        return _hash(
            b"alias",
            _integer(alias.input),
            b"identity" if alias.identity else b"view",
            _text(alias.dtype),
            _hash(*(symbols.encode(expr) for expr in alias.sizes)),
            _hash(*(symbols.encode(expr) for expr in alias.strides)),
            symbols.encode(alias.storage_offset) if alias.HasField("storage_offset") else b"",
        )
    if kind == "literal":
        return _hash(b"literal", _literal(leaf.literal))
    return _hash(kind.encode() if kind else b"", _integer(getattr(leaf, kind) if kind else 0))


def _convention(convention: graph_pb2.CallingConvention, symbols: _Symbols) -> bytes:
    trees = [
        _tree(getattr(convention, name), symbols) if convention.HasField(name) else b"absent"  # type: ignore[arg-type]
        for name in ("args", "kwargs", "result")
    ]
    modules = [
        _hash(
            b"module",
            _text(state.path),
            _text(state.type_name),
            b"train" if state.training else b"eval",
            *(_hash(_text(one.name), _literal(one.value)) for one in state.settings),
        )
        for state in convention.modules
    ]
    # Only where there are some, so that every other model keeps its key.
    subclasses = [
        _hash(
            b"subclass",
            _text(each.path),
            _text(each.type_name),
            *(_hash(_text(one.name), _literal(one.value)) for one in each.settings),
        )
        for each in convention.subclasses
    ]
    names = map(_text, convention.parameters)
    return _hash(b"convention", *names, *trees, *modules, *subclasses)


def _target(target: target_pb2.Target) -> bytes:
    toolchain = target.toolchain
    hardware = target.WhichOneof("hardware")
    if hardware == "cuda":
        parts = [b"cuda", _text(target.cuda.arch), _text(target.cuda.device_name)]
    elif hardware == "cpu":
        parts = [b"cpu", _text(target.cpu.isa)]
    else:
        parts = [b"none"]
    return _hash(
        b"target",
        *parts,
        _text(toolchain.torch),
        _text(toolchain.torch_git),
        _text(toolchain.triton),
        _text(toolchain.cuda_runtime),
        _text(toolchain.platform),
    )
