"""A method of a model in the place of its ``forward``, for capture and binding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from compile_farm.errors import CompileFarmError

if TYPE_CHECKING:
    import torch


def method_of(model: torch.nn.Module, name: str) -> Callable[..., Any]:
    """The bound method; for "forward" the model itself, whose hooks run. CompileFarmError."""
    if name == "forward":
        return model
    found = getattr(model, name, None)
    if not callable(found):
        raise CompileFarmError(
            f"{type(model).__name__} has no method {name!r}",
            remedy="name a method that takes and returns tensors, as forward does",
        )
    return found  # type: ignore[no-any-return]


@contextmanager
def as_forward(model: torch.nn.Module, name: str) -> Iterator[None]:
    """Inside, ``model(...)`` calls its method ``name``."""
    if name == "forward":
        yield
        return
    held = vars(model)
    before = held.get("forward")
    held["forward"] = method_of(model, name)
    try:
        yield
    finally:
        if before is None:
            held.pop("forward", None)
        else:
            held["forward"] = before
