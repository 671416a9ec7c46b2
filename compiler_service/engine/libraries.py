"""The libraries of custom operators that this worker loads: its operator's decision alone.

In: the names of modules, at the child's start. Out: which namespaces a graph may call. A graph
names a module too, but only to be compared with these.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from compile_farm.libraries import version_of
from compile_farm.v1 import graph_pb2
from compiler_service.engine.errors import unsupported


@dataclass(frozen=True)
class _Loaded:
    version: str
    namespaces: frozenset[str]


_loaded: dict[str, _Loaded] = {}


def load_libraries(modules: Iterable[str]) -> None:
    """Imports them; raises ImportError, or RuntimeError for one that registers nothing."""
    for module in modules:
        if module in _loaded:
            continue
        before = _namespaces()
        importlib.import_module(module)
        version, new = version_of(module), _namespaces() - before
        if not version:
            raise RuntimeError(f"{module} belongs to no installed package, so it has no version")
        if not new:
            raise RuntimeError(
                f"importing {module} registers no operators: name the module that does"
            )
        _loaded[module] = _Loaded(version, new)


def namespaces_of(libraries: Sequence[graph_pb2.Library]) -> frozenset[str]:
    """What a graph that names these may call; raises EngineError where they are not these here."""
    for library in libraries:
        loaded = _loaded.get(library.module)
        if loaded is None or library.namespace not in loaded.namespaces:
            raise unsupported(
                f"the graph calls operators of {library.module} ({library.namespace}::...), which "
                "this farm does not load",
                remedy=f"start the farm with `--library {library.module}`; or run that part "
                "outside the compiled region",
                stage="decode",
            )
        if loaded.version != library.version:
            raise unsupported(
                f"the graph calls operators of {library.module} {library.version}, this farm has "
                f"{loaded.version}",
                remedy="install the same version on both sides",
                stage="decode",
            )
    return frozenset(library.namespace for library in libraries)


def _namespaces() -> frozenset[str]:
    return frozenset(name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names())
