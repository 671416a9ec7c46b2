"""Runs a graph in higher precision than it was written for: the reference for verifying.

Floating-point inputs are widened, and so is each floating-point dtype that the graph names. float8
stays, since casting to it is meant. An operator that reads its tensor's bits as another dtype has
no meaning in another precision; the caller then goes without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map

from compile_farm.v1 import artifact_pb2
from compiler_service.engine.inputs import compiled_order

_REAL = (torch.float16, torch.bfloat16, torch.float32)
_COMPLEX = (torch.complex32, torch.complex64)
_AS_BITS = ("aten.view.dtype",)


def run_precise(
    module: fx.GraphModule,
    compiled_inputs: Sequence[artifact_pb2.CompiledInput],
    values: list[Any],
    symbols: Mapping[int, int],
    dtype: torch.dtype,
) -> tuple[list[torch.Tensor], list[Any]]:
    """The graph's outputs for ``values`` in ``dtype``, and the inputs as it left them.

    Raises whatever an operator raises that has no kernel in ``dtype``.
    """
    wide = [_widen(value, dtype) for value in values]
    before = torch.get_default_dtype()
    # What an operator makes without naming a dtype (a mask, a scalar) must match the rest.
    torch.set_default_dtype(dtype)
    try:
        with torch.no_grad():
            outputs = _Precise(module, dtype).run(*compiled_order(compiled_inputs, wide, symbols))
    finally:
        torch.set_default_dtype(before)
    return list(outputs), wide


def _widen(value: Any, dtype: torch.dtype) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype in _REAL:
        return value.to(dtype)
    if value.dtype in _COMPLEX:
        return value.to(dtype.to_complex())
    return value


class _Precise(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, dtype: torch.dtype) -> None:
        super().__init__(module)
        self._dtype = dtype

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if str(target) in _AS_BITS:
            raise TypeError(f"{target} reads bits")
        args, kwargs = tree_map(self._dtype_of, (args, kwargs))
        return super().call_function(target, args, kwargs)

    def _dtype_of(self, value: Any) -> Any:
        if not isinstance(value, torch.dtype):
            return value
        if value in _REAL:
            return self._dtype
        return self._dtype.to_complex() if value in _COMPLEX else value
