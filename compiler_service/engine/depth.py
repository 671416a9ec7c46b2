"""How many numbers a graph adds up into one: what rounding may cost whoever adds in another order.

In: a graph and its real inputs. Out: its outputs, and the longest reduction that was met on the
way. A sum of n numbers in precision eps differs between two orders by about eps * sqrt(n), relative
to the norm (Higham, Accuracy and Stability of Numerical Algorithms, chapter 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from compile_farm.runtime.numbers import rounding

# Which argument's last dimension is summed over.
_PRODUCTS = {
    "mm": 0, "bmm": 0, "matmul": 0, "linear": 0, "mv": 0, "dot": 0, "_grouped_mm": 0,
    "addmm": 1, "baddbmm": 1, "addbmm": 1, "addmv": 1,
}  # fmt: skip
_CONVOLUTIONS = frozenset(
    {"convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"}
)
_TO_FEWER = frozenset(
    {"sum", "nansum", "mean", "var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm",
     "prod", "logsumexp", "avg_pool2d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d"}
)  # fmt: skip
_ALONG = frozenset(
    {"softmax", "_softmax", "log_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp"}
)
_NORMALISED = frozenset({"layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm"})
_PER_CHANNEL = frozenset(
    {"batch_norm", "native_batch_norm", "instance_norm", "group_norm", "native_group_norm"}
)

# Between two orders of one sum, and a few sums one after the other.
_SUMS = 2.0


def least_bound(dtype: torch.dtype, depth: int) -> float:
    """The relative error by norm that no result of this dtype can be blamed for.

    16-bit numbers are added up in float32, so that for them the length of a sum hardly counts.
    """
    real = dtype.to_real() if dtype.is_complex else dtype
    adding = torch.float32 if real.itemsize < torch.float32.itemsize else real
    return max(rounding(dtype), _SUMS * torch.finfo(adding).eps * math.sqrt(depth))


class DepthMeter(fx.Interpreter):
    """Runs a graph; ``depth`` is its longest reduction so far, those inside subgraphs left out."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.depth = 1

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        result = super().call_function(target, args, kwargs)
        if isinstance(target, OpOverload):
            self.depth = max(self.depth, _depth(target._opname, args, result))
        return result


def _depth(name: str, args: Sequence[Any], result: Any) -> int:
    if name in _PRODUCTS:
        return _last(args, _PRODUCTS[name])
    if name in _CONVOLUTIONS:
        weight = args[1]
        return int(weight.numel() // max(weight.shape[0], 1))
    if "scaled_dot_product" in name:
        return _last(args, 0) + int(args[1].shape[-2])
    if name in _NORMALISED:
        return math.prod(args[1])
    x = args[0] if args and isinstance(args[0], torch.Tensor) else None
    if x is None or x.dim() == 0:
        return 1
    if name in _ALONG and len(args) > 1 and isinstance(args[1], int):
        return int(x.shape[args[1]])
    if name in _PER_CHANNEL:
        return int(x.numel())
    given = result[0] if isinstance(result, list | tuple) and result else result
    if name in _TO_FEWER and isinstance(given, torch.Tensor):
        return int(x.numel() // max(given.numel(), 1))
    return 1


def _last(args: Sequence[Any], index: int) -> int:
    tensor = args[index] if len(args) > index else None
    known = isinstance(tensor, torch.Tensor) and tensor.dim() > 0
    return int(tensor.shape[-1]) if known else 1  # type: ignore[union-attr]
