"""Names of operators on the wire, both ways: what may be called, and nothing else.

An operator overload resolves by namespace allow-list; a higher-order operator and a Python function
only if this table names it. Nothing is looked up by attribute path, so no name can reach
``torch.hub.load`` or ``os.getcwd``.
"""

from __future__ import annotations

import importlib
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from compile_farm.errors import CaptureError, InvalidGraphError
from compile_farm.v1 import graph_pb2

# Libraries of custom operators are the farm operator's decision: see ``extra_namespaces``.
NAMESPACES = frozenset({"aten", "prims", "quantized_decomposed"})

HIGHER_ORDER = frozenset(
    {
        "auto_functionalized",
        "auto_functionalized_v2",
        "cond",
        "flex_attention",
        "invoke_subgraph",
        "map_impl",
        "scan",
        "while_loop",
        "wrap_with_autocast",
        "wrap_with_set_grad_enabled",
    }
)

PYTHON_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "getitem": operator.getitem,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "neg": operator.neg,
    "pow": operator.pow,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "and_": operator.and_,
    "or_": operator.or_,
    "sym_max": torch.sym_max,
    "sym_min": torch.sym_min,
    "sym_not": torch.sym_not,
    "sym_float": torch.sym_float,
    "sym_int": torch.sym_int,
    "sym_ite": torch.sym_ite,
    "sym_sqrt": torch.sym_sqrt,
    "ceil": math.ceil,
    "floor": math.floor,
    "trunc": math.trunc,
    "round": round,
}
_PYTHON_NAMES = {function: name for name, function in PYTHON_FUNCTIONS.items()}
_OVERLOAD = re.compile(r"([a-z_0-9]+)::([A-Za-z_0-9]+)\.([A-Za-z_0-9]+)")

# Random draws that torch does not tag, and asserts: kept in order though nobody uses their result.
_ASSERTS = frozenset(
    {
        "aten::_assert_scalar.default",
        "aten::_assert_async.msg",
        "aten::_assert_async.default",
        "aten::_assert_tensor_metadata.default",
        "aten::_functional_assert_async.msg",
        "aten::_functional_assert_scalar.default",
        "aten::sym_constrain_range.default",
        "aten::sym_constrain_range_for_size.default",
    }
)


def operator_name(target: object) -> str:
    """The wire's name for an FX call target; raises CaptureError for what the wire can't carry."""
    if isinstance(target, OpOverload):
        name = f"{target.namespace}::{target._opname}.{target._overloadname}"
        if not _OVERLOAD.fullmatch(name):
            raise CaptureError(
                f"the operator {name} has a name that can't be sent", reason="operator"
            )
        return name
    if isinstance(target, HigherOrderOperator):
        name = target.name()
        if name not in HIGHER_ORDER:
            raise CaptureError(
                f"the higher-order operator {name} is not supported",
                remedy="keep it outside the compiled region",
                reason="operator",
            )
        return f"higher_order::{name}"
    try:
        return f"python::{_PYTHON_NAMES[target]}"  # type: ignore[index]
    except (KeyError, TypeError):
        name = f"{getattr(target, '__module__', '?')}.{getattr(target, '__name__', target)}"
        raise CaptureError(
            f"the function {name} in the graph is not supported", reason="operator"
        ) from None


def resolve_operator(
    name: str, extra_namespaces: frozenset[str] = frozenset()
) -> Callable[..., Any]:
    """What ``name`` stands for; raises InvalidGraphError unless it is allowed and exists here."""
    namespace, _, rest = name.partition("::")
    if namespace == "python":
        if rest not in PYTHON_FUNCTIONS:
            raise InvalidGraphError(f"the Python function {rest!r} is not allowed in a graph")
        return PYTHON_FUNCTIONS[rest]
    if namespace == "higher_order":
        if rest not in HIGHER_ORDER:
            raise InvalidGraphError(f"the higher-order operator {rest!r} is not allowed")
        return _higher_order(rest)
    match = _OVERLOAD.fullmatch(name)
    if match is None:
        raise InvalidGraphError(f"{name!r} is not an operator's name")
    if namespace not in NAMESPACES and namespace not in extra_namespaces:
        raise InvalidGraphError(
            f"operators of the library {namespace!r} are not allowed on this farm ({name})",
            remedy="run that part outside the compiled region",
        )
    overload = getattr(getattr(getattr(torch.ops, namespace), match[2], None), match[3], None)
    if not isinstance(overload, OpOverload):
        raise InvalidGraphError(
            f"torch {torch.__version__} has no operator {name}",
            remedy="client and worker must have the same torch build",
        )
    return overload


def _higher_order(name: str) -> Callable[..., Any]:
    # Some register themselves only when their module is imported.
    if name == "scan":
        importlib.import_module("torch._higher_order_ops.scan")
    elif name in ("flex_attention", "while_loop", "cond", "map_impl"):
        importlib.import_module("torch._higher_order_ops")
    found = getattr(torch.ops.higher_order, name, None)
    if not isinstance(found, HigherOrderOperator):
        raise InvalidGraphError(f"torch {torch.__version__} has no higher-order operator {name}")
    return found


# Write to running statistics in training mode, though their schemas don't say so:
# (positions written, position of the flag).
_HIDDEN_WRITES = {
    "aten::batch_norm.default": ((3, 4), 5),
    "aten::instance_norm.default": ((3, 4), 5),
    "aten::native_batch_norm.default": ((3, 4), 5),
    "aten::cudnn_batch_norm.default": ((3, 4), 5),
}


def written_arguments(target: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that this call writes to, by its schema or by what torch leaves out of it."""
    hidden = _HIDDEN_WRITES.get(f"{target.namespace}::{target._opname}.{target._overloadname}")
    if hidden is not None:
        positions, flag = hidden
        training = len(args) > flag and args[flag] is not False
        return [args[position] for position in positions] if training else []
    written: list[Any] = []
    for position, parameter in enumerate(target._schema.arguments):
        if parameter.alias_info is None or not parameter.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(parameter.name)
        written.extend(value if isinstance(value, list | tuple) else (value,))
    return [value for value in written if value is not None]


def effect_of(target: object, args: Sequence[Any], kwargs: dict[str, Any]) -> graph_pb2.Effect:
    """What the call does beside its result."""
    if isinstance(target, HigherOrderOperator):
        # A subgraph may do anything; keeping the order of these calls is the safe direction.
        pure = target.name().startswith("auto_functionalized")
        return graph_pb2.EFFECT_NONE if pure else graph_pb2.EFFECT_MUTATES
    if not isinstance(target, OpOverload):
        return graph_pb2.EFFECT_NONE
    if written_arguments(target, args, kwargs):
        return graph_pb2.EFFECT_MUTATES
    if torch.Tag.nondeterministic_seeded in target.tags:
        return graph_pb2.EFFECT_RANDOM
    name = f"{target.namespace}::{target._opname}.{target._overloadname}"
    if name in _ASSERTS or not target._schema.returns:
        return graph_pb2.EFFECT_ASSERTS
    return graph_pb2.EFFECT_NONE
