"""The schema's rules for sizes, tensors and signatures.

In: a Signature, or a part of one, from a stranger. Out: nothing, or InvalidGraphError that says
what is wrong and where. What passes here can be evaluated, solved and allocated in bounded time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from compile_farm.errors import InvalidGraphError
from compile_farm.limits import (
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_EXPRESSION_BITS,
    MAX_EXPRESSION_NODES,
    MAX_INPUTS,
    MAX_INTEGER,
    MAX_RANK,
    MAX_SYMBOLS,
    MAX_TENSOR_BYTES,
    MAX_TEXT,
)
from compile_farm.v1 import graph_pb2

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

# Any symbol's value has so many bits.
_SYMBOL_BITS = 63


def check_member(name: str, allowed: Iterable[str], what: str, place: str) -> None:
    """Raises InvalidGraphError for a name that the schema does not have."""
    if name not in allowed:
        raise InvalidGraphError(f"{place}: {what} {name[:80]!r} is not supported")


def check_signature(signature: graph_pb2.Signature) -> None:
    """Raises InvalidGraphError."""
    symbols = len(signature.symbols)
    if symbols > MAX_SYMBOLS:
        raise InvalidGraphError(
            f"{symbols} symbolic sizes; at most {MAX_SYMBOLS}", remedy="make dimensions static"
        )
    for what, entries in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        if len(entries) > MAX_INPUTS:  # type: ignore[arg-type]
            raise InvalidGraphError(f"{len(entries)} {what}; at most {MAX_INPUTS}")  # type: ignore[arg-type]
    for index, symbol in enumerate(signature.symbols):
        _check_symbol(symbol, f"symbol {index}")
    for index, entry in enumerate(signature.inputs):
        _check_input(entry, symbols, f"input {index} ({entry.name[:80]!r})")
    for index, output in enumerate(signature.outputs):
        place = f"output {index}"
        kind = output.WhichOneof("kind")
        if kind == "tensor":
            _check_tensor(output.tensor, symbols, place)
        elif kind == "scalar":
            check_expression(output.scalar, symbols, place)
        elif kind != "none":
            raise InvalidGraphError(f"{place}: of a kind that this version does not know")


def check_expression(expr: graph_pb2.Expr, symbols: int, place: str, depth: int = 0) -> None:
    """Raises InvalidGraphError unless it can be evaluated for any value of the symbols, but for a
    division by zero. ``depth``: how deep it stands already."""
    _Expression(symbols, place).bits(expr, depth)


class _Expression:
    def __init__(self, symbols: int, place: str) -> None:
        self._symbols = symbols
        self._place = place
        self._nodes = 0

    def bits(self, expr: graph_pb2.Expr, depth: int) -> int:
        """An upper bound of the length of its value."""
        kind = expr.WhichOneof("kind")
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise self._error(f"a size nested over {MAX_DEPTH} deep")
        if self._nodes > MAX_EXPRESSION_NODES:
            raise self._error(f"a size of over {MAX_EXPRESSION_NODES} parts")
        if kind == "constant":
            if abs(expr.constant) > MAX_INTEGER:
                raise self._error(f"the size {expr.constant} is out of range")
            return max(expr.constant.bit_length(), 1)
        if kind == "symbol":
            if expr.symbol >= self._symbols:
                raise self._error(f"refers to symbol {expr.symbol} of {self._symbols}")
            return _SYMBOL_BITS
        if kind == "operation":
            bits = self._operation(expr.operation, depth)
            if bits > MAX_EXPRESSION_BITS:
                raise self._error(f"a size that may have over {MAX_EXPRESSION_BITS} bits")
            return bits
        raise self._error("a size of a kind that this version does not know")

    def _operation(self, operation: graph_pb2.Operation, depth: int) -> int:
        operator, operands = operation.operator, operation.operands
        if operator not in range(1, 8):
            raise self._error(f"operator {operator} of a size is unknown")
        count = len(operands)
        binary = operator in (
            graph_pb2.OPERATOR_FLOOR_DIVIDE,
            graph_pb2.OPERATOR_MODULO,
            graph_pb2.OPERATOR_POWER,
        )
        if not 2 <= count <= MAX_EXPRESSION_NODES or (binary and count != 2):
            raise self._error(f"a size's operator has {count} operands")
        if operator == graph_pb2.OPERATOR_POWER:
            exponent = operands[1]
            # A number raised to itself a few times takes longer to compute than anyone waits.
            if exponent.WhichOneof("kind") != "constant" or not (
                0 <= exponent.constant <= MAX_EXPONENT
            ):
                raise self._error(f"a size has an exponent that is no number up to {MAX_EXPONENT}")
            return self.bits(operands[0], depth + 1) * max(exponent.constant, 1)
        lengths = [self.bits(operand, depth + 1) for operand in operands]
        if operator == graph_pb2.OPERATOR_MULTIPLY:
            return sum(lengths)
        return max(lengths) + (count.bit_length() if operator == graph_pb2.OPERATOR_ADD else 1)

    def _error(self, text: str) -> InvalidGraphError:
        return InvalidGraphError(f"{self._place}: {text}")


def check_sizes(
    sizes: Sequence[graph_pb2.Expr],
    strides: Sequence[graph_pb2.Expr],
    symbols: int,
    place: str,
    depth: int = 0,
) -> None:
    """Raises InvalidGraphError unless they are a tensor's sizes and strides."""
    if len(sizes) != len(strides) or len(sizes) > MAX_RANK:
        raise InvalidGraphError(
            f"{place}: {len(sizes)} sizes and {len(strides)} strides (at most {MAX_RANK})"
        )
    for exprs in (sizes, strides):
        for expr in exprs:
            check_expression(expr, symbols, place, depth)
            if expr.WhichOneof("kind") == "constant" and expr.constant < 0:
                raise InvalidGraphError(f"{place}: a size or stride of {expr.constant}")


def _check_symbol(symbol: graph_pb2.Symbol, place: str) -> None:
    if symbol.HasField("maximum") and symbol.maximum < symbol.minimum:
        raise InvalidGraphError(f"{place}: its range is {symbol.minimum} to {symbol.maximum}")
    for bound in (symbol.minimum, symbol.maximum, symbol.hint):
        if abs(bound) > MAX_INTEGER:
            raise InvalidGraphError(f"{place}: a bound is out of range")


def _check_input(entry: graph_pb2.Input, symbols: int, place: str) -> None:
    if len(entry.name) > MAX_TEXT:
        raise InvalidGraphError(f"{place}: a name of {len(entry.name)} characters")
    kind = entry.WhichOneof("kind")
    if kind == "tensor":
        _check_tensor(entry.tensor, symbols, place)
    elif kind == "scalar":
        check_expression(entry.scalar, symbols, place)
    else:
        raise InvalidGraphError(f"{place}: neither a tensor nor a number")
    if entry.role not in (1, 2, 3, 4):
        raise InvalidGraphError(f"{place}: role {entry.role} is not known")
    if entry.data:
        _check_data(entry, place)


def _check_tensor(spec: graph_pb2.TensorSpec, symbols: int, place: str) -> None:
    check_member(spec.dtype, DTYPE_BYTES, "dtype", place)
    check_member(spec.device_type, DEVICE_TYPES, "device type", place)
    check_sizes(spec.sizes, spec.strides, symbols, place)
    # Of the dimensions that are numbers; those that are symbols make it only larger. An empty
    # tensor's other dimensions are multiplied as well, by torch too.
    elements, reach = 1, 1
    for size, stride in zip(spec.sizes, spec.strides, strict=True):
        if size.WhichOneof("kind") == "constant":
            elements *= max(size.constant, 1)
            if stride.WhichOneof("kind") == "constant":
                reach += max(size.constant - 1, 0) * stride.constant
    if max(elements, reach) * DTYPE_BYTES[spec.dtype] > MAX_TENSOR_BYTES:
        raise InvalidGraphError(f"{place}: a tensor of over {MAX_TENSOR_BYTES} bytes")


def _check_data(entry: graph_pb2.Input, place: str) -> None:
    if entry.role != graph_pb2.ROLE_CONSTANT or entry.WhichOneof("kind") != "tensor":
        raise InvalidGraphError(f"{place}: only constants travel with their bytes")
    sizes, strides = entry.tensor.sizes, entry.tensor.strides
    for expr in (*sizes, *strides):
        if expr.WhichOneof("kind") != "constant":
            raise InvalidGraphError(f"{place}: a constant has a symbolic size")
    elements = math.prod(expr.constant for expr in sizes)
    width = DTYPE_BYTES[entry.tensor.dtype]
    if elements * width != len(entry.data):
        raise InvalidGraphError(f"{place}: {len(entry.data)} bytes where {elements * width} belong")
    # A view with these strides is made over the bytes.
    pairs = zip(sizes, strides, strict=True)
    if 1 + sum((size.constant - 1) * stride.constant for size, stride in pairs) > elements:
        raise InvalidGraphError(f"{place}: a constant's strides reach behind its bytes")
