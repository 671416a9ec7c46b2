"""Weights that are tensor subclasses, such as quantized ones: the plain tensors inside them.

In: a traceable subclass (``__tensor_flatten__``, ``__tensor_unflatten__``). Out: its plain tensors
with the chain of attributes that leads to each; a record of all else that it says of itself, which
a graph has baked in; and whether another tensor says the same. Nothing is copied: the tensors are
the ones that the subclass holds.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from compile_farm.errors import BindError
from compile_farm.limits import MAX_DEPTH, MAX_SETTINGS, MAX_TEXT
from compile_farm.runtime.trees import literal_of, literal_value, same_literal
from compile_farm.v1 import graph_pb2

_LARGEST_INTEGER = 2**62


class IncomparableError(Exception):
    """A subclass says something of itself that another process could not compare."""


def is_subclass(value: Any) -> bool:
    """Whether this is a tensor made of others, which it can be taken apart into."""
    return is_traceable_wrapper_subclass(value)


def plain_parts(path: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Its plain tensors, in AOTAutograd's order, each with its name; itself if it is plain."""
    if not is_subclass(tensor):
        yield path, tensor
        return
    for name in _attributes(tensor):
        yield from plain_parts(f"{path}.{name}", getattr(tensor, name))


def rebuilt(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A tensor of the same class and context, around what ``change`` gives for each plain part."""
    if not is_subclass(tensor):
        return change(tensor)
    names, context = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    inner = {name: rebuilt(getattr(tensor, name), change) for name in names}
    made: torch.Tensor = type(tensor).__tensor_unflatten__(  # type: ignore[attr-defined]
        inner, context, tensor.size(), tensor.stride()
    )
    return made


def subclass_states(path: str, tensor: torch.Tensor) -> Iterator[graph_pb2.Subclass]:
    """One record for a subclass and for each inside it; raises IncomparableError."""
    if not is_subclass(tensor):
        return
    said = _said(tensor)
    if len(said) > MAX_SETTINGS:
        raise IncomparableError(f"its context has over {MAX_SETTINGS} parts")
    settings = [graph_pb2.Setting(name=name, value=literal_of(value)) for name, value in said]
    yield graph_pb2.Subclass(path=path, type_name=_name_of(type(tensor)), settings=settings)
    for name in _attributes(tensor):
        yield from subclass_states(f"{path}.{name}", getattr(tensor, name))


def why_another(state: graph_pb2.Subclass, tensor: Any) -> str | None:
    """In what a tensor is not the subclass of this record; None if it is."""
    kind = _name_of(type(tensor))
    if kind != state.type_name or not is_subclass(tensor):
        return f"is a {kind}, captured was a {state.type_name}"
    try:
        now = dict(_said(tensor))
    except IncomparableError as error:
        return f"({kind}) can't be compared with what was captured: {error}"
    then = {one.name: literal_value(one.value) for one in state.settings}
    for name in (*then, *(name for name in now if name not in then)):
        if name not in now or name not in then or not same_literal(now[name], then[name]):
            return (
                f"({kind}) has {name}={now.get(name, 'missing')}, "
                f"captured was {then.get(name, 'missing')}"
            )
    return None


class Inside:
    """The tensors inside a subclass, as a dictionary that stands for a slot's.

    Looking one up raises KeyError once another subclass lies in the outer slot, or this one has
    changed (``model.half()`` swaps what it is under the same object): what it baked into the code
    has to be compared first, which ``get`` does.
    """

    def __init__(
        self, outer: dict[str, Any] | Inside, name: str, state: graph_pb2.Subclass
    ) -> None:
        """Raises BindError for a tensor that is not the one of ``state``."""
        self._outer, self._name, self._state = outer, name, state
        self._seen: Any = None
        self._attributes: dict[str, Any] = {}
        self._look()

    def __getitem__(self, name: str) -> Any:
        tensor = self._outer[self._name]
        if not self._is_as_seen(tensor):
            raise KeyError(name)
        return getattr(tensor, name, None)

    def get(self, name: str) -> Any:
        """As a dictionary's; raises BindError for another subclass than was captured."""
        self._look()
        return getattr(self._seen, name, None)

    def _look(self) -> None:
        tensor = self._outer.get(self._name)
        if self._is_as_seen(tensor):
            return
        if (problem := why_another(self._state, tensor)) is not None:
            raise BindError(
                f"the weight {self._state.path} {problem}",
                remedy="bind a model whose weights are of the same class and configuration as at "
                "capture, or capture this one",
            )
        # What a list holds changes without another list in its place.
        self._attributes = {
            key: list(value) if type(value) is list else value
            for key, value in tensor.__dict__.items()
        }
        self._seen = tensor

    def _is_as_seen(self, tensor: Any) -> bool:
        try:
            return tensor is self._seen and tensor.__dict__ == self._attributes
        except (AttributeError, RuntimeError):
            return False  # no tensor, or one whose attribute is another tensor


def _attributes(tensor: torch.Tensor) -> Sequence[str]:
    names: Sequence[str] = tensor.__tensor_flatten__()[0]  # type: ignore[attr-defined]
    for name in names:
        if not name.isidentifier() or not isinstance(getattr(tensor, name), torch.Tensor):
            raise IncomparableError(f"its attribute {name!r} is no tensor")
    return names


def _said(tensor: torch.Tensor) -> list[tuple[str, Any]]:
    """All that it says of itself beside the values, as names and plain values."""
    names, context = _attributes(tensor), tensor.__tensor_flatten__()[1]  # type: ignore[attr-defined]
    shape, stride = tuple(tensor.shape), tensor.stride()
    if not all(type(size) is int for size in (*shape, *stride)):
        raise IncomparableError("its sizes are no plain numbers")
    return [
        ("tensors", ", ".join(names)),
        ("shape", repr(shape)),
        ("stride", repr(stride)),
        ("dtype", str(tensor.dtype)),
        ("device", tensor.device.type),
        *_flat("context", context, 0),
    ]


def _flat(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """A context item by item, so that what differs can be named; never by its repr or its hash,
    which may leave out what matters."""
    if depth > MAX_DEPTH or len(name) > MAX_TEXT:
        raise IncomparableError("its context is nested too deep")
    children: list[tuple[str, Any]] = []
    if isinstance(value, enum.Enum):
        yield name, f"{_name_of(type(value))}.{value.name}"
    elif value is None or type(value) in (bool, int, float, str):
        if (type(value) is str and len(value) > MAX_TEXT) or (
            type(value) is int and abs(value) >= _LARGEST_INTEGER
        ):
            raise IncomparableError(f"{name} is too large")
        yield name, value
    elif isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        yield name, str(value)
    elif isinstance(value, torch.device):
        yield name, value.type  # an artifact runs on any device of its target
    elif isinstance(value, type | FunctionType) and "<" not in value.__qualname__:
        yield name, _name_of(value)
    elif isinstance(value, tuple | list):
        yield name, f"{_name_of(type(value))} of {len(value)}"
        labels = getattr(value, "_fields", None)
        children = [
            (f"{name}.{labels[index]}" if labels else f"{name}[{index}]", item)
            for index, item in enumerate(value)
        ]
    elif type(value) is dict:
        yield name, f"dict of {len(value)}"
        if not all(type(key) in (str, int) for key in value):
            raise IncomparableError(f"{name} has keys that are no texts or whole numbers")
        children = [(f"{name}[{key!r}]", value[key]) for key in sorted(value, key=repr)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield name, _name_of(type(value))
        fields = dataclasses.fields(value)
        children = [(f"{name}.{field.name}", getattr(value, field.name)) for field in fields]
    else:
        raise IncomparableError(f"{name} is a {_name_of(type(value))}")
    for label, item in children:
        yield from _flat(label, item, depth + 1)


def _name_of(kind: type | FunctionType) -> str:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}:"
    return f"{module}{kind.__qualname__}"[:MAX_TEXT]
