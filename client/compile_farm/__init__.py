"""compile-farm: compile a PyTorch graph once, and let the whole fleet load it in milliseconds.

    from compile_farm import Farm

    with Farm("127.0.0.1:8815") as farm:
        artifact = farm.submit(model, (x,)).result()
        run = artifact.bind(model)
        y = run(x)

Importing this package imports neither torch nor grpc; using it does.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compile_farm.backend import CompiledGraph, compiled_graphs
    from compile_farm.errors import (
        ArtifactError,
        ArtifactNotFoundError,
        BindError,
        CaptureError,
        CompileFailedError,
        CompileFarmError,
        CorruptArtifactError,
        FarmUnavailableError,
        InputMismatchError,
        InvalidGraphError,
        InvalidReleaseError,
        JobTimeoutError,
        QuarantinedError,
        ReleaseNotFoundError,
        TargetMismatchError,
        UntrustedArtifactError,
    )
    from compile_farm.farm import Farm
    from compile_farm.fetched import Artifact
    from compile_farm.job import Job, Progress
    from compile_farm.release.load import LoadedModel, Prefetch

# Where a name lives, if not in errors.py.
_HOMES = {
    "Artifact": "fetched",
    "Farm": "farm",
    "Job": "job",
    "LoadedModel": "release.load",
    "Prefetch": "release.load",
    "Progress": "job",
    "CompiledGraph": "backend",
    "compiled_graphs": "backend",
}

try:
    __version__ = metadata.version("compile-farm")
except metadata.PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "Artifact",
    "ArtifactError",
    "ArtifactNotFoundError",
    "BindError",
    "CaptureError",
    "CompileFailedError",
    "CompileFarmError",
    "CompiledGraph",
    "CorruptArtifactError",
    "Farm",
    "FarmUnavailableError",
    "InputMismatchError",
    "InvalidGraphError",
    "InvalidReleaseError",
    "Job",
    "JobTimeoutError",
    "LoadedModel",
    "Prefetch",
    "Progress",
    "QuarantinedError",
    "ReleaseNotFoundError",
    "TargetMismatchError",
    "UntrustedArtifactError",
    "__version__",
    "compiled_graphs",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'compile_farm' has no attribute {name!r}")
    return getattr(import_module(f"compile_farm.{_HOMES.get(name, 'errors')}"), name)
