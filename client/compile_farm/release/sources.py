"""Which Python files a capture came from, and whether this host has the same.

In: a model and the files that its capture ran through; or the Sources of a release. Out: modules
with the SHA-256 of their files; or in words which file differs. The files are those that define the
classes of the model's modules and those of every function that called torch. torch's own are left
out: the target has torch's version. What the code reads from elsewhere, a configuration file for
instance, shows in the weights and settings that binding compares.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from compile_farm.v1 import release_pb2

if TYPE_CHECKING:
    import torch

# Nobody's models: where captures themselves pass through.
_OURS = frozenset({"torch", "compile_farm", *sys.stdlib_module_names})


def sources_of(model: torch.nn.Module, called: Iterable[str]) -> list[release_pb2.Source]:
    """In the order of the modules' names. A class made in an interactive session has none."""
    files = dict(_of_classes(model))
    by_file = _modules_by_file()
    for path in called:
        if (name := by_file.get(path)) is not None:
            files[name] = path
    return [
        release_pb2.Source(module=name, sha256=digest)
        for name, path in sorted(files.items())
        if name.split(".")[0] not in _OURS and (digest := _digest(path)) is not None
    ]


def merged(lists: Iterable[Iterable[release_pb2.Source]]) -> list[release_pb2.Source]:
    """Each module once, in the order of the names."""
    found = {source.module: source.sha256 for sources in lists for source in sources}
    return [release_pb2.Source(module=name, sha256=found[name]) for name in sorted(found)]


def why_stale(sources: Sequence[release_pb2.Source]) -> str | None:
    """Which of the files is another one on this host, in words; None if none is."""
    for source in sources:
        path = _file_of(source.module)
        if path is None:
            return f"the module {source.module}, which it was captured from, is not on this host"
        digest = _digest(path)
        if digest != source.sha256:
            return (
                f"{source.module} ({path}) is not what it was captured from: its SHA-256 is "
                f"{(digest or 'not readable')[:16]}, then it was {source.sha256[:16]}"
            )
    return None


def _of_classes(model: torch.nn.Module) -> Iterator[tuple[str, str]]:
    for module in model.modules():
        for kind in type(module).__mro__:
            name = kind.__module__
            if name.split(".")[0] in _OURS or (path := _loaded_file(name)) is None:
                continue
            yield name, path


def _modules_by_file() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in list(sys.modules):
        if (path := _loaded_file(name)) is not None:
            found.setdefault(path, name)
    return found


def _loaded_file(name: str) -> str | None:
    if name == "__main__":
        # Another process that runs another script has another one of that name.
        return None
    path = getattr(sys.modules.get(name), "__file__", None)
    return path if isinstance(path, str) else None


def _file_of(name: str) -> str | None:
    if (path := _loaded_file(name)) is not None:
        return path
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return spec.origin if spec is not None else None


def _digest(path: str) -> str | None:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None
