"""Arithmetic that Inductor answers otherwise than eager does, for ordinary numbers.

In: nothing; ``install`` is called once in the process that compiles. Out: Inductor decomposes the
operators below as eager's kernels compute them.

Floor division and remainder of floats: Inductor rounds the quotient, so ``0.5 // 0.1`` gives 5
where eager gives 4, and ``x % y`` loses all digits where x is much larger than y. Truncated
division and fmod of integers: its code divides by zero without a look, which ends the process. And
``x * 0`` with an integer zero: Inductor writes zeros, where eager keeps NaN and infinity.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch._inductor.decomposition import decompositions
from torch._inductor.fx_passes import joint_graph

aten = torch.ops.aten


def install() -> None:
    """Puts them into Inductor's table; twice is as once."""
    for operator in (
        aten.remainder.Tensor,
        aten.remainder.Scalar,
        aten.remainder.Scalar_Tensor,
    ):
        decompositions[operator] = _remainder
    for operator in (aten.div.Tensor_mode, aten.div.Scalar_mode):
        decompositions[operator] = _div_mode
    for operator in (aten.fmod.Tensor, aten.fmod.Scalar):
        decompositions[operator] = _fmod
    for operator in (aten.floor_divide.default, aten.floor_divide.Scalar):
        decompositions[operator] = partial(torch.div, rounding_mode="floor")
    folder: Any = getattr(joint_graph, "UniformValueConstantFolder", None)
    if hasattr(folder, "_add_peephole_patterns"):
        folder._add_peephole_patterns = lambda self: None


def _remainder(x: Any, y: Any) -> Any:
    """As c10's kernel: fmod, moved to the sign of the divisor."""
    kind = torch.result_type(x, y)
    if not kind.is_floating_point:
        return NotImplemented
    x, y = _pair(x, y, kind)
    rest = torch.fmod(x, y)
    return torch.where(_of_other_sign(rest, y), rest + y, rest)


def _div_mode(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return _floor_divide(x, y)
    kind = torch.result_type(x, y)
    if rounding_mode == "trunc" and _is_integer(kind):
        return _truncated(*_pair(x, y, kind))
    return NotImplemented


def _fmod(x: Any, y: Any) -> Any:
    kind = torch.result_type(x, y)
    if not _is_integer(kind):
        return NotImplemented
    x, y = _pair(x, y, kind)
    return x - _truncated(x, y) * y


def _floor_divide(x: Any, y: Any) -> Any:
    """As c10::div_floor_floating.

    Its steps round to 16 bits where the tensors do; but by a number, eager computes in float32.
    """
    kind = torch.result_type(x, y)
    if not kind.is_floating_point:
        return NotImplemented
    narrow = kind in (torch.float16, torch.bfloat16) and not isinstance(y, torch.Tensor)
    wide = torch.float32 if narrow else kind
    x, y = _pair(x, y, wide)
    rest = torch.fmod(x, y)
    quotient = (x - rest) / y
    quotient = torch.where(_of_other_sign(rest, y), quotient - 1, quotient)
    floor = torch.floor(quotient)
    floor = torch.where(quotient - floor > 0.5, floor + 1, floor)
    plain = x / y
    zero = torch.copysign(torch.zeros_like(plain), plain)
    return torch.where(y == 0, plain, torch.where(quotient != 0, floor, zero)).to(kind)


def _truncated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """By floor division, which raises where the divisor is zero."""
    floor = torch.div(x, y, rounding_mode="floor")
    inexact = (floor * y != x) & ((x < 0) != (y < 0))
    return floor + inexact.to(x.dtype)


def _of_other_sign(rest: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
    return (rest != 0) & ((divisor < 0) != (rest < 0))


def _is_integer(kind: torch.dtype) -> bool:
    return not kind.is_floating_point and not kind.is_complex and kind is not torch.bool


def _pair(x: Any, y: Any, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as tensors of one dtype, a number on the device of the other."""
    device = next(each.device for each in (x, y) if isinstance(each, torch.Tensor))
    one, other = (
        each.to(kind)
        if isinstance(each, torch.Tensor)
        else torch.scalar_tensor(each, dtype=kind, device=device)
        for each in (x, y)
    )
    return one, other
