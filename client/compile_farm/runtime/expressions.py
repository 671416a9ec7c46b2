"""Sizes at load: expressions as Python source, and which symbols follow from which input.

Source is made of integers and of variable names that are ours ("y0"); no text of a manifest ever
gets into it.
"""

from __future__ import annotations

import functools
import heapq
import operator
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeVar

from compile_farm.errors import InvalidGraphError
from compile_farm.limits import MAX_INTEGER
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
    # Has no symbol in it but those that are known.
    offset: graph_pb2.Expr

    @property
    def plain(self) -> bool:
        """Whether it is the symbol and nothing else."""
        return self.factor == 1 and self.offset == _ZERO


_ZERO = graph_pb2.Expr(constant=0)


def as_linear(expr: graph_pb2.Expr, known: Set[int] = frozenset()) -> Linear | None:
    """The expression as a linear one of a single symbol that is not ``known``, or None."""
    unknown = symbols_of(expr) - known
    if len(unknown) != 1:
        return None
    (symbol,) = unknown
    split = _split(expr, symbol)
    if split is None or split[0] == 0:
        return None
    factor, rest = split
    return Linear(symbol, factor, rest)


def _split(expr: graph_pb2.Expr, symbol: int) -> tuple[int, graph_pb2.Expr] | None:
    """(factor, offset) of ``symbol`` in the expression; None where it is not linear in it."""
    if symbol not in symbols_of(expr):
        return 0, expr
    if expr.WhichOneof("kind") == "symbol":
        return 1, _ZERO
    kind, operands = expr.operation.operator, expr.operation.operands
    if kind == graph_pb2.OPERATOR_ADD:
        parts = [_split(operand, symbol) for operand in operands]
        if any(part is None for part in parts):
            return None
        found = [part for part in parts if part is not None]
        rest = [offset for _, offset in found if offset != _ZERO]
        return sum(factor for factor, _ in found), _sum(rest)
    if kind == graph_pb2.OPERATOR_MULTIPLY:
        holders = [operand for operand in operands if symbol in symbols_of(operand)]
        others = [operand for operand in operands if symbol not in symbols_of(operand)]
        inner = _split(holders[0], symbol) if len(holders) == 1 else None
        if inner is None or any(symbols_of(other) for other in others):
            return None
        scale = 1
        for other in others:
            scale *= int(evaluate(other, {}))
        if abs(scale) > MAX_INTEGER:
            return None
        if inner[1] == _ZERO:
            return inner[0] * scale, _ZERO
        product = graph_pb2.Expr()
        product.operation.operator = graph_pb2.OPERATOR_MULTIPLY
        product.operation.operands.extend([graph_pb2.Expr(constant=scale), inner[1]])
        return inner[0] * scale, product
    return None


def _sum(terms: list[graph_pb2.Expr]) -> graph_pb2.Expr:
    if len(terms) <= 1:
        return terms[0] if terms else _ZERO
    total = graph_pb2.Expr()
    total.operation.operator = graph_pb2.OPERATOR_ADD
    total.operation.operands.extend(terms)
    return total


Place = TypeVar("Place")


def definitions(
    sizes: Sequence[tuple[Place, graph_pb2.Expr]],
) -> list[tuple[Place, Linear]]:
    """From which size each symbol follows, in an order in which they can be computed.

    Plain sizes come first, since they say most clearly what is wrong with them.
    """
    found: list[tuple[Place, Linear]] = []
    known: set[int] = set()

    def define(position: int, linear: Linear) -> None:
        found.append((sizes[position][0], linear))
        known.add(linear.symbol)

    symbols = [symbols_of(expr) for _, expr in sizes]
    for position, (_, expr) in enumerate(sizes):
        if len(symbols[position]) == 1 and not symbols[position] <= known:
            linear = as_linear(expr)
            if linear is not None and linear.plain:
                define(position, linear)
    # Looked at again only when all but one of its symbols are known: a signature may have a
    # thousand symbols and a million sizes.
    missing = [len(held - known) for held in symbols]
    holders: dict[int, list[int]] = {}
    for position, held in enumerate(symbols):
        for symbol in held - known:
            holders.setdefault(symbol, []).append(position)
    ready = [position for position, count in enumerate(missing) if count == 1]
    while ready:
        position = heapq.heappop(ready)
        linear = as_linear(sizes[position][1], known)
        if linear is None:
            continue
        define(position, linear)
        for other in holders[linear.symbol]:
            missing[other] -= 1
            if missing[other] == 1:
                heapq.heappush(ready, other)
    return found


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
