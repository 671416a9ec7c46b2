"""Sizes in the engine: over torch's symbolic numbers, or as nodes of the graph being built."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import fx

from compile_farm.v1 import graph_pb2

SYMBOLIC: Mapping[int, Callable[..., Any]] = {
    graph_pb2.OPERATOR_ADD: operator.add,
    graph_pb2.OPERATOR_MULTIPLY: operator.mul,
    graph_pb2.OPERATOR_FLOOR_DIVIDE: operator.floordiv,
    graph_pb2.OPERATOR_MODULO: operator.mod,
    graph_pb2.OPERATOR_MINIMUM: torch.sym_min,
    graph_pb2.OPERATOR_MAXIMUM: torch.sym_max,
    graph_pb2.OPERATOR_POWER: operator.pow,
}


def in_graph(graph: fx.Graph) -> Mapping[int, Callable[..., Any]]:
    """The same operators as calls in ``graph``."""
    return {kind: partial(_call, graph, function) for kind, function in SYMBOLIC.items()}


def _call(graph: fx.Graph, function: Callable[..., Any], *operands: Any) -> Any:
    if any(isinstance(operand, fx.Node) for operand in operands):
        return graph.call_function(function, operands)
    return function(*operands)
