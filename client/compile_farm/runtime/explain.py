"""Says in words why inputs or weights don't fit. Slow; called only once something differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from compile_farm.errors import InputMismatchError, InvalidGraphError
from compile_farm.runtime.checks import ALIGNMENT, in_transform, strides_fit, torch_dtype
from compile_farm.runtime.expressions import Linear, definitions, evaluate, symbols_of
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
    signature: graph_pb2.Signature, given: Mapping[int, Any], device: torch.device
) -> InputMismatchError:
    """The error for a call whose check failed; ``given`` has the inputs by index."""
    if in_transform():
        return InputMismatchError(
            "compiled code can't run inside torch.func (vmap, grad, jvp)",
            remedy="call the model itself there",
        )
    for index, value in given.items():
        entry = signature.inputs[index]
        problem = _kind_problem(entry, value, device)
        if problem:
            return _error(f"{_name(entry, index)} {problem}")
    try:
        symbols, words = _solve(signature, given)
    except InvalidGraphError as error:  # a size that divides by zero
        words = error.message
    if words:
        return _error(words)
    for index, value in given.items():
        entry = signature.inputs[index]
        if entry.WhichOneof("kind") == "tensor":
            problem = tensor_problem(entry, value, symbols, device)
            if problem is None and value.is_cuda and entry.mutated:
                misaligned = value.data_ptr() % ALIGNMENT
                problem = f"is not aligned to {ALIGNMENT} bytes" if misaligned else None
        else:
            wanted = evaluate(entry.scalar, symbols)
            problem = f"is {value}, the artifact takes {wanted}" if value != wanted else None
        if problem:
            return _error(f"{_name(entry, index)} {problem}")
    return _error("the inputs do not fit the artifact")


def shared_memory(entry: graph_pb2.Input, index: int) -> InputMismatchError:
    """The error for an input that a write of this call would reach, or that writes to another's."""
    return InputMismatchError(
        f"{_name(entry, index)} shares memory with another tensor of the call, and one of them is "
        "written to",
        remedy="pass a clone()",
    )


def _kind_problem(entry: graph_pb2.Input, value: Any, device: torch.device) -> str | None:
    """What is wrong with a value whatever the symbols are."""
    if entry.WhichOneof("kind") == "tensor":
        return tensor_problem(entry, value, {}, device)
    return None if type(value) is int else f"is a {type(value).__name__}, the artifact takes an int"


def _solve(
    signature: graph_pb2.Signature, given: Mapping[int, Any]
) -> tuple[dict[int, int], str | None]:
    """Values of the symbols, and what is wrong with one of them."""
    sizes: list[tuple[tuple[str, int], graph_pb2.Expr]] = []
    strides: list[tuple[tuple[str, int], graph_pb2.Expr]] = []
    for index, value in given.items():
        entry = signature.inputs[index]
        name = _name(entry, index)
        if entry.WhichOneof("kind") == "scalar":
            sizes.append(((name, value), entry.scalar))
            continue
        for dimension, (size, expr) in enumerate(zip(value.shape, entry.tensor.sizes, strict=True)):
            sizes.append(((f"{name}: size of dimension {dimension}", size), expr))
        for dimension, expr in enumerate(entry.tensor.strides):
            where = f"{name}: stride of dimension {dimension}"
            strides.append(((where, value.stride(dimension)), expr))
    symbols: dict[int, int] = {}
    for (what, number), linear in definitions([*sizes, *strides]):
        offset = evaluate(linear.offset, symbols)
        root, rest = divmod(number - offset, linear.factor)
        if rest:
            plus = f" plus {offset}" if offset else ""
            return symbols, (
                f"{what} is {number}, the artifact takes multiples of {linear.factor}{plus}"
            )
        symbols[linear.symbol] = root
        problem = _range_problem(signature.symbols[linear.symbol], root, linear, offset)
        if problem:
            return symbols, f"{what} is {number}, the artifact takes {problem}"
    for (what, number), expr in sizes:
        wanted = evaluate(expr, symbols)
        if number != wanted:
            return (
                symbols,
                f"{what} is {number}, with the other arguments' sizes it must be {wanted}",
            )
    return symbols, None


def _range_problem(symbol: graph_pb2.Symbol, root: int, linear: Linear, offset: int) -> str | None:
    low, high = symbol.minimum, symbol.maximum if symbol.HasField("maximum") else None
    if low <= root and (high is None or root <= high):
        return None
    first = linear.factor * low + offset
    return f"{first} and more" if high is None else f"{first} to {linear.factor * high + offset}"


def _name(entry: graph_pb2.Input, index: int) -> str:
    return f"argument {entry.name!r}" if entry.name else f"input {index}"


def _error(message: str) -> InputMismatchError:
    return InputMismatchError(
        message, remedy="call it as it was captured, or capture it with this shape"
    )
