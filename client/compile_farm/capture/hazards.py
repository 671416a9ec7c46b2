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
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from compile_farm.capture.ops import written_arguments
from compile_farm.errors import CaptureError

# Calls that can make a view whose elements overlap; without one of them no check is needed.
OVERLAPPING_VIEWS = frozenset(
    {"as_strided", "as_strided_", "expand", "expand_as", "unfold", "set_"}
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
                self.written.append(tensor)
        return func(*args, **kwargs)


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
    """Whether the graph has a call that can make an overlapping view (cheap, by name)."""
    for node in module.graph.nodes:
        target = node.target
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        if node.op in ("call_method", "call_function") and name.split(".")[0] in OVERLAPPING_VIEWS:
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
