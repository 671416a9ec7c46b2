"""The closed schema's rules: what bytes count as a Capture, and what its names may be.

In: bytes from a stranger, or a Capture that this process built. Out: a Capture whose every
reference, name and number has been checked, or InvalidGraphError that says which one is wrong.
Needs no torch: the gateway checks with this, before it computes a key or wakes a worker.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence

from google.protobuf.message import DecodeError

from compile_farm.errors import InvalidGraphError
from compile_farm.limits import (
    MAX_ARGUMENTS,
    MAX_DEPTH,
    MAX_INPUTS,
    MAX_ITEMS,
    MAX_LIBRARIES,
    MAX_LONG_TEXT,
    MAX_NODES,
    MAX_SUBGRAPHS,
    MAX_TEXT,
)
from compile_farm.limits import MAX_INTEGER as MAX_INTEGER
from compile_farm.limits import MAX_SUBGRAPH_DEPTH as MAX_SUBGRAPH_DEPTH
from compile_farm.schema_convention import check_convention
from compile_farm.schema_signature import DEVICE_TYPES as DEVICE_TYPES
from compile_farm.schema_signature import DTYPE_BYTES as DTYPE_BYTES
from compile_farm.schema_signature import check_expression, check_member, check_signature
from compile_farm.v1 import graph_pb2
from compile_farm.wire import TooManyPartsError, check_parts

SCHEMA_VERSION = 1

LAYOUTS = frozenset({"strided"})
MEMORY_FORMATS = frozenset(
    {"contiguous_format", "channels_last", "channels_last_3d", "preserve_format"}
)

_OP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}::[A-Za-z_][A-Za-z0-9_.]{0,255}")
_PYTHON_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_NAMESPACE = re.compile(r"[a-z_0-9]{1,100}")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_][A-Za-z_0-9]*){0,20}")
_VERSION = re.compile(r"[A-Za-z0-9.+!_\-]{1,100}")


def parse_capture(data: bytes) -> graph_pb2.Capture:
    """Reads and checks a serialised Capture; raises InvalidGraphError."""
    capture = graph_pb2.Capture()
    try:
        check_parts(data, graph_pb2.Capture.DESCRIPTOR)
        capture.ParseFromString(data)
    except TooManyPartsError as error:
        raise InvalidGraphError(
            f"the capture is too large: {error}", remedy="compile a part of the model"
        ) from error
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


def check_capture(capture: graph_pb2.Capture) -> None:
    """Checks every reference, name and number; raises InvalidGraphError."""
    graph, signature = capture.graph, capture.signature
    if graph.schema_version != SCHEMA_VERSION:
        raise InvalidGraphError(
            f"graph schema version {graph.schema_version} is not known",
            remedy=f"this version reads {SCHEMA_VERSION}",
        )
    check_signature(signature)
    if graph.input_count != len(signature.inputs):
        raise InvalidGraphError(
            f"the graph takes {graph.input_count} inputs, the signature {len(signature.inputs)}"
        )
    if len(graph.outputs) != len(signature.outputs):
        raise InvalidGraphError(
            f"the graph gives {len(graph.outputs)} outputs, the signature {len(signature.outputs)}"
        )
    for index, (output, argument) in enumerate(zip(signature.outputs, graph.outputs, strict=True)):
        if output.WhichOneof("kind") == "tensor" and argument.WhichOneof("kind") != "value":
            raise InvalidGraphError(f"output {index}: a tensor that no call makes")
    _Graphs(len(signature.symbols)).check(graph, "graph", 0)
    _check_convention(capture.calling_convention, signature)
    check_libraries(capture.libraries)


def check_libraries(libraries: Sequence[graph_pb2.Library]) -> None:
    """Checks names and versions of libraries; raises InvalidGraphError."""
    if len(libraries) > MAX_LIBRARIES:
        raise InvalidGraphError(f"{len(libraries)} libraries; at most {MAX_LIBRARIES}")
    seen: set[str] = set()
    for library in libraries:
        if not (
            _NAMESPACE.fullmatch(library.namespace)
            and len(library.module) <= MAX_TEXT
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
    check_signature(signature)
    _check_convention(convention, signature)


def _check_convention(
    convention: graph_pb2.CallingConvention, signature: graph_pb2.Signature
) -> None:
    check_convention(convention, signature)
    if len(convention.parameters) > MAX_ITEMS:
        raise InvalidGraphError(f"over {MAX_ITEMS} parameters")
    _check_names(convention.parameters, "calling convention")


def _check_operator(name: str, place: str) -> None:
    if not _OP_NAME.fullmatch(name):
        raise InvalidGraphError(f"{place}: {name[:80]!r} is not an operator's name")
    # fx writes calls down as Python, where "torch.ops.aten.random.from" is none.
    if any(map(keyword.iskeyword, name.replace("::", ".").split("."))):
        raise InvalidGraphError(f"{place}: {name[:80]!r} is an operator that fx can't write down")


def _check_names(names: Iterable[str], place: str) -> None:
    seen: set[str] = set()
    for name in names:
        # What is no name in Python can't stand in a call, which is how fx writes a graph down.
        if not _PYTHON_NAME.fullmatch(name) or keyword.iskeyword(name) or name == "__debug__":
            raise InvalidGraphError(f"{place}: {name[:80]!r} is no argument's name")
        if name in seen:
            raise InvalidGraphError(f"{place}: the argument {name[:80]!r} is named twice")
        seen.add(name)


class _Graphs:
    """Checks a graph and all that are in it, and counts over them together."""

    def __init__(self, symbols: int) -> None:
        self._symbols = symbols
        self._nodes = 0
        self._graphs = 0
        self._arguments = 0

    def check(self, graph: graph_pb2.Graph, where: str, depth: int) -> None:
        if depth > MAX_SUBGRAPH_DEPTH:
            raise InvalidGraphError(f"{where}: subgraphs nested over {MAX_SUBGRAPH_DEPTH} deep")
        self._count(graph, where, depth)
        if graph.single_output and len(graph.outputs) != 1:
            raise InvalidGraphError(f"{where}: {len(graph.outputs)} outputs where one belongs")
        known, subgraphs = graph.input_count, len(graph.subgraphs)
        for index, node in enumerate(graph.nodes):
            place = f"{where}, node {index} ({node.op[:80]!r})"
            _check_operator(node.op, place)
            if node.effect not in (0, 1, 2, 3):
                raise InvalidGraphError(f"{place}: effect {node.effect} is not known")
            for argument in node.args:
                self._argument(argument, known, subgraphs, place, 0)
            if node.kwargs:
                self._check_count(len(node.kwargs), place)
                _check_names((item.name for item in node.kwargs), place)
            for item in node.kwargs:
                self._argument(item.value, known, subgraphs, place, 0)
            known += 1
        for argument in graph.outputs:
            # A graph is no value, so none can be a result.
            self._argument(argument, known, 0, f"{where}, outputs", 0)
        for index, subgraph in enumerate(graph.subgraphs):
            self.check(subgraph, f"{where}, subgraph {index}", depth + 1)

    def _count(self, graph: graph_pb2.Graph, where: str, depth: int) -> None:
        inputs = graph.input_count
        self._graphs += 1
        self._nodes += len(graph.nodes) + (inputs if depth else 0)
        if inputs > MAX_INPUTS or len(graph.outputs) > MAX_INPUTS:
            raise InvalidGraphError(f"{where}: over {MAX_INPUTS} inputs or outputs")
        if self._nodes > MAX_NODES or self._graphs > MAX_SUBGRAPHS:
            raise InvalidGraphError(
                f"{where}: over {MAX_NODES} calls or {MAX_SUBGRAPHS} subgraphs in all",
                remedy="compile a part of the model",
            )

    def _check_count(self, items: int, place: str) -> None:
        if items > MAX_ITEMS:
            raise InvalidGraphError(f"{place}: {items} items; at most {MAX_ITEMS}")

    def _argument(
        self, argument: graph_pb2.Argument, known: int, subgraphs: int, place: str, depth: int
    ) -> None:
        kind = argument.WhichOneof("kind")
        self._arguments += 1
        if self._arguments > MAX_ARGUMENTS:
            raise InvalidGraphError(f"{place}: over {MAX_ARGUMENTS} arguments in all")
        if depth > MAX_DEPTH:
            raise InvalidGraphError(f"{place}: arguments nested over {MAX_DEPTH} deep")
        if kind is None:
            raise InvalidGraphError(
                f"{place}: an argument of a kind that this version does not know"
            )
        if kind == "value":
            if argument.value >= known:
                raise InvalidGraphError(
                    f"{place}: refers to value {argument.value}, which comes later"
                )
        elif kind in ("list", "tuple"):
            items = getattr(argument, kind).items
            self._check_count(len(items), place)
            for item in items:
                self._argument(item, known, subgraphs, place, depth + 1)
        elif kind == "dictionary":
            self._dictionary(argument.dictionary, known, subgraphs, place, depth)
        elif kind == "subgraph":
            if argument.subgraph >= subgraphs:
                raise InvalidGraphError(
                    f"{place}: refers to subgraph {argument.subgraph} of {subgraphs}"
                )
        elif kind == "expression":
            check_expression(argument.expression, self._symbols, place, depth)
        else:
            _check_name_or_text(argument, kind, place)

    def _dictionary(
        self,
        dictionary: graph_pb2.ArgumentDictionary,
        known: int,
        subgraphs: int,
        place: str,
        depth: int,
    ) -> None:
        self._check_count(len(dictionary.items), place)
        seen: set[str] = set()
        for entry in dictionary.items:
            if len(entry.name) > MAX_TEXT:
                raise InvalidGraphError(f"{place}: a key of {len(entry.name)} characters")
            if entry.name in seen:
                raise InvalidGraphError(f"{place}: a key of a dictionary stands there twice")
            seen.add(entry.name)
            self._argument(entry.value, known, subgraphs, place, depth + 1)


def _check_name_or_text(argument: graph_pb2.Argument, kind: str, place: str) -> None:
    if kind == "dtype":
        check_member(argument.dtype, DTYPE_BYTES, "dtype", place)
    elif kind == "device_type":
        check_member(argument.device_type, DEVICE_TYPES, "device type", place)
    elif kind == "layout":
        check_member(argument.layout, LAYOUTS, "layout", place)
    elif kind == "memory_format":
        check_member(argument.memory_format, MEMORY_FORMATS, "memory format", place)
    elif kind == "operator":
        _check_operator(argument.operator, place)
        if argument.operator.startswith(("python::", "higher_order::")):
            # fx can't write them down in every place, and no capture has them.
            raise InvalidGraphError(f"{place}: {argument.operator[:80]} as an argument")
    elif kind == "text" and len(argument.text) > MAX_LONG_TEXT:
        raise InvalidGraphError(f"{place}: a text of {len(argument.text)} characters")
