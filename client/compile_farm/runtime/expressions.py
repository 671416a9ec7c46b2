"""Sizes at load: expressions as Python source, and which symbols follow from which input.

Source is made of integers and of variable names that are ours ("y0"); no text of a manifest ever
gets into it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from compile_farm.errors import InvalidGraphError
from compile_farm.v1 import graph_pb2

_JOIN = {
    graph_pb2.OPERATOR_ADD: " + ",
    graph_pb2.OPERATOR_MULTIPLY: " * ",
    graph_pb2.OPERATOR_FLOOR_DIVIDE: " // ",
    graph_pb2.OPERATOR_MODULO: " % ",
    graph_pb2.OPERATOR_POWER: " ** ",
}


def source(expr: graph_pb2.Expr) -> str:
    """The expression in Python, over variables y0, y1, ... for the symbols."""
    kind = expr.WhichOneof("kind")
    if kind == "constant":
        return f"({int(expr.constant)})"
    if kind == "symbol":
        return f"y{int(expr.symbol)}"
    operands = [source(operand) for operand in expr.operation.operands]
    if expr.operation.operator == graph_pb2.OPERATOR_MINIMUM:
        return f"min({', '.join(operands)})"
    if expr.operation.operator == graph_pb2.OPERATOR_MAXIMUM:
        return f"max({', '.join(operands)})"
    return "(" + _JOIN[expr.operation.operator].join(operands) + ")"


def tuple_source(exprs: list[graph_pb2.Expr]) -> str:
    """A tuple of expressions in Python."""
    return "(" + "".join(source(expr) + ", " for expr in exprs) + ")"


def symbols_of(expr: graph_pb2.Expr) -> set[int]:
    """The symbols that stand in the expression."""
    kind = expr.WhichOneof("kind")
    if kind == "symbol":
        return {expr.symbol}
    if kind == "operation":
        return set().union(*(symbols_of(operand) for operand in expr.operation.operands))
    return set()


@dataclass(frozen=True)
class Linear:
    """factor * symbol + offset: what can be solved for its symbol."""

    symbol: int
    factor: int
    offset: int


def as_linear(expr: graph_pb2.Expr) -> Linear | None:
    """The expression as a linear one of a single symbol, or None."""
    found = symbols_of(expr)
    if len(found) != 1:
        return None
    (symbol,) = found
    if expr.WhichOneof("kind") == "symbol":
        return Linear(symbol, 1, 0)
    if expr.operation.operator not in (graph_pb2.OPERATOR_ADD, graph_pb2.OPERATOR_MULTIPLY):
        return None
    factor, offset, count = 1, 0, 0
    multiply = expr.operation.operator == graph_pb2.OPERATOR_MULTIPLY
    if not multiply:
        factor = 0
    for operand in expr.operation.operands:
        if operand.WhichOneof("kind") == "constant":
            if multiply:
                factor, offset = factor * operand.constant, offset * operand.constant
            else:
                offset += operand.constant
            continue
        part = as_linear(operand)
        if part is None:
            return None
        count += 1
        if multiply:
            if count > 1:
                return None
            factor, offset = factor * part.factor, factor * part.offset
        else:
            factor, offset = factor + part.factor, offset + part.offset
    return Linear(symbol, factor, offset) if factor else None


_FUNCTIONS: Mapping[int, Callable[..., Any]] = {
    graph_pb2.OPERATOR_ADD: operator.add,
    graph_pb2.OPERATOR_MULTIPLY: operator.mul,
    graph_pb2.OPERATOR_FLOOR_DIVIDE: operator.floordiv,
    graph_pb2.OPERATOR_MODULO: operator.mod,
    graph_pb2.OPERATOR_MINIMUM: min,
    graph_pb2.OPERATOR_MAXIMUM: max,
    graph_pb2.OPERATOR_POWER: operator.pow,
}


def evaluate(
    expr: graph_pb2.Expr,
    symbols: Mapping[int, Any],
    functions: Mapping[int, Callable[..., Any]] = _FUNCTIONS,
) -> Any:
    """The value of ``expr`` where ``symbols`` gives each symbol's.

    ``functions`` gives what an operator does, by Operator: on symbolic numbers or on the nodes of a
    graph it is another thing than on integers.
    Raises InvalidGraphError for a symbol without a value, or a division by zero.
    """
    kind = expr.WhichOneof("kind")
    if kind == "constant":
        return expr.constant
    if kind == "symbol":
        if expr.symbol not in symbols:
            raise InvalidGraphError(f"the value of symbol {expr.symbol} follows from no input")
        return symbols[expr.symbol]
    operands = [evaluate(operand, symbols, functions) for operand in expr.operation.operands]
    try:
        return functools.reduce(functions[expr.operation.operator], operands)
    except ZeroDivisionError:
        raise InvalidGraphError("a size divides by zero") from None
