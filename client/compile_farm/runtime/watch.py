"""What changed about a model after it was bound, beside the values of its weights.

In: a model as it is when it is bound. Out: in words, what is otherwise at a later call; None if
nothing is. The compiled code has all of it as constants: a factor, a list of them, a layer's mode,
which function is the activation, that a layer has no bias, that nobody hooked into it. The quick
look costs a fraction of a microsecond for each module, so that each call can afford it.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterator
from operator import getitem, is_
from typing import Any

import torch

from compile_farm.runtime.modules import STANDARD, has_mode

# Equal means the same; objects of a model's own classes can't be compared.
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    enum.Enum,
    torch.dtype,
    torch.device,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    type,
)
# Longer containers are tables and vocabularies rather than settings.
_LONGEST = 64
# What torch's own layers have and their forward does not read: the weights' shapes say the same.
_UNREAD: tuple[tuple[type, frozenset[str]], ...] = (
    (torch.nn.Linear, frozenset({"in_features", "out_features"})),
    (torch.nn.modules.conv._ConvNd, frozenset({"in_channels", "out_channels"})),
    (torch.nn.Embedding, frozenset({"num_embeddings", "embedding_dim", "sparse"})),
    (torch.nn.LayerNorm, frozenset({"elementwise_affine"})),
    (torch.nn.modules.batchnorm._BatchNorm, frozenset({"num_features", "affine"})),
)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_GONE = object()


class ModelWatch:
    """Made when a model is bound, asked at each call."""

    def __init__(self, model: torch.nn.Module) -> None:
        modules = dict(model.named_modules())
        self._paths: list[str] = []
        self._homes: list[dict[str, Any]] = []
        self._names: list[str] = []
        for path, module in modules.items():
            for home, name in _watched(module):
                self._paths.append(path)
                self._homes.append(home)
                self._names.append(name)
        # Held, so that nothing else comes to lie at their addresses.
        self._seen = list(map(getitem, self._homes, self._names))
        # What a list holds changes without another list in its place; what a tuple holds does not.
        lists = [
            (place, copy)
            for place, value in enumerate(self._seen)
            if type(value) is not tuple and (copy := _settings_in(value)) is not None
        ]
        self._lists = [(self._seen[place], copy) for place, copy in lists]
        self._list_places = [place for place, _ in lists]
        self._hooks = [vars(module)[name] for module in modules.values() for name in _HOOKS]
        self._hook_counts = list(map(len, self._hooks))
        self._parents = [module._modules for module in modules.values() if module._modules]
        self._child_counts = list(map(len, self._parents))
        children = [(held, name) for held in self._parents for name in held]
        self._child_homes = [held for held, _ in children]
        self._child_names = [name for _, name in children]
        self._children = list(map(getitem, self._child_homes, self._child_names))

    def is_as_before(self) -> bool:
        """The quick look at all but the submodules; False means: ask ``changed``."""
        try:
            return (
                all(map(is_, map(getitem, self._homes, self._names), self._seen))
                and (not any(self._hooks) or list(map(len, self._hooks)) == self._hook_counts)
                and all(value == copy for value, copy in self._lists)
            )
        except KeyError:  # one is gone
            return False

    def has_same_modules(self) -> bool:
        """Whether each submodule is still the very object that was bound."""
        try:
            now = map(getitem, self._child_homes, self._child_names)
            same = all(map(is_, now, self._children))
        except KeyError:
            return False
        return same and list(map(len, self._parents)) == self._child_counts

    def changed(self) -> str | None:
        """In words; None if it is the same after all."""
        for path, home, name, then in zip(
            self._paths, self._homes, self._names, self._seen, strict=True
        ):
            now = home.get(name, _GONE)
            if now is then or (type(now) is type(then) and repr(now) == repr(then)):
                continue
            is_value = isinstance(then, _PLAIN) and now is not _GONE
            words = f"={now!r:.80}, it was {then!r:.80}" if is_value else ""
            return f"{_where(path)} has another {name}{words}"
        for place, (value, copy) in zip(self._list_places, self._lists, strict=True):
            if value != copy:
                return f"{_where(self._paths[place])} has other values in {self._names[place]}"
        if list(map(len, self._hooks)) != self._hook_counts:
            return "a forward hook was added to one of its modules, or removed"
        return None


def _watched(module: torch.nn.Module) -> Iterator[tuple[dict[str, Any], str]]:
    """Where a module has what its code may have read while it was traced."""
    held = vars(module)
    if has_mode(module):
        yield held, "training"
    idle = isinstance(module, torch.nn.modules.dropout._DropoutNd) and not module.training
    own = type(module).__module__.startswith("torch.nn.")
    unread = [names for kind, names in _UNREAD if own and isinstance(module, kind)]
    for name, value in held.items():
        if name in STANDARD or idle or any(name in names for names in unread):
            continue
        if isinstance(value, _PLAIN) or _settings_in(value) is not None:
            yield held, name
    for slots in (module._parameters, module._buffers):
        for name, tensor in slots.items():
            if tensor is None:  # no bias, no statistics
                yield slots, name


def _settings_in(value: Any) -> Any:
    """A copy of a container to compare with; None for what is none, or holds more than settings."""
    if type(value) not in (list, tuple, dict):
        return None
    items = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    if len(items) > _LONGEST or not all(isinstance(item, _PLAIN) for item in items):
        return None
    return type(value)(value)


def _where(path: str) -> str:
    return f"the module {path}" if path else "the model"
