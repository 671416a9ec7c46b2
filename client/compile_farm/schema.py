"""The closed schema's rules: what bytes count as a Capture, and what its names may be.

In: bytes from a stranger, or a Capture that this process built. Out: a Capture whose every
reference, name and number has been checked, or InvalidGraphError that says which one is wrong.
Needs no torch: the gateway checks with this, before it computes a key or wakes a worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from google.protobuf.message import DecodeError

from compile_farm.errors import InvalidGraphError
from compile_farm.v1 import graph_pb2

SCHEMA_VERSION = 1

# Bytes of an element. A dtype that is not here can't be sent.
DTYPE_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint16": 2, "uint32": 4, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
    "complex32": 4, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}  # fmt: skip
DEVICE_TYPES = frozenset({"cpu", "cuda"})
LAYOUTS = frozenset({"strided"})
MEMORY_FORMATS = frozenset(
    {"contiguous_format", "channels_last", "channels_last_3d", "preserve_format"}
)

MAX_NODES = 1_000_000
MAX_INPUTS = 100_000
MAX_RANK = 64
MAX_SUBGRAPH_DEPTH = 16
# Half of what protobuf's own parser allows, so that no reader recurses further than this.
MAX_EXPRESSION_DEPTH = 40
MAX_INTEGER = 2**62

_OP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}::[A-Za-z_][A-Za-z0-9_.]{0,255}")
_PYTHON_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")


def parse_capture(data: bytes) -> graph_pb2.Capture:
    """Reads and checks a serialised Capture; raises InvalidGraphError."""
    capture = graph_pb2.Capture()
    try:
        capture.ParseFromString(data)
    except DecodeError as error:
        raise InvalidGraphError(f"the capture is no valid protobuf message: {error}") from error
    size = capture.ByteSize()
    capture.DiscardUnknownFields()  # type: ignore[no-untyped-call]
    if capture.ByteSize() != size:
        # They would be missing from the key, so two different graphs could share one.
        raise InvalidGraphError(
            "the capture has fields that this version does not know",
            remedy="use a farm at least as new as the client",
        )
    check_capture(capture)
    return capture


# Far more than any model has.
MAX_MODULES = 200_000
MAX_SETTINGS = 2_000
MAX_TEXT = 4_000

_NAMESPACE = re.compile(r"[a-z_0-9]{1,100}")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_][A-Za-z_0-9]*){0,20}")
_VERSION = re.compile(r"[A-Za-z0-9.+!_\-]{1,100}")


def check_capture(capture: graph_pb2.Capture) -> None:
    """Checks every reference, name and number; raises InvalidGraphError."""
    graph, signature = capture.graph, capture.signature
    if graph.schema_version != SCHEMA_VERSION:
        raise InvalidGraphError(
            f"graph schema version {graph.schema_version} is not known",
            remedy=f"this version reads {SCHEMA_VERSION}",
        )
    _check_signature(signature)
    if graph.input_count != len(signature.inputs):
        raise InvalidGraphError(
            f"the graph takes {graph.input_count} inputs, the signature {len(signature.inputs)}"
        )
    if len(graph.outputs) != len(signature.outputs):
        raise InvalidGraphError(
            f"the graph gives {len(graph.outputs)} outputs, the signature {len(signature.outputs)}"
        )
    _check_graph(graph, len(signature.symbols), "graph", 0)
    _check_convention(capture.calling_convention, signature)
    check_libraries(capture.libraries)


def check_libraries(libraries: Sequence[graph_pb2.Library]) -> None:
    """Checks names and versions of libraries; raises InvalidGraphError."""
    seen: set[str] = set()
    for library in libraries:
        if not (
            _NAMESPACE.fullmatch(library.namespace)
            and _MODULE.fullmatch(library.module)
            and _VERSION.fullmatch(library.version)
        ):
            raise InvalidGraphError("a library has a name or version that is none")
        if library.namespace in seen:
            raise InvalidGraphError(f"two libraries have the namespace {library.namespace}")
        seen.add(library.namespace)


def check_interface(
    signature: graph_pb2.Signature, convention: graph_pb2.CallingConvention
) -> None:
    """Checks what a manifest keeps of a Capture; raises InvalidGraphError."""
    _check_signature(signature)
    _check_convention(convention, signature)


def _check_graph(graph: graph_pb2.Graph, symbols: int, where: str, depth: int) -> None:
    if depth > MAX_SUBGRAPH_DEPTH:
        raise InvalidGraphError(f"{where}: subgraphs nested over {MAX_SUBGRAPH_DEPTH} deep")
    if len(graph.nodes) > MAX_NODES or graph.input_count > MAX_INPUTS:
        raise InvalidGraphError(f"{where}: over {MAX_NODES} nodes or {MAX_INPUTS} inputs")
    known = graph.input_count
    subgraphs = len(graph.subgraphs)
    for index, node in enumerate(graph.nodes):
        place = f"{where}, node {index} ({node.op[:80]!r})"
        if not _OP_NAME.fullmatch(node.op):
            raise InvalidGraphError(f"{place}: not an operator's name")
        if node.effect not in (0, 1, 2, 3):
            raise InvalidGraphError(f"{place}: effect {node.effect} is not known")
        for argument in node.args:
            _check_argument(argument, known, subgraphs, symbols, place, 0)
        _check_names([item.name for item in node.kwargs], place)
        for item in node.kwargs:
            _check_argument(item.value, known, subgraphs, symbols, place, 0)
        known += 1
    for argument in graph.outputs:
        _check_argument(argument, known, subgraphs, symbols, f"{where}, outputs", 0)
    for index, subgraph in enumerate(graph.subgraphs):
        _check_graph(subgraph, symbols, f"{where}, subgraph {index}", depth + 1)


def _check_names(names: list[str], place: str) -> None:
    for name in names:
        if not _PYTHON_NAME.fullmatch(name):
            raise InvalidGraphError(f"{place}: {name[:80]!r} is no argument's name")
    if len(set(names)) != len(names):
        raise InvalidGraphError(f"{place}: an argument is named twice")


def _check_argument(
    argument: graph_pb2.Argument, known: int, subgraphs: int, symbols: int, place: str, depth: int
) -> None:
    kind = argument.WhichOneof("kind")
    if depth > MAX_EXPRESSION_DEPTH:
        raise InvalidGraphError(f"{place}: arguments nested over {MAX_EXPRESSION_DEPTH} deep")
    if kind is None:
        raise InvalidGraphError(f"{place}: an argument of a kind that this version does not know")
    if kind == "value" and argument.value >= known:
        raise InvalidGraphError(f"{place}: refers to value {argument.value}, which comes later")
    if kind == "subgraph" and argument.subgraph >= subgraphs:
        raise InvalidGraphError(f"{place}: refers to subgraph {argument.subgraph} of {subgraphs}")
    if kind in ("list", "tuple"):
        for item in getattr(argument, kind).items:
            _check_argument(item, known, subgraphs, symbols, place, depth + 1)
    elif kind == "dictionary":
        names = [item.name for item in argument.dictionary.items]
        if len(set(names)) != len(names):
            raise InvalidGraphError(f"{place}: a key of a dictionary stands there twice")
        for entry in argument.dictionary.items:
            _check_argument(entry.value, known, subgraphs, symbols, place, depth + 1)
    elif kind == "expression":
        _check_expression(argument.expression, symbols, place, 0)
    elif kind == "dtype":
        _check_member(argument.dtype, DTYPE_BYTES, "dtype", place)
    elif kind == "device_type":
        _check_member(argument.device_type, DEVICE_TYPES, "device type", place)
    elif kind == "layout":
        _check_member(argument.layout, LAYOUTS, "layout", place)
    elif kind == "memory_format":
        _check_member(argument.memory_format, MEMORY_FORMATS, "memory format", place)
    elif kind == "operator" and not _OP_NAME.fullmatch(argument.operator):
        raise InvalidGraphError(f"{place}: {argument.operator[:80]!r} is no operator's name")


def _check_member(name: str, allowed: Iterable[str], what: str, place: str) -> None:
    if name not in allowed:
        raise InvalidGraphError(f"{place}: {what} {name[:80]!r} is not supported")


def _check_expression(expr: graph_pb2.Expr, symbols: int, place: str, depth: int) -> None:
    kind = expr.WhichOneof("kind")
    if depth > MAX_EXPRESSION_DEPTH:
        raise InvalidGraphError(f"{place}: a size nested over {MAX_EXPRESSION_DEPTH} deep")
    if kind is None:
        raise InvalidGraphError(f"{place}: a size of a kind that this version does not know")
    if kind == "symbol" and expr.symbol >= symbols:
        raise InvalidGraphError(f"{place}: refers to symbol {expr.symbol} of {symbols}")
    if kind == "constant" and abs(expr.constant) > MAX_INTEGER:
        raise InvalidGraphError(f"{place}: the size {expr.constant} is out of range")
    if kind == "operation":
        operation = expr.operation
        if operation.operator not in range(1, 8):
            raise InvalidGraphError(f"{place}: operator {operation.operator} of a size is unknown")
        operands = len(operation.operands)
        if not 2 <= operands <= 1000 or (operation.operator in (3, 4, 7) and operands != 2):
            raise InvalidGraphError(f"{place}: a size's operator has {operands} operands")
        for operand in operation.operands:
            _check_expression(operand, symbols, place, depth + 1)


def _check_tensor(spec: graph_pb2.TensorSpec, symbols: int, place: str) -> None:
    _check_member(spec.dtype, DTYPE_BYTES, "dtype", place)
    _check_member(spec.device_type, DEVICE_TYPES, "device type", place)
    if len(spec.sizes) != len(spec.strides) or len(spec.sizes) > MAX_RANK:
        raise InvalidGraphError(
            f"{place}: {len(spec.sizes)} sizes and {len(spec.strides)} strides (at most {MAX_RANK})"
        )
    for expr in (*spec.sizes, *spec.strides):
        _check_expression(expr, symbols, place, 0)
        if expr.WhichOneof("kind") == "constant" and expr.constant < 0:
            raise InvalidGraphError(f"{place}: a size or stride of {expr.constant}")


def _check_signature(signature: graph_pb2.Signature) -> None:
    symbols = len(signature.symbols)
    if len(signature.inputs) > MAX_INPUTS or symbols > MAX_INPUTS:
        raise InvalidGraphError(f"over {MAX_INPUTS} inputs or symbols")
    for index, symbol in enumerate(signature.symbols):
        if symbol.HasField("maximum") and symbol.maximum < symbol.minimum:
            raise InvalidGraphError(
                f"symbol {index}: its range is {symbol.minimum} to {symbol.maximum}"
            )
        if abs(symbol.minimum) > MAX_INTEGER or abs(symbol.hint) > MAX_INTEGER:
            raise InvalidGraphError(f"symbol {index}: a bound is out of range")
    for index, entry in enumerate(signature.inputs):
        place = f"input {index} ({entry.name[:80]!r})"
        kind = entry.WhichOneof("kind")
        if kind == "tensor":
            _check_tensor(entry.tensor, symbols, place)
        elif kind == "scalar":
            _check_expression(entry.scalar, symbols, place, 0)
        else:
            raise InvalidGraphError(f"{place}: neither a tensor nor a number")
        if entry.role not in (1, 2, 3, 4):
            raise InvalidGraphError(f"{place}: role {entry.role} is not known")
        if entry.data:
            _check_data(entry, place)
    for index, output in enumerate(signature.outputs):
        place = f"output {index}"
        kind = output.WhichOneof("kind")
        if kind == "tensor":
            _check_tensor(output.tensor, symbols, place)
        elif kind == "scalar":
            _check_expression(output.scalar, symbols, place, 0)
        elif kind != "none":
            raise InvalidGraphError(f"{place}: of a kind that this version does not know")


def _check_data(entry: graph_pb2.Input, place: str) -> None:
    if entry.role != graph_pb2.ROLE_CONSTANT or entry.WhichOneof("kind") != "tensor":
        raise InvalidGraphError(f"{place}: only constants travel with their bytes")
    elements = DTYPE_BYTES[entry.tensor.dtype]
    for expr in entry.tensor.sizes:
        if expr.WhichOneof("kind") != "constant":
            raise InvalidGraphError(f"{place}: a constant has a symbolic size")
        elements *= expr.constant
    if elements != len(entry.data):
        raise InvalidGraphError(f"{place}: {len(entry.data)} bytes where {elements} belong")


def _check_convention(
    convention: graph_pb2.CallingConvention, signature: graph_pb2.Signature
) -> None:
    for name in ("args", "kwargs", "result"):
        if convention.HasField(name):  # type: ignore[arg-type]
            _check_tree(getattr(convention, name), signature, f"calling convention, {name}", 0)
    if convention.parameters:
        _check_names(list(convention.parameters), "calling convention")
    if len(convention.modules) > MAX_MODULES:
        raise InvalidGraphError(f"{len(convention.modules)} modules; at most {MAX_MODULES}")
    for state in convention.modules:
        texts = [state.path, state.type_name, *(one.name for one in state.settings)]
        texts += [one.value.text for one in state.settings]
        if len(state.settings) > MAX_SETTINGS or any(len(text) > MAX_TEXT for text in texts):
            raise InvalidGraphError("a module has too many settings, or too long ones")


def _check_tree(
    tree: graph_pb2.Tree, signature: graph_pb2.Signature, place: str, depth: int
) -> None:
    kind = tree.WhichOneof("kind")
    if depth > MAX_EXPRESSION_DEPTH:
        raise InvalidGraphError(f"{place}: containers nested over {MAX_EXPRESSION_DEPTH} deep")
    if kind == "container":
        container = tree.container
        if container.kind not in range(1, 7):
            raise InvalidGraphError(f"{place}: container kind {container.kind} is not known")
        keyed = container.kind in (graph_pb2.CONTAINER_KIND_DICT, graph_pb2.CONTAINER_KIND_RECORD)
        if keyed and len(container.keys) != len(container.children):
            raise InvalidGraphError(f"{place}: a container's keys and children differ in number")
        for child in container.children:
            _check_tree(child, signature, place, depth + 1)
        return
    if kind != "leaf":
        raise InvalidGraphError(f"{place}: a part of a kind that this version does not know")
    leaf = tree.leaf
    which = leaf.WhichOneof("kind")
    if which == "alias":
        if leaf.alias.input >= len(signature.inputs):
            raise InvalidGraphError(f"{place}: refers to input {leaf.alias.input}")
        for expr in (*leaf.alias.sizes, *leaf.alias.strides):
            _check_expression(expr, len(signature.symbols), place, 0)
        if leaf.alias.dtype:
            _check_member(leaf.alias.dtype, DTYPE_BYTES, "dtype", place)
    elif which == "input" and leaf.input >= len(signature.inputs):
        raise InvalidGraphError(f"{place}: refers to input {leaf.input}")
    elif which == "output" and leaf.output >= len(signature.outputs):
        raise InvalidGraphError(f"{place}: refers to output {leaf.output}")
    elif which is None:
        raise InvalidGraphError(f"{place}: a leaf of a kind that this version does not know")
