"""Says in words why inputs or weights don't fit. Slow; called only once something differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from compile_farm.errors import InputMismatchError
from compile_farm.runtime.checks import ALIGNMENT, shares_memory, strides_fit, torch_dtype
from compile_farm.runtime.expressions import as_linear, evaluate, symbols_of
from compile_farm.v1 import graph_pb2


def tensor_problem(
    entry: graph_pb2.Input, tensor: Any, symbols: Mapping[int, int], device: torch.device
) -> str | None:
    """What is wrong with a tensor for this input, sizes that hang on unknown symbols aside."""
    spec = entry.tensor
    if not isinstance(tensor, torch.Tensor):
        return f"is a {type(tensor).__name__}, the artifact takes a tensor"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"is a {type(tensor).__name__}, a subclass of Tensor"
    if tensor.layout != torch.strided:
        return f"has the layout {tensor.layout}"
    if tensor.dtype != torch_dtype(spec.dtype):
        return f"is {tensor.dtype}, the artifact takes torch.{spec.dtype}"
    if tensor.device.type != spec.device_type:
        return f"is on {tensor.device}, the artifact takes it on {spec.device_type}"
    if spec.device_type == "cuda" and tensor.device.index != (device.index or 0):
        return f"is on {tensor.device}, the rest is on {device}"
    if tensor.is_conj() or tensor.is_neg():
        return "is a lazy conjugate or negative; call resolve_conj() or resolve_neg()"
    if tensor.dim() != len(spec.sizes):
        return f"has {tensor.dim()} dimensions, the artifact takes {len(spec.sizes)}"
    for dimension, (size, expr) in enumerate(zip(tensor.shape, spec.sizes, strict=True)):
        if symbols_of(expr) <= set(symbols) and size != evaluate(expr, symbols):
            wanted = evaluate(expr, symbols)
            return f"has size {size} in dimension {dimension}, the artifact takes {wanted}"
    if all(symbols_of(expr) <= set(symbols) for expr in spec.strides):
        strides = [evaluate(expr, symbols) for expr in spec.strides]
        if not strides_fit(tensor, strides):
            return (
                f"has strides {tensor.stride()}, the artifact takes {tuple(strides)}; "
                "call contiguous(), or capture with this layout"
            )
    return None


def input_mismatch(
    signature: graph_pb2.Signature,
    given: Mapping[int, Any],
    weights: Sequence[torch.Tensor],
    device: torch.device,
) -> InputMismatchError:
    """The error for a call whose check failed; ``given`` has the inputs by index."""
    symbols, problem = _solve(signature, given)
    if problem:
        return _error(problem)
    for index, value in given.items():
        entry = signature.inputs[index]
        if entry.WhichOneof("kind") == "tensor":
            words = tensor_problem(entry, value, symbols, device)
            if words:
                return _error(f"{_name(entry, index)} {words}")
            if entry.mutated and shares_memory(value, [*given.values(), *weights]):
                return _error(
                    f"{_name(entry, index)} is written to and shares memory with another tensor"
                )
            if value.is_cuda and entry.mutated and value.data_ptr() % ALIGNMENT:
                return _error(f"{_name(entry, index)} is not aligned to {ALIGNMENT} bytes")
        elif not isinstance(value, int) or value != evaluate(entry.scalar, symbols):
            return _error(f"{_name(entry, index)} is {value!r}, which does not fit")
    return _error("the inputs do not fit the artifact")


def _solve(
    signature: graph_pb2.Signature, given: Mapping[int, Any]
) -> tuple[dict[int, int], str | None]:
    """Values of the symbols, and what is wrong with one of them."""
    symbols: dict[int, int] = {}
    for index, value in given.items():
        entry = signature.inputs[index]
        pairs: list[tuple[str, Any, graph_pb2.Expr]] = []
        if entry.WhichOneof("kind") == "tensor" and isinstance(value, torch.Tensor):
            if value.dim() == len(entry.tensor.sizes):
                pairs = [
                    (f"the size of dimension {dimension} of {_name(entry, index)}", size, expr)
                    for dimension, (size, expr) in enumerate(
                        zip(value.shape, entry.tensor.sizes, strict=True)
                    )
                ]
        elif isinstance(value, int):
            pairs = [(_name(entry, index), value, entry.scalar)]
        for what, number, expr in pairs:
            linear = as_linear(expr)
            if linear is None or linear.symbol in symbols:
                continue
            root, rest = divmod(number - linear.offset, linear.factor)
            if rest:
                return symbols, (
                    f"{what} is {number}, the artifact takes multiples of {linear.factor}"
                    + (f" plus {linear.offset}" if linear.offset else "")
                )
            symbols[linear.symbol] = root
            symbol = signature.symbols[linear.symbol]
            low, high = symbol.minimum, symbol.maximum if symbol.HasField("maximum") else None
            if root < low or (high is not None and root > high):
                bottom = linear.factor * low + linear.offset
                top = "and more"
                if high is not None:
                    top = f"to {linear.factor * high + linear.offset}"
                return symbols, f"{what} is {number}, the artifact takes {bottom} {top}"
    return symbols, None


def _name(entry: graph_pb2.Input, index: int) -> str:
    return f"argument {entry.name!r}" if entry.name else f"input {index}"


def _error(message: str) -> InputMismatchError:
    return InputMismatchError(
        message, remedy="call it as it was captured, or capture it with this shape"
    )
