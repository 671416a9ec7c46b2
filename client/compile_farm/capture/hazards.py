"""What a graph does to memory: writes that no compiler keeps right, and outputs that share memory.

In: an FX graph that may write in place, and fake inputs. It is run once on fake tensors, which
alias as real ones do. Out: for each output the input that it is a view of; or a CaptureError where
the graph writes through a view whose elements overlap. Eager's answer there depends on the order
in which a kernel visits elements, and functionalisation silently gives another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import guard_or_false
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from compile_farm.capture.ops import written_arguments
from compile_farm.errors import CaptureError
from compile_farm.runtime.overlap import meet_at

# Calls that can make a view whose elements overlap; without one of them no check is needed.
OVERLAPPING_VIEWS = frozenset(
    {"as_strided", "as_strided_", "expand", "expand_as", "unfold", "set_"}
)

_WRITING_OPERATORS = frozenset(
    {"setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior"}
)


class OverlapError(CaptureError):
    """The graph writes through a view whose elements overlap."""


class _WriteWatch(TorchDispatchMode):
    """Sees each operator before it is functionalised, with the tensors that it writes to."""

    # Their bodies run under the modes below; what they write inside is theirs alone.
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.written: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload):
            return func(*args, **kwargs)
        for tensor in written_arguments(func, args, kwargs):
            if isinstance(tensor, torch.Tensor):
                if has_internal_overlap(tensor):
                    raise OverlapError(
                        f"{func} writes through a view whose elements overlap "
                        f"(sizes {tuple(tensor.shape)}, strides {tensor.stride()})",
                        remedy="write to a clone() of the view",
                        reason="memory",
                    )
                _refuse_meeting(func, tensor, tree_leaves((args, kwargs)))
                self.written.append(tensor)
        return func(*args, **kwargs)


# Their kernels take no source and no index that lies in what they write to, not even all of it.
_OF_OTHER_MEMORY = ("index_put", "index_copy", "index_add", "scatter", "masked_scatter")


def _refuse_meeting(func: OpOverload, written: torch.Tensor, arguments: list[Any]) -> None:
    """Refuses a call that reads memory which it writes to through another view.

    ``x[1:].add_(x[:-1])``: eager raises where it notices, and else answers by the order of its
    writes. A compiler reads the old values.
    """
    others = list(arguments)
    del others[next(place for place, each in enumerate(others) if each is written)]
    for other in others:
        if not isinstance(other, torch.Tensor) or not _meet(written, other):
            continue
        if _lie_alike(written, other) and not func._opname.strip("_").startswith(_OF_OTHER_MEMORY):
            continue
        raise OverlapError(
            f"{func} writes to memory that it also reads through another view "
            f"(sizes {tuple(written.shape)} and {tuple(other.shape)})",
            remedy="read from a clone()",
            reason="memory",
        )


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tensor.storage_offset(), *tensor.shape, *tensor.stride())


def _lie_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and _layout(one) == _layout(other)


def _meet(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two fake tensors share an element; no for symbolic sizes, which the worker tries."""
    if one.layout != torch.strided or other.layout != torch.strided:
        return False
    if one.untyped_storage()._cdata != other.untyped_storage()._cdata:
        return False
    if not all(isinstance(number, int) for number in (*_layout(one), *_layout(other))):
        return False
    starts = [int(each.storage_offset()) * each.element_size() for each in (one, other)]
    with _disable_current_modes():  # it paints real memory
        return meet_at(starts[0], one, starts[1], other)


def has_internal_overlap(tensor: torch.Tensor) -> bool:
    """Whether two indices of the tensor may reach one element.

    Sorted by stride, each dimension must step over all that the smaller ones span. That is exact
    for every layout that torch's own views make, and says yes for exotic ones in doubt.
    """
    span = 1
    dimensions = [
        (stride, size)
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if not guard_or_false(size == 1)
    ]
    if any(guard_or_false(size == 0) for _, size in dimensions):
        return False
    if any(guard_or_false(stride == 0) for stride, _ in dimensions):
        return True
    if any(not isinstance(number, int) for pair in dimensions for number in pair):
        # Symbolic: only what is overlapping for every value counts.
        return False
    for stride, size in sorted(dimensions):
        if stride < span:
            return True
        span += stride * (size - 1)
    return False


def may_overlap(module: fx.GraphModule) -> bool:
    """Whether the graph may write to what overlaps (cheap, by name).

    It has a call that can make an overlapping view, or one that writes to one tensor and takes
    another, which may be a view of it.
    """
    for node in module.graph.nodes:
        target = node.target
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        name = name.split(".")[0]
        if node.op not in ("call_method", "call_function"):
            continue
        if name in OVERLAPPING_VIEWS:
            return True
        in_place = name.endswith("_") and not name.endswith("__")
        if not (in_place or "out" in node.kwargs or name in _WRITING_OPERATORS):
            continue
        taken = [
            leaf for leaf in tree_leaves((node.args, node.kwargs)) if isinstance(leaf, fx.Node)
        ]
        if len(taken) > 1:
            return True
    return False


def run_on_fakes(module: fx.GraphModule, inputs: Sequence[Any], mode: Any) -> list[Any]:
    """Runs the graph on fresh fake copies of ``inputs``; returns its flat outputs.

    Raises OverlapError as described above.
    """
    # The Python dispatcher decomposes composite operators with symbolic sizes; C++ can't.
    with mode, torch.no_grad(), enable_python_dispatcher(), _WriteWatch():
        return tree_leaves(fx.Interpreter(module).run(*inputs), is_leaf=lambda leaf: leaf is None)


def source_of(output: Any, inputs: Sequence[Any]) -> int | None:
    """Index of the input whose memory ``output`` shares, the very same object first."""
    if not isinstance(output, torch.Tensor) or output.layout != torch.strided:
        return None
    for index, tensor in enumerate(inputs):
        if tensor is output:
            return index
    storage = output.untyped_storage()._cdata
    for index, tensor in enumerate(inputs):
        if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata == storage:
            return index
    return None
