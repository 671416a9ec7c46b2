"""How far two tensors are apart, and copies to compare with.

In: tensors. Out: relative errors, the roundings of a dtype, a copy that lies in memory as its
original does. The worker compares an artifact with eager by these, and so does a host (canary.py).
"""

from __future__ import annotations

import torch

# Roundings of a dtype that no bound goes below: what reordering a sum may cost by itself.
_ROUNDINGS = {torch.float64: 64.0, torch.float32: 32.0, torch.bfloat16: 4.0, torch.float16: 8.0}


def rounding(dtype: torch.dtype) -> float:
    """The relative error that results of this dtype may always have."""
    real = dtype.to_real() if dtype.is_complex else dtype
    return _ROUNDINGS.get(real, 2.0) * torch.finfo(real).eps


def is_inexact(tensor: torch.Tensor) -> bool:
    """Whether its numbers are rounded ones; all others must be equal."""
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """In float64; a complex number as two."""
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.detach().to(torch.float64)


def same_kind(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether NaN and the infinities stand at the same places."""
    return (
        torch.equal(torch.isnan(one), torch.isnan(other))
        and torch.equal(torch.isposinf(one), torch.isposinf(other))
        and torch.equal(torch.isneginf(one), torch.isneginf(other))
    )


def relative_error(value: torch.Tensor, reference: torch.Tensor) -> float:
    """norm(value - reference) / norm(reference); 0 where there is nothing."""
    if value.numel() == 0:
        return 0.0
    return float((value - reference).norm() / reference.norm().clamp_min(1e-30))


def largest_error(value: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest difference of two elements, relative to the largest element."""
    if value.numel() == 0:
        return 0.0
    scale = reference.abs().max().clamp_min(1e-30)
    return float((value - reference).abs().max() / scale)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as bytes, so that NaN equals itself and minus zero is not zero."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else flat


def reach(tensor: torch.Tensor) -> int:
    """Elements of memory from its first to its last; 0 for an empty one."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def copy_as_it_lies(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, at an address that torch chose: an aligned one.

    Its memory is copied as it lies, since the elements of an expanded tensor share theirs.
    """
    with torch.no_grad():
        flat = tensor.as_strided((reach(tensor),), (1,)).clone()
        return flat.as_strided(tensor.shape, tensor.stride())
