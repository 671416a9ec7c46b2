"""Libraries of custom operators: what a graph says of them, and whether a process has them.

In: modules and Library messages. Out: versions, and in words what is missing. The name of a module
travels with a graph or an artifact, and nothing is imported because of it: a process has imported
what it uses, and a worker what its operator listed.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys

from compile_farm.v1 import graph_pb2


@functools.lru_cache(maxsize=256)
def version_of(module: str) -> str:
    """The version of the distribution that the module belongs to; empty if there is none."""
    top = module.partition(".")[0]
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:
        # Reading all distributions takes a while, so this comes second.
        names = importlib.metadata.packages_distributions().get(top, [])
        return importlib.metadata.version(names[0]) if names else ""


def why_missing(library: graph_pb2.Library) -> tuple[str, str] | None:
    """What this process lacks of the library, and what to do; None if it has it."""
    version = version_of(library.module)
    if not version:
        top = library.module.partition(".")[0]
        return f"{top} {library.version} is not installed here", f"install {top}"
    if version != library.version:
        return (
            f"it calls operators of {library.module} in version {library.version}, here is "
            f"{version}",
            "install the same version on both sides, or compile again",
        )
    if library.module not in sys.modules:
        return (
            f"it calls operators of {library.module}, which this process has not imported",
            f"import {library.module} first",
        )
    return None
