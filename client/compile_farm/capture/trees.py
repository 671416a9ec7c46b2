"""Python containers of arguments and results, as Tree messages.

In: torch's pytree specs, which torch.export made. Out: Trees over leaves that the caller numbers.
Only kinds that a loading process can rebuild without importing anything are taken.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from torch.utils._pytree import TreeSpec

from compile_farm.errors import CaptureError
from compile_farm.runtime.trees import ORDERED_DICT, literal_of
from compile_farm.v1 import graph_pb2


def literal(value: Any) -> graph_pb2.Literal:
    """None, a bool, an int, a float or a string; raises CaptureError for anything else."""
    try:
        return literal_of(value)
    except TypeError:
        raise CaptureError(
            f"a fixed value of type {type(value).__name__} can't be recorded", reason="value"
        ) from None


def encode_tree(spec: TreeSpec, leaves: Iterator[graph_pb2.Leaf]) -> graph_pb2.Tree:
    """The tree of ``spec``, its leaves taken from ``leaves`` in order."""
    if spec.is_leaf():
        return graph_pb2.Tree(leaf=next(leaves))
    container = _container(spec.type, spec.context)
    container.children.extend(encode_tree(child, leaves) for child in spec.children())
    for _ in container.keys[len(container.children) :]:
        container.children.add().leaf.literal.none.SetInParent()
    return graph_pb2.Tree(container=container)


def _container(kind: Any, context: Any) -> graph_pb2.Container:
    message = graph_pb2.Container()
    if kind is tuple:
        message.kind = graph_pb2.CONTAINER_KIND_TUPLE
    elif kind is list:
        message.kind = graph_pb2.CONTAINER_KIND_LIST
    elif kind in (dict, collections.OrderedDict):
        message.kind = graph_pb2.CONTAINER_KIND_DICT
        message.keys.extend(literal(key) for key in context)
        if kind is collections.OrderedDict:
            message.type_name = ORDERED_DICT
    elif kind is collections.namedtuple:
        message.kind = graph_pb2.CONTAINER_KIND_NAMED_TUPLE
        message.type_name = _class_name(context)
    elif getattr(kind, "__module__", "") == "torch.return_types":
        message.kind = graph_pb2.CONTAINER_KIND_RETURN_TYPE
        message.type_name = f"torch.return_types:{kind.__name__}"
    elif (fields := _record_keys(kind, context)) is not None:
        message.kind = graph_pb2.CONTAINER_KIND_RECORD
        message.type_name = _class_name(kind)
        message.keys.extend(literal(name) for names in fields for name in names)
    else:
        raise CaptureError(
            f"a container of type {kind.__module__}.{kind.__qualname__} can't be recorded",
            remedy="return a tuple, list, dict, named tuple or dataclass of tensors",
            reason="value",
        )
    return message


def _class_name(kind: type) -> str:
    if "<" in kind.__qualname__:
        raise CaptureError(
            f"the class {kind.__qualname__} is defined inside a function",
            remedy="define it at the top of its module, where another process can find it",
            reason="value",
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def _record_keys(kind: type, context: Any) -> tuple[list[str], list[str]] | None:
    """Field names of a class that is built from keyword arguments, and those that were None."""
    if not hasattr(kind, "__dataclass_fields__") or not isinstance(context, list | tuple):
        return None
    # torch.export.register_dataclass: [names, names of the fields that were None].
    # transformers' ModelOutput: the names themselves.
    nested = bool(context) and isinstance(context[0], list | tuple)
    names, absent = (context[0], context[1]) if nested else (context, ())
    if not all(isinstance(name, str) for name in (*names, *absent)):
        return None
    return list(names), list(absent)
