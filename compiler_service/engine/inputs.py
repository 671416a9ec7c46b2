"""Real inputs for a signature: random values that a model of this shape could meet.

In: a Signature, a value for each symbol, a seed. Out: tensors (and integers) in the Signature's
order, and in the order that the compiled code takes. Integer inputs stay inside the range that the
client saw, since most of them are indices; without one they are 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from compile_farm.runtime.expressions import evaluate
from compile_farm.runtime.numbers import copy_as_it_lies
from compile_farm.v1 import artifact_pb2, graph_pb2
from compiler_service.engine.decode import torch_dtype

_INTEGERS = frozenset({"uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"})


def symbol_values(
    signature: graph_pb2.Signature,
) -> tuple[list[dict[int, int]], list[dict[int, int]]]:
    """Which sizes to try, all symbols together and each by itself.

    Together: the hints, then the smallest and the largest that are promised. By itself, the others
    at their hints: smallest, largest and middle. Without an upper bound, the largest is a little
    more than twice the hint.
    """
    backed = {index: s for index, s in enumerate(signature.symbols) if not s.unbacked}
    if not backed:
        return [{}], []
    hints: dict[int, int] = {}
    lows: dict[int, int] = {}
    highs: dict[int, int] = {}
    for index, symbol in backed.items():
        low = max(symbol.minimum, 0)
        high = symbol.maximum if symbol.HasField("maximum") else None
        hint = max(symbol.hint, low)
        hints[index] = hint if high is None else min(hint, high)
        lows[index] = low
        highs[index] = 2 * hints[index] + 1 if high is None else high
    # Odd where it can be: a tail behind the vector width is where code goes wrong.
    middles = {index: (lows[index] + highs[index]) // 2 | 1 for index in backed}
    middles = {index: min(value, highs[index]) for index, value in middles.items()}
    together: list[dict[int, int]] = [hints]
    alone: list[dict[int, int]] = []
    for values in (lows, highs):
        if values not in together and _elements(signature, values) <= _MAX_ELEMENTS:
            together.append(values)
    for index in backed:
        for ends in (lows, highs, middles):
            values = {**hints, index: ends[index]}
            new = values not in together and values not in alone
            if new and _elements(signature, values) <= _MAX_ELEMENTS:
                alone.append(values)
    return together, alone[:_MAX_ALONE]


# Each costs three runs of the graph.
_MAX_ALONE = 6
# Inputs over this many elements aren't tried at the ends of the ranges: 2 GiB of float32.
_MAX_ELEMENTS = 2**29


def _elements(signature: graph_pb2.Signature, values: Mapping[int, int]) -> int:
    return sum(
        math.prod(int(evaluate(size, values)) for size in entry.tensor.sizes)
        for entry in signature.inputs
        if entry.WhichOneof("kind") == "tensor"
    )


def random_inputs(
    signature: graph_pb2.Signature,
    symbols: Mapping[int, int],
    device: torch.device,
    seed: int,
    *,
    cautious: bool = False,
) -> list[Any]:
    """One value for each input of the Signature. ``cautious``: all integers are zero."""
    generator = torch.Generator().manual_seed(seed)
    values: list[Any] = []
    for entry in signature.inputs:
        if entry.WhichOneof("kind") == "scalar":
            values.append(int(evaluate(entry.scalar, symbols)))
        else:
            values.append(_random_tensor(entry, symbols, device, generator, cautious))
    return values


def compiled_order(
    compiled_inputs: Sequence[artifact_pb2.CompiledInput],
    values: Sequence[Any],
    symbols: Mapping[int, int],
) -> list[torch.Tensor]:
    """The tensors that the compiled code takes, size carriers included."""
    return [
        values[item.input]
        if item.WhichOneof("kind") == "input"
        else torch.empty(1, dtype=torch.uint8).as_strided((symbols[item.size_carrier],), (0,))
        for item in compiled_inputs
    ]


def copy_all(values: Sequence[Any]) -> list[Any]:
    """Copies with the same strides, since a run may write to its inputs."""
    return [
        copy_as_it_lies(value) if isinstance(value, torch.Tensor) else value for value in values
    ]


def _span(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements of memory that a tensor reaches over."""
    if any(size == 0 for size in sizes):
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def _random_tensor(
    entry: graph_pb2.Input,
    symbols: Mapping[int, int],
    device: torch.device,
    generator: torch.Generator,
    cautious: bool,
) -> torch.Tensor:
    spec = entry.tensor
    sizes = [int(evaluate(size, symbols)) for size in spec.sizes]
    strides = [int(evaluate(stride, symbols)) for stride in spec.strides]
    dtype = torch_dtype(spec.dtype)
    where = device if spec.device_type == device.type else torch.device(spec.device_type)
    if entry.data:
        flat = torch.frombuffer(bytearray(entry.data), dtype=dtype)
        return flat.as_strided(sizes, strides).to(where)
    span = _span(sizes, strides)
    if spec.dtype == "bool":
        flat = torch.randint(0, 2, (span,), generator=generator, dtype=torch.uint8).bool()
    elif spec.dtype in _INTEGERS:
        flat = _integers(entry, span, generator, cautious).to(dtype)
    elif dtype.is_complex:
        real = torch.randn((span, 2), generator=generator)
        flat = torch.view_as_complex(real).to(dtype)
    else:
        flat = _floats(entry, sizes, span, generator).to(dtype)
    return flat.to(where).as_strided(sizes, strides)


def _integers(
    entry: graph_pb2.Input, span: int, generator: torch.Generator, cautious: bool
) -> torch.Tensor:
    if cautious:
        return torch.zeros(span, dtype=torch.int64)
    low, high = 0, 1
    if entry.HasField("value_range"):
        low, high = entry.value_range.minimum, entry.value_range.maximum
        # A buffer's counter may stand at one value; torch.randint needs room for one more.
    return torch.randint(low, max(high, low) + 1, (span,), generator=generator)


def _floats(
    entry: graph_pb2.Input, sizes: list[int], span: int, generator: torch.Generator
) -> torch.Tensor:
    if entry.role == graph_pb2.ROLE_USER_INPUT:
        return torch.randn(span, generator=generator)
    if len(sizes) <= 1:
        # Scales, biases and running variances: positive, so that a root or a division is defined.
        return torch.rand(span, generator=generator) + 0.5
    # Keeps a deep network's activations near one.
    fan_in = max(math.prod(sizes[1:]), 1)
    return torch.randn(span, generator=generator) / math.sqrt(fan_in)
