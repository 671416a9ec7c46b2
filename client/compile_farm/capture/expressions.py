"""Symbolic sizes: from torch's ShapeEnv to the wire's symbols and expressions.

In: SymInts of one ShapeEnv. Out: Expr messages over a growing list of Symbols with their ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Max, Min, Mod, PythonMod

from compile_farm.errors import CaptureError
from compile_farm.schema import MAX_INTEGER
from compile_farm.v1 import graph_pb2


class SymbolTable:
    """Numbers the symbols of one capture, in the order in which they are met.

    ``promised``: ranges that the user stated; a tracer narrows its own to 2 and more, since it
    takes 0 and 1 for sizes that broadcast.
    """

    def __init__(self, promised: Mapping[sympy.Symbol, Any] | None = None) -> None:
        self._promised = promised or {}
        self.symbols: list[graph_pb2.Symbol] = []
        self._index: dict[sympy.Symbol, int] = {}

    def encode(self, size: Any) -> graph_pb2.Expr:
        """A size (int or SymInt) as an Expr; raises CaptureError for what has no encoding."""
        if isinstance(size, int):
            return graph_pb2.Expr(constant=size)
        if not isinstance(size, torch.SymInt):
            raise CaptureError(
                f"a size of type {type(size).__name__} is not supported", reason="size"
            )
        return self._expression(size.node.expr, size.node.shape_env)

    def _expression(self, expr: sympy.Expr, env: Any) -> graph_pb2.Expr:
        if isinstance(expr, sympy.Integer):
            return graph_pb2.Expr(constant=int(expr))
        if isinstance(expr, sympy.Symbol):
            return graph_pb2.Expr(symbol=self._symbol(expr, env))
        if isinstance(expr, sympy.Add):
            return self._operation(graph_pb2.OPERATOR_ADD, expr.args, env)
        if isinstance(expr, sympy.Mul):
            return self._operation(graph_pb2.OPERATOR_MULTIPLY, expr.args, env)
        if isinstance(expr, FloorDiv | CleanDiv):
            return self._operation(graph_pb2.OPERATOR_FLOOR_DIVIDE, expr.args, env)
        if isinstance(expr, Mod | PythonMod):
            return self._operation(graph_pb2.OPERATOR_MODULO, expr.args, env)
        if isinstance(expr, Min | sympy.Min):
            return self._operation(graph_pb2.OPERATOR_MINIMUM, expr.args, env)
        if isinstance(expr, Max | sympy.Max):
            return self._operation(graph_pb2.OPERATOR_MAXIMUM, expr.args, env)
        if isinstance(expr, sympy.Pow) and isinstance(expr.exp, sympy.Integer) and expr.exp > 0:
            return self._operation(graph_pb2.OPERATOR_POWER, expr.args, env)
        raise CaptureError(
            f"the symbolic size {expr} has a form that can't be sent",
            remedy="make that dimension static",
            reason="size",
        )

    def _operation(self, operator: int, operands: Any, env: Any) -> graph_pb2.Expr:
        # sympy orders commutative operands by printed name, which differs between captures.
        encoded = [self._expression(operand, env) for operand in operands]
        return graph_pb2.Expr(
            operation=graph_pb2.Operation(operator=operator, operands=encoded)  # type: ignore[arg-type]
        )

    def _symbol(self, symbol: sympy.Symbol, env: Any) -> int:
        if symbol in self._index:
            return self._index[symbol]
        bounds = self._promised.get(symbol, env.var_to_range.get(symbol))
        low = _finite(bounds.lower) if bounds is not None else None
        high = _finite(bounds.upper) if bounds is not None else None
        message = graph_pb2.Symbol(
            # A number without a lower bound is promised from 0 on: sizes are all that a carrier can
            # bring. A call with a smaller one runs eager.
            minimum=max(low, 0) if low is not None else 0,
            unbacked=str(symbol).startswith(("u", "zu")),
        )
        if high is not None:
            message.maximum = high
        hint = env.backed_var_to_val.get(symbol)
        message.hint = int(hint) if hint is not None else max(message.minimum, 2)
        self.symbols.append(message)
        self._index[symbol] = len(self.symbols) - 1
        return self._index[symbol]


def _finite(bound: Any) -> int | None:
    """The bound as a number; ShapeEnv writes "none" as infinity or as a number near 2**63."""
    if not isinstance(bound, sympy.Integer) or abs(int(bound)) >= MAX_INTEGER:
        return None
    return int(bound)
