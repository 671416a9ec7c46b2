"""Compares what a model did in two ways: results, arguments and buffers, within a bound."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_flatten

# Relative, by norm: float32 results of two summation orders.
BOUND = 2e-6


def differences(mine: Any, theirs: Any, bound: float = BOUND) -> list[str]:
    """In words, what differs between two structures of tensors; empty if nothing does.

    Types of containers, dtypes, sizes and strides must be the same. Values of 16-bit floats may
    differ by the same relative norm as others: a farm keeps eager's roundings.
    """
    my_leaves, my_spec = tree_flatten(mine)
    their_leaves, their_spec = tree_flatten(theirs)
    if type(mine) is not type(theirs) or my_spec != their_spec:
        return [f"structure {my_spec} instead of {their_spec}"]
    found = []
    for index, (a, b) in enumerate(zip(my_leaves, their_leaves, strict=True)):
        problem = _leaf_difference(a, b, bound)
        if problem:
            found.append(f"leaf {index}: {problem}")
    return found


def _leaf_difference(a: Any, b: Any, bound: float) -> str | None:
    if not isinstance(b, torch.Tensor):
        return None if type(a) is type(b) and (a == b or a != a) else f"{a!r} instead of {b!r}"
    if not isinstance(a, torch.Tensor):
        return f"a {type(a).__name__} instead of a tensor"
    for name in ("dtype", "shape", "device"):
        if getattr(a, name) != getattr(b, name):
            return f"{name} {getattr(a, name)} instead of {getattr(b, name)}"
    if a.stride() != b.stride():
        return f"strides {a.stride()} instead of {b.stride()}"
    if b.numel() == 0:
        return None
    if not (b.is_floating_point() or b.is_complex()):
        return None if torch.equal(a, b) else f"{int((a != b).sum())} integers differ"
    wide = torch.complex128 if b.is_complex() else torch.float64
    p, q = a.detach().to(wide), b.detach().to(wide)
    if not torch.equal(torch.isnan(p), torch.isnan(q)):
        return "NaN in other places"
    p, q = torch.nan_to_num(p), torch.nan_to_num(q)
    error = float((p - q).norm() / (q.norm() + 1e-30))
    return f"relative error {error:.3g}" if error > bound else None
