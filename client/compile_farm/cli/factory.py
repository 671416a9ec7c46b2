"""Gets a user's model: FILE.py:FACTORY or package.module:factory, called without arguments.

A mistake in the user's file is told with their own line, not with ours.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from compile_farm.cli.common import UsageError

_SHAPE = (
    "give (model, args), (model, args, kwargs), or a dict with model, args, and if need be "
    "kwargs and dynamic_shapes"
)


@dataclass(frozen=True)
class Request:
    """What a factory gave."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any


def load_request(where: str) -> Request:
    """Imports and calls the factory; raises UsageError for any mistake in it."""
    path, colon, name = where.rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise UsageError(f"{where!r} is not FILE.py:FACTORY", remedy="for instance model.py:make")
    module = _import(path)
    factory = getattr(module, name, None)
    if not callable(factory):
        have = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise UsageError(
            f"{path} has no function {name!r}",
            remedy=f"name one of {', '.join(have[:12])}" if have else "write one",
        )
    try:
        made = factory()
    except (Exception, SystemExit) as error:
        raise UsageError(_in_their_words(error, f"{name}() raised")) from error
    return _request(made, name)


def _import(path: str) -> ModuleType:
    try:
        if not path.endswith(".py"):
            sys.path.insert(0, "")
            return importlib.import_module(path)
        file = Path(path)
        if not file.is_file():
            raise UsageError(f"there is no file {path}")
        # As if it were run: its neighbours can be imported.
        sys.path.insert(0, str(file.resolve().parent))
        # Under a name that is nobody else's, whatever the file is called.
        spec = importlib.util.spec_from_file_location(f"_factory_{file.stem}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Where Dynamo and pickle look for it.
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(_in_their_words(error, f"importing {path} raised")) from error


def _in_their_words(error: BaseException, what: str) -> str:
    """The error, and the last line of their own code that led to it."""
    text = f"{what} {type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return f"{text}\n  {(error.text or '').strip()}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and not frame.filename.startswith("<frozen importlib")
    ]
    installed = sysconfig.get_paths()
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith((installed["stdlib"], installed["purelib"]))
    ]
    for frame in (own or frames)[-1:]:
        text += f"\n  {frame.filename}, line {frame.lineno}: {frame.line}"
    return text


def _request(made: Any, name: str) -> Request:
    if isinstance(made, dict):
        unknown = set(made) - {"model", "args", "kwargs", "dynamic_shapes"}
        if unknown or "model" not in made or "args" not in made:
            keys = ", ".join(sorted(map(str, made)))
            raise UsageError(f"{name}() gave a dict with the keys {keys}", remedy=_SHAPE)
        parts = made
    elif isinstance(made, tuple) and len(made) in (2, 3):
        parts = dict(zip(("model", "args", "kwargs"), made, strict=False))
    else:
        size = f" of {len(made)}" if isinstance(made, tuple) else ""
        raise UsageError(f"{name}() gave a {type(made).__name__}{size}", remedy=_SHAPE)
    args = parts["args"]
    if not isinstance(args, tuple | list):
        raise UsageError(
            f"the args that {name}() gave are a {type(args).__name__}",
            remedy="give a tuple: (x,) for a single argument",
        )
    kwargs = {} if parts.get("kwargs") is None else parts["kwargs"]
    if not isinstance(kwargs, dict):
        raise UsageError(
            f"the kwargs that {name}() gave are a {type(kwargs).__name__}", remedy="give a dict"
        )
    if not callable(getattr(parts["model"], "named_parameters", None)):
        raise UsageError(
            f"the model that {name}() gave is a {type(parts['model']).__name__}",
            remedy="give a torch.nn.Module",
        )
    return Request(parts["model"], tuple(args), kwargs, parts.get("dynamic_shapes"))
