"""Memory that two tensors share, where one of them is written to.

In: the tensors of a call. Out: a pair of which one is written to and the other would see it, or
not, as the compiled code's fusion has it. Eager's order of reads and writes is lost there, so the
call is refused. Views that lie between each other without meeting (the keys and values of one
cache) pass.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import torch

# Over this many bytes, intervals that cross count as shared memory without looking closer.
_MAX_EXACT_BYTES = 2**26


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether any byte belongs to both."""
    return meet_at(one.data_ptr(), one, other.data_ptr(), other)


def meet_at(start: int, one: torch.Tensor, other_start: int, other: torch.Tensor) -> bool:
    """The same of tensors whose first bytes lie at ``start`` and ``other_start``."""
    if not one.numel() or not other.numel():
        return False
    if start + _extent(one) <= other_start or other_start + _extent(other) <= start:
        return False
    return _meet(
        other_start - start,
        one.shape,
        one.stride(),
        one.element_size(),
        other.shape,
        other.stride(),
        other.element_size(),
    )


class WriteWatch:
    """Looks, at each call, whether a write would reach another tensor of the call.

    Made for a set of weights; ``conflict`` takes the inputs. Where nothing is written, ``needed``
    is False and it need not be asked.
    """

    def __init__(
        self,
        written: Sequence[bool],
        weights: Sequence[torch.Tensor],
        weights_written: Sequence[bool],
    ) -> None:
        """``written`` says of each input, ``weights_written`` of each weight, whether it is."""
        self._written = list(written)
        self.needed = any(written) or any(weights_written)
        self._all = _Intervals(weights if any(written) else ())
        self._targets = _Intervals(
            [
                weight
                for weight, is_written in zip(weights, weights_written, strict=True)
                if is_written
            ]
        )

    def conflict(self, inputs: Sequence[Any]) -> int | None:
        """The position of an input that shares memory with a tensor that is written to, or is."""
        for position, (tensor, written) in enumerate(zip(inputs, self._written, strict=True)):
            if not isinstance(tensor, torch.Tensor):
                continue
            weights = self._all if written else self._targets
            if weights.reached_by(tensor):
                return position
            if written and any(
                isinstance(other, torch.Tensor) and shares_memory(tensor, other)
                for place, other in enumerate(inputs)
                if place != position
            ):
                return position
        return None


class _Intervals:
    """The memory of some tensors, merged into sorted intervals."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = list(tensors)
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(_span(tensor) for tensor in tensors if tensor.numel()):
            if self._ends and start < self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def reached_by(self, tensor: torch.Tensor) -> bool:
        if not self._starts or not tensor.numel():
            return False
        start, end = _span(tensor)
        # The last interval that begins before the tensor ends is the only one to look at first.
        place = bisect_right(self._starts, end - 1) - 1
        if place < 0 or self._ends[place] <= start:
            return False
        return any(shares_memory(tensor, other) for other in self._tensors)


def first_shared(
    tensors: Sequence[torch.Tensor], written: Sequence[bool]
) -> tuple[int, int] | None:
    """Positions of a tensor that is written to and of another that shares its memory."""
    if not any(written):
        return None
    spans = sorted(
        (*_span(tensor), index) for index, tensor in enumerate(tensors) if tensor.numel()
    )
    for place, (_, end, index) in enumerate(spans):
        for start, _, other in spans[place + 1 :]:
            if start >= end:
                break
            if (written[index] or written[other]) and shares_memory(tensors[index], tensors[other]):
                return (index, other) if written[index] else (other, index)
    return None


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte, and one past the last, of a tensor that is not empty."""
    start = tensor.data_ptr()
    return start, start + _extent(tensor)


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from its first to its last element, both included."""
    reach = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return (reach + 1) * tensor.element_size()


@functools.lru_cache(maxsize=4096)
def _meet(
    distance: int,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    width: int,
    other_sizes: tuple[int, ...],
    other_strides: tuple[int, ...],
    other_width: int,
) -> bool:
    """Whether two layouts meet whose first bytes lie ``distance`` apart: paints one, looks with the
    other. Remembered, since the same caches come with each call."""
    if _dense(sizes, strides) and _dense(other_sizes, other_strides):
        return True  # their intervals cross, and neither has gaps
    low = min(0, distance)
    ends = [
        offset + (sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) + 1) * size
        for offset, shape, steps, size in (
            (0, sizes, strides, width),
            (distance, other_sizes, other_strides, other_width),
        )
    ]
    total = max(ends) - low
    if total > _MAX_EXACT_BYTES:
        return True
    painted = torch.zeros(total, dtype=torch.bool)
    _bytes(painted, -low, sizes, strides, width).fill_(True)
    return bool(_bytes(painted, distance - low, other_sizes, other_strides, other_width).any())


def _dense(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _bytes(
    memory: torch.Tensor, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...], width: int
) -> torch.Tensor:
    return memory.as_strided((*sizes, width), (*(stride * width for stride in strides), 1), offset)
