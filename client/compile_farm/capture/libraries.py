"""Which libraries of custom operators a graph calls.

In: an encoded graph. Out: a Library for each namespace beside torch's own. What registered an
operator is looked up where torch keeps it; an operator of a program's own, which belongs to no
installed distribution, is refused: another process could not tell whether it has the same.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator

from torch._library.custom_ops import OPDEFS
from torch._library.simple_registry import singleton

from compile_farm.capture.ops import NAMESPACES
from compile_farm.errors import CaptureError
from compile_farm.libraries import version_of
from compile_farm.v1 import graph_pb2

_BUILT_IN = NAMESPACES | {"python", "higher_order"}


def libraries_of(graph: graph_pb2.Graph) -> list[graph_pb2.Library]:
    """One for each foreign namespace; raises CaptureError for what can't be told apart."""
    found: dict[str, graph_pb2.Library] = {}
    for name in sorted(set(_operators(graph))):
        namespace, _, rest = name.partition("::")
        if namespace in _BUILT_IN:
            continue
        module = _module_of(namespace, rest.partition(".")[0])
        version = version_of(module) if module else ""
        if not version:
            raise CaptureError(
                f"the operator {name} belongs to no installed package"
                + (f" (it is registered in {module})" if module else ""),
                remedy="put it into a package with a version, install that here and on the worker "
                "and list it there (`serve --library MODULE`); or run that part outside the "
                "compiled region",
                reason="operator",
            )
        known = found.setdefault(
            namespace, graph_pb2.Library(namespace=namespace, module=module, version=version)
        )
        if known.module != module:
            raise CaptureError(
                f"the operators {namespace}::* come from two modules, {known.module} and {module}",
                remedy="register them in one, or run one of them outside the compiled region",
                reason="operator",
            )
    return list(found.values())


def _operators(graph: graph_pb2.Graph) -> Iterator[str]:
    graphs = [graph]
    while graphs:
        one = graphs.pop()
        graphs.extend(one.subgraphs)
        for node in one.nodes:
            yield node.op
            arguments = [*node.args, *(item.value for item in node.kwargs)]
            while arguments:
                argument = arguments.pop()
                kind = argument.WhichOneof("kind")
                if kind == "operator":
                    yield argument.operator
                elif kind == "list":
                    arguments.extend(argument.list.items)
                elif kind == "tuple":
                    arguments.extend(argument.tuple.items)
                elif kind == "dictionary":
                    arguments.extend(item.value for item in argument.dictionary.items)


def _module_of(namespace: str, operator: str) -> str:
    """Where the operator was registered; empty where torch doesn't know."""
    qualified = f"{namespace}::{operator}"
    definition = OPDEFS.get(qualified)
    if definition is not None:
        return str(definition._init_fn.__module__)
    # torch.library.define with a fake implementation, or C++ operators with one in Python.
    fake = singleton.find(qualified).fake_impl.kernel
    frame = sys.modules.get(getattr(getattr(fake, "func", None), "__module__", "") or "")
    if frame is not None and not frame.__name__.startswith("torch."):
        return frame.__name__
    # A library that is called like its namespace ("torchvision").
    if namespace in sys.modules and importlib.util.find_spec(namespace) is not None:
        return namespace
    return ""
