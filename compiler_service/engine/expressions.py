"""Evaluates the wire's size expressions, over numbers, symbolic numbers or graph nodes alike."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from compile_farm.errors import InvalidGraphError
from compile_farm.v1 import graph_pb2

_FUNCTIONS: dict[int, Callable[..., Any]] = {
    graph_pb2.OPERATOR_ADD: operator.add,
    graph_pb2.OPERATOR_MULTIPLY: operator.mul,
    graph_pb2.OPERATOR_FLOOR_DIVIDE: operator.floordiv,
    graph_pb2.OPERATOR_MODULO: operator.mod,
    graph_pb2.OPERATOR_MINIMUM: torch.sym_min,
    graph_pb2.OPERATOR_MAXIMUM: torch.sym_max,
    graph_pb2.OPERATOR_POWER: operator.pow,
}


def _apply(function: Callable[..., Any], *operands: Any) -> Any:
    return function(*operands)


def evaluate(
    expr: graph_pb2.Expr,
    symbols: Mapping[int, Any],
    apply: Callable[..., Any] = _apply,
) -> Any:
    """The value of ``expr`` where ``symbols`` gives each symbol's.

    ``apply`` calls a function on operands; a graph builder makes nodes there instead.
    Raises InvalidGraphError for a symbol that ``symbols`` lacks, or a division by zero.
    """
    kind = expr.WhichOneof("kind")
    if kind == "constant":
        return expr.constant
    if kind == "symbol":
        if expr.symbol not in symbols:
            raise InvalidGraphError(f"the size of symbol {expr.symbol} follows from no input")
        return symbols[expr.symbol]
    operands = [evaluate(operand, symbols, apply) for operand in expr.operation.operands]
    function = _FUNCTIONS[expr.operation.operator]
    try:
        return functools.reduce(lambda left, right: apply(function, left, right), operands)
    except ZeroDivisionError:
        raise InvalidGraphError("a size divides by zero") from None
