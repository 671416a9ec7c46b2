"""Tensors that are one at capture and may be two later: torch.export would make one input of them.

In: the model and the arguments of one call. Out: arguments whose memory is their own, and, for as
long as a model is captured, tied weights that are one object for each of their names. torch.export
knows tensors by identity; an artifact whose two weights are one input would answer for an untied
model with the weights of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from compile_farm.runtime.numbers import copy_as_it_lies
from compile_farm.runtime.subclasses import is_subclass, plain_parts, rebuilt


def apart(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, copied where they share memory with another or with a weight."""
    weights = [
        part
        for weight in (*model.parameters(), *model.buffers())
        for _, part in plain_parts("", weight)
    ]
    seen = {weight.untyped_storage()._cdata for weight in weights if _is_plain(weight)}

    def own(value: torch.Tensor) -> torch.Tensor:
        if not _is_plain(value):
            return value
        storage = value.untyped_storage()._cdata
        if storage in seen:
            return copy_as_it_lies(value)
        seen.add(storage)
        return value

    moved: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map_only(
        torch.Tensor, own, (args, kwargs)
    )
    return moved


@contextmanager
def untied(model: torch.nn.Module) -> Iterator[None]:
    """Inside, a weight with several names is as many tensors, which share its memory."""
    seen: set[int] = set()
    replaced: list[tuple[dict[str, Any], str, torch.Tensor]] = []
    try:
        for module in model.modules():
            slots: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
            for held in slots:
                for name, tensor in held.items():
                    if tensor is None or not (_is_plain(tensor) or is_subclass(tensor)):
                        continue
                    # Two subclasses may hold one tensor.
                    ids = {id(tensor), *(id(part) for _, part in plain_parts("", tensor))}
                    if ids & seen:
                        replaced.append((held, name, tensor))
                        held[name] = _twin(tensor)
                    seen |= ids
        yield
    finally:
        for held, name, tensor in replaced:
            held[name] = tensor


def _twin(tensor: torch.Tensor) -> torch.Tensor:
    if is_subclass(tensor):
        twin = rebuilt(tensor, torch.Tensor.detach)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        return torch.nn.Parameter(twin, tensor.requires_grad) if is_parameter else twin
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
    return tensor.detach()


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and not tensor.is_conj()
        and not tensor.is_neg()
    )
