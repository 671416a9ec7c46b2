"""A model's weights: found by name, checked once, and watched at each call.

A slot is a dictionary and a name in it (``module._parameters["weight"]``), so that a parameter
which somebody replaces is seen at the next call. For a tensor inside a subclass the subclass takes
the dictionary's place. What is compared then is the address of each: a
weight that moved is checked again before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from compile_farm.errors import BindError, InputMismatchError
from compile_farm.runtime.checks import ALIGNMENT, torch_dtype
from compile_farm.runtime.explain import tensor_problem
from compile_farm.runtime.expressions import symbols_of
from compile_farm.runtime.subclasses import Inside
from compile_farm.v1 import graph_pb2

Slot = tuple[dict[str, Any], str]
# Where a weight lies that is only read.
Place = tuple[dict[str, Any] | Inside, str]


def check_weights(
    entries: Sequence[graph_pb2.Input], weights: Sequence[Any], device: torch.device
) -> None:
    """Raises InputMismatchError naming the first weight that does not fit its entry."""
    for entry, weight in zip(entries, weights, strict=True):
        problem = weight_problem(entry, weight, device)
        if problem:
            raise InputMismatchError(f"the weight {entry.name or '(unnamed)'} {problem}")


def is_fixed(entry: graph_pb2.Input) -> bool:
    """Whether nothing of the tensor's layout hangs on a symbol, so that one check is enough."""
    spec = entry.tensor
    return not any(symbols_of(expr) for expr in (*spec.sizes, *spec.strides))


def weight_problem(entry: graph_pb2.Input, weight: Any, device: torch.device) -> str | None:
    """What is wrong with a weight, in words that follow its name; None if nothing is."""
    if _is_equal(entry.tensor, weight, device):
        return None
    if not is_fixed(entry):
        return "has a size that is not fixed; mark only inputs as dynamic"
    problem = tensor_problem(entry, weight, {}, device)
    if problem is None and weight.is_cuda and weight.data_ptr() % ALIGNMENT:
        return f"is not aligned to {ALIGNMENT} bytes; clone() it"
    return problem


def _is_equal(spec: graph_pb2.TensorSpec, weight: Any, device: torch.device) -> bool:
    """The quick answer, which nearly every weight gets; False means: look closer."""
    if type(weight) not in (torch.Tensor, torch.nn.Parameter) or weight.layout != torch.strided:
        return False
    exprs = (*spec.sizes, *spec.strides)
    if any(expr.WhichOneof("kind") != "constant" for expr in exprs):
        return False
    where = device if spec.device_type == device.type else torch.device(spec.device_type)
    return (
        weight.dtype is torch_dtype(spec.dtype)
        and weight.device == where
        and (*weight.shape, *weight.stride()) == tuple(expr.constant for expr in exprs)
        and not (weight.is_neg() or weight.is_conj())
        and not (weight.is_cuda and weight.data_ptr() % ALIGNMENT)
    )


def find_slots(
    model: torch.nn.Module,
    entries: Sequence[graph_pb2.Input],
    subclasses: Sequence[graph_pb2.Subclass],
    device: torch.device,
) -> list[Place]:
    """Where each weight of ``entries`` lives in ``model``.

    Raises BindError for a missing one, and for one that is not the subclass of the capture.
    """
    places = _Places(model, subclasses)
    return [
        ({"data": _constant(entry, device)}, "data") if entry.data else places.slot(entry.name)
        for entry in entries
    ]


def require_no_other(
    model: torch.nn.Module,
    entries: Sequence[graph_pb2.Input],
    subclasses: Sequence[graph_pb2.Subclass],
) -> None:
    """Raises BindError for a weight that the capture had none of: a bias where there was none.

    A capture has them all, also those that ``forward`` does not use.
    """
    known = {entry.name for entry in entries} | {state.path for state in subclasses}
    for path, module in model.named_modules():
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            full = f"{path}.{name}" if path else name
            if tensor is not None and full not in known:
                raise BindError(
                    f"the model has the weight {full!r}, which the captured one had not",
                    remedy="bind a model of the same configuration, or capture this one",
                )


class _Places:
    def __init__(self, model: torch.nn.Module, subclasses: Sequence[graph_pb2.Subclass]) -> None:
        self._model = type(model).__name__
        self._modules = dict(model.named_modules(remove_duplicate=False))
        self._subclasses: dict[str, Inside] = {}
        for state in subclasses:  # those inside another come after it
            self._subclasses[state.path] = Inside(*self.slot(state.path), state)

    def slot(self, path: str) -> Place:
        owner, _, name = path.rpartition(".")
        if owner in self._subclasses:
            return self._subclasses[owner], name
        module = self._modules.get(owner)
        if module is not None:
            for held in (module._parameters, module._buffers, module.__dict__):
                if isinstance(held.get(name), torch.Tensor):
                    return held, name
        raise BindError(
            f"{self._model} has no weight {path!r}, which the artifact takes",
            remedy="bind a model of the same class and configuration as was captured",
        )


def _constant(entry: graph_pb2.Input, device: torch.device) -> torch.Tensor:
    """A tensor that the code made at capture, from the bytes in the manifest."""
    dtype = torch_dtype(entry.tensor.dtype)
    flat = torch.frombuffer(bytearray(entry.data), dtype=dtype)
    sizes = [size.constant for size in entry.tensor.sizes]
    strides = [stride.constant for stride in entry.tensor.strides]
    where = device if entry.tensor.device_type == "cuda" else torch.device("cpu")
    return flat.as_strided(sizes, strides).to(where)
