"""Arithmetic that Inductor answers otherwise than eager does, for ordinary numbers.

In: nothing; ``install`` is called once in the process that compiles. Out: Inductor decomposes the
operators below as eager's kernels compute them.

Floor division and remainder of floats: Inductor rounds the quotient, so ``0.5 // 0.1`` gives 5
where eager gives 4, and ``x % y`` loses all digits where x is much larger than y. Truncated
division and fmod of integers: its code divides by zero without a look, which ends the process.
``x * 0`` with an integer zero: Inductor writes zeros, where eager keeps NaN and infinity. And
where eager's roundings are kept, in 16 bits: lerp and glu round once, at their end, and a product
to which something is added rounds before that. index_select takes no index from the end; Inductor
makes an ordinary index of it, which does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.decomposition import decompositions
from torch._inductor.fx_passes import joint_graph, post_grad

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
    for operator in (aten.lerp.Scalar, aten.lerp.Tensor, aten.glu.default):
        if not isinstance(decompositions.get(operator), _RoundedOnce):
            decompositions[operator] = _RoundedOnce(operator, decompositions.get(operator))
    if not isinstance(decompositions.get(aten.index_select.default), partial):
        before = decompositions.get(aten.index_select.default)
        decompositions[aten.index_select.default] = partial(_index_select, before)
    unfused: Any = getattr(post_grad, _UNFUSED, None)
    if unfused is not None and not isinstance(unfused, _Unfused):
        setattr(post_grad, _UNFUSED, _Unfused(unfused))
    folder: Any = getattr(joint_graph, "UniformValueConstantFolder", None)
    if hasattr(folder, "_add_peephole_patterns"):
        folder._add_peephole_patterns = lambda self: None


_NARROW = (torch.float16, torch.bfloat16)
# Asked before a product and a sum are made one addmm.
_UNFUSED = "should_prefer_unfused_addmm"


class _RoundedOnce:
    """An operator on 16-bit tensors as one on float32 tensors, whose result is rounded."""

    def __init__(self, operator: Any, otherwise: Any) -> None:
        self._operator, self._otherwise = operator, otherwise

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kinds = {each.dtype for each in args if isinstance(each, torch.Tensor)}
        (kind, *others) = kinds
        if kind not in _NARROW or others or not getattr(config, "emulate_precision_casts", False):
            return self._otherwise(*args, **kwargs) if self._otherwise else NotImplemented
        wide = [each.float() if isinstance(each, torch.Tensor) else each for each in args]
        return self._operator(*wide, **kwargs).to(kind)


class _Unfused:
    def __init__(self, otherwise: Any) -> None:
        self._otherwise = otherwise

    def __call__(self, match: Any) -> bool:
        narrow = match.kwargs["inp"].meta["val"].dtype in _NARROW
        if narrow and getattr(config, "emulate_precision_casts", False):
            return True
        return bool(self._otherwise(match))


def _index_select(otherwise: Any, x: Any, dim: int, index: Any) -> Any:
    """A negative index as one that is out of bounds wherever it is looked up."""
    if not x.dim() or index.dim() != 1:
        return otherwise(x, dim, index) if otherwise else NotImplemented
    places = [None] * (dim % x.dim())
    return aten.index.Tensor(x, [*places, index.masked_fill(index < 0, 2**31 - 1)])


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
    narrow = kind in _NARROW and not isinstance(y, torch.Tensor)
    wide = torch.float32 if narrow else kind
    x, y = _pair(x, y, wide)
    rest = torch.fmod(x, y)
    plain = x / y
    # Where the quotient overflows, a vectorised fmod has no answer.
    overflows = torch.isinf(plain) & ~torch.isinf(x)
    quotient = torch.where(overflows, x, x - rest) / y
    quotient = torch.where(_of_other_sign(rest, y), quotient - 1, quotient)
    floor = torch.floor(quotient)
    floor = torch.where(quotient - floor > 0.5, floor + 1, floor)
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
