"""Dropout that does nothing: taken out of a graph, since eager gives its very argument there.

In: a graph as Dynamo or torch.export made it. Out: the same graph, in which the result of an idle
dropout is its argument. torch traces it as a copy; what is written to the one in place then no
longer reaches the other, though it does in eager: ``y = drop(h); y += x; return h``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.nn import functional

_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    functional.dropout,
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
)
_SIGNATURES = {function: inspect.signature(function) for function in _FUNCTIONS}
# (input, p, train)
_OPERATORS = frozenset(
    getattr(owner, name)
    for name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
    for owner in (torch, torch.ops.aten)
)


def remove_idle_dropout(module: fx.GraphModule) -> None:
    """Rewrites the graph of ``module`` where it has any."""
    found = False
    for node in list(module.graph.nodes):
        if node.op == "call_function" and (argument := _argument(node)) is not None:
            node.replace_all_uses_with(argument)
            module.graph.erase_node(node)
            found = True
    if found:
        module.recompile()


def _argument(node: fx.Node) -> fx.Node | None:
    """The dropout's argument; None if the node is none, or drops something."""
    target: Any = node.target
    if target in _SIGNATURES:
        bound = _SIGNATURES[target].bind(*node.args, **node.kwargs)
        bound.apply_defaults()
        values: Any = [bound.arguments[name] for name in ("input", "p", "training")]
    elif getattr(target, "overloadpacket", target) in _OPERATORS and len(node.args) == 3:
        values = node.args
    else:
        return None
    argument, probability, training = values
    idle = training is False or (isinstance(probability, int | float) and probability == 0)
    return argument if idle and isinstance(argument, fx.Node) else None
