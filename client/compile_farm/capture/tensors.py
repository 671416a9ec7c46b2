"""What is read from real tensors at capture: the bytes of constants and the range of integers."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from compile_farm.v1 import graph_pb2

_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The elements of a contiguous tensor, little-endian as the machine has them."""
    # A backend is called under the tracer's own fake mode, which real tensors must not meet.
    with _disable_current_modes():
        dense = tensor.detach().cpu().contiguous()
    if dense.numel() == 0:
        return b""
    return ctypes.string_at(dense.data_ptr(), dense.numel() * dense.element_size())


def value_range(example: Any) -> graph_pb2.ValueRange | None:
    """Smallest and largest value of a real integer tensor, or None where that means nothing."""
    if (
        not isinstance(example, torch.Tensor)
        or example.dtype not in _INTEGERS
        or isinstance(example, torch._subclasses.FakeTensor)
        or example.device.type not in ("cpu", "cuda")
        or example.numel() == 0
    ):
        return None
    with _disable_current_modes():
        low, high = torch.aminmax(example)
        return graph_pb2.ValueRange(minimum=int(low), maximum=int(high))
