"""What a model's forward writes that is no tensor's memory: its own attributes, and its arguments.

In: a model that is about to be traced. Out: names of the attributes and arguments that the traced
call left otherwise than it found them. torch.export follows none of these writes: the graph would
count one call for ever, and the caller's dict would stay as it was.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from compile_farm.runtime.modules import STANDARD
from compile_farm.runtime.subclasses import is_subclass

_PLAIN = (bool, int, float, complex, str, bytes)
_ABSENT = object()
_SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]


@contextmanager
def writes_of(model: torch.nn.Module) -> Iterator[list[str]]:
    """Inside, each call of ``model.forward`` adds what it wrote to the list."""
    written: list[str] = []
    original = model.forward
    own = vars(model).get("forward", _ABSENT)

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        attributes, given = _attributes(model), _image((args, kwargs))
        buffers = _buffers(model)
        with _DataWatch(written):
            result = original(*args, **kwargs)
        after, buffers_after = _attributes(model), _buffers(model)
        written.extend(
            f"the buffer {name!r}, by giving it another tensor"
            for name, before in buffers.items()
            if buffers_after.get(name) is not before
        )
        written.extend(
            f"the attribute {name!r}"
            for name in sorted(attributes.keys() | after.keys())
            if _differs(attributes.get(name, _ABSENT), after.get(name, _ABSENT))
        )
        if _image((args, kwargs)) != given:
            written.append("a container among its arguments")
        return result

    vars(model)["forward"] = forward
    try:
        yield written
    finally:
        if own is _ABSENT:
            vars(model).pop("forward", None)
        else:
            vars(model)["forward"] = own


class _DataWatch(TorchFunctionMode):
    """Sees ``x.data = y``, which puts other memory under a tensor and leaves no operator."""

    def __init__(self, written: list[str]) -> None:
        super().__init__()
        self._written = written

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func == _SET_DATA:
            self._written.append("the .data of a tensor")
        return func(*args, **(kwargs or {}))


def _buffers(model: torch.nn.Module) -> dict[str, torch.Tensor | None]:
    """An assignment leaves the old tensor as it was, for whoever else has it; a graph writes."""
    return {
        f"{path}.{name}" if path else name: tensor
        for path, module in model.named_modules()
        for name, tensor in module._buffers.items()
    }


def _attributes(model: torch.nn.Module) -> dict[str, Any]:
    attributes = {
        f"{path}.{name}" if path else name: _image(value)
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if name not in STANDARD
    }
    for path, weight in (*model.named_parameters(), *model.named_buffers()):
        if is_subclass(weight):
            # Another tensor in one of its attributes leaves no operator either. Read past the
            # class's own __getattribute__, which torch.export puts its tracing into.
            held = object.__getattribute__(weight, "__dict__")
            attributes |= {f"{path}.{name}": _image(value) for name, value in held.items()}
    return attributes


def _differs(before: Any, after: Any) -> bool:
    if before == after:
        return False
    # A cache that is filled at the first call holds what the call would compute again.
    return before not in (_ABSENT, None) or isinstance(after, _Same)


class _Same:
    """A tensor, which is equal to itself alone; held, so that no other gets its address."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    __hash__ = None  # type: ignore[assignment]


def _image(value: Any) -> Any:
    """What equality of two images means: the same containers of the same things."""
    if value is None:
        return None
    if isinstance(value, _PLAIN):
        return (type(value), repr(value))  # NaN is NaN
    if isinstance(value, list | tuple):
        return (type(value), [_image(item) for item in value])
    if isinstance(value, dict):
        return (type(value), [(key, _image(item)) for key, item in value.items()])
    if isinstance(value, torch.Tensor):
        return _Same(value)
    return (type(value), id(value))
