"""A tensor subclass written by hand, for the tests of several rooms: no library knows it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree


class Sum(torch.Tensor):
    """Stands for ``coarse + factor * fine``; both have its shape, the factor is its context."""

    coarse: torch.Tensor
    fine: torch.Tensor
    factor: float

    @staticmethod
    def __new__(cls, coarse: torch.Tensor, fine: torch.Tensor, factor: float) -> Sum:
        made: Sum = torch.Tensor._make_wrapper_subclass(
            cls, coarse.shape, strides=coarse.stride(), dtype=coarse.dtype, device=coarse.device
        )
        return made

    def __init__(self, coarse: torch.Tensor, fine: torch.Tensor, factor: float) -> None:
        self.coarse, self.fine, self.factor = coarse, fine, factor

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["coarse", "fine"], {"factor": self.factor}

    @classmethod
    def __tensor_unflatten__(cls, inner: dict[str, Any], context: Any, *layout: Any) -> Sum:
        return cls(inner["coarse"], inner["fine"], context["factor"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(factor={self.factor})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.detach.default, torch.ops.aten.t.default):
            one = args[0]
            return cls(func(one.coarse), func(one.fine), one.factor)
        args, kwargs = pytree.tree_map_only(Sum, Sum.plain, (args, kwargs or {}))
        return func(*args, **kwargs)

    def plain(self) -> torch.Tensor:
        """The tensor that it stands for."""
        return self.coarse + self.factor * self.fine


class OtherSum(Sum):
    """The same in all but its name."""


def weight(
    rows: int, columns: int, factor: float = 0.5, kind: type[Sum] = Sum, nested: bool = False
) -> nn.Parameter:
    """With random parts; ``nested``: one of them is a Sum as well."""
    fine: Any = torch.randn(rows, columns)
    if nested:
        fine = kind(fine, torch.randn(rows, columns), -2.0)
    made = kind(torch.randn(rows, columns) / columns, fine, factor)
    return nn.Parameter(made, requires_grad=False)


class Layers(nn.Module):
    """Two linear layers whose weights are Sums; the second's has one inside it."""

    def __init__(self, factor: float = 0.5) -> None:
        super().__init__()
        self.first = nn.Linear(8, 12)
        self.second = nn.Linear(12, 4)
        self.first.weight = weight(12, 8, factor)
        self.second.weight = weight(4, 12, nested=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(torch.relu(self.first(x)))
        return result
