"""Results that are views at sizes over 1 and something else at 1, or the other way round.

In: an exported graph, its inputs, and for each result the input that it is a view of. Out: nothing,
or a CaptureError. The graph was traced at one size of each dynamic dimension, where ``squeeze`` did
nothing and ``contiguous`` copied; at size 1 eager does otherwise, and a view is not compiled code
that the worker could compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from compile_farm.capture.expressions import SymbolTable
from compile_farm.capture.hazards import run_on_fakes, source_of
from compile_farm.errors import CaptureError
from compile_farm.runtime.expressions import evaluate
from compile_farm.v1 import graph_pb2


def check_smallest(
    module: fx.GraphModule,
    values: Sequence[Any],
    symbols: SymbolTable,
    leaves: Sequence[graph_pb2.Leaf],
    inputs: Sequence[int],
) -> None:
    """Runs ``module`` on fakes at sizes 0 and 1, as far as they are promised.

    Args:
        values: one for each placeholder, with symbolic sizes.
        leaves: what was recorded of each result.
        inputs: positions of the placeholders that are inputs of the Signature, in its order.
    """
    backed = {index: each for index, each in enumerate(symbols.symbols) if not each.unbacked}
    for small in (1, 0):
        if not any(symbol.minimum <= small for symbol in backed.values()):
            continue
        sizes = {
            index: small if symbol.minimum <= small else max(symbol.hint, symbol.minimum)
            for index, symbol in backed.items()
        }
        mode = torch._subclasses.FakeTensorMode()
        fakes = [_at(value, symbols, sizes, mode) for value in values]
        try:
            results = run_on_fakes(module, fakes, mode)
        except Exception:  # no answer there in eager either: the worker finds out
            continue
        tensors = [fakes[position] for position in inputs]
        for number, (leaf, result) in enumerate(zip(leaves, results, strict=True)):
            if not _is_as_recorded(leaf, result, tensors, sizes):
                raise CaptureError(
                    f"result {number} is another view of the inputs where a size is {small} than "
                    "where it is larger",
                    remedy="give the dimension a minimum of 2, or return a clone()",
                    reason="memory",
                )


def _at(value: Any, symbols: SymbolTable, sizes: dict[int, int], mode: Any) -> Any:
    def number(size: Any) -> int:
        return int(evaluate(symbols.encode(size), sizes))

    if isinstance(value, torch.SymInt):
        return number(value)
    if not isinstance(value, torch.Tensor):
        return value
    with mode:
        return torch.empty_strided(
            [number(size) for size in value.shape],
            [number(step) for step in value.stride()],
            dtype=value.dtype,
            device=value.device,
        )


def _is_as_recorded(
    leaf: graph_pb2.Leaf, result: Any, tensors: Sequence[Any], sizes: dict[int, int]
) -> bool:
    source = source_of(result, tensors)
    if not leaf.HasField("alias"):
        return source is None
    alias = leaf.alias
    if source != alias.input or alias.identity:
        return source == alias.input
    shape = tuple(evaluate(size, sizes) for size in alias.sizes)
    return tuple(result.shape) == shape and (
        result.numel() == 0 or result.storage_offset() == evaluate(alias.storage_offset, sizes)
    )
