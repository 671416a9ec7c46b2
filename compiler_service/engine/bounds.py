"""Indices that may lie outside of what they index: checked where a process survives it.

In: Inductor's graph, decomposed and functional, as a pass of its own. Out: each index of a read or
write goes through a check that raises, and where it is out of bounds the kernel sees a zero.
Inductor's kernels check as well, but throw inside an OpenMP region, which ends the process: one bad
token id would stop a server. Eager raises there, and so does the call now.

For the CPU alone. A GPU's kernels assert on the device, in eager too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass

aten = torch.ops.aten

# (x, indices of the leading dimensions, ...); they count from the end where they are negative.
_BY_TENSORS = frozenset({aten.index.Tensor, aten.index_put.default, aten.index_put_.default})
# (x, dimension, index, ...)
_ALONG = frozenset(
    {
        aten.gather.default,
        aten.scatter.src,
        aten.scatter.value,
        aten.scatter.reduce,
        aten.scatter.value_reduce,
        aten.scatter_add.default,
        aten.scatter_reduce.two,
        aten.scatter_.src,
        aten.scatter_.value,
        aten.scatter_add_.default,
        aten.scatter_reduce_.two,
    }
)
_INTEGERS = frozenset({torch.int32, torch.int64})


@dataclass
class _Use:
    """An index of a call: what it indexes, and the values that are in bounds."""

    index: fx.Node
    indexed: fx.Node
    dimension: int
    from_the_end: bool


class BoundsPass(CustomGraphPass):
    """Given to Inductor as ``post_grad_custom_pre_pass``."""

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrites ``graph``."""
        if _is_of_an_element(graph):
            return
        for node in list(graph.nodes):
            if node.op != "call_function":
                continue
            for use in _uses(node):
                _replace(node, use.index, _checked(graph, node, use))

    def uuid(self) -> str:
        """For Inductor's caches: another text where the pass does something else."""
        return "compile_farm.bounds.2"


def _is_of_an_element(graph: fx.Graph) -> bool:
    """Whether it is the score or mask of flex_attention: of one element, inside its kernel.

    Inductor takes no assertion there. Both begin with four indices; a score has one more before.
    """
    inputs = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
    results = graph.output_node().args[0]
    result = results[0] if isinstance(results, tuple | list) and len(results) == 1 else results
    given = result.meta.get("val") if isinstance(result, fx.Node) else None
    return len(inputs) >= 4 and all(
        isinstance(each, torch.Tensor) and each.dim() == 0 for each in (*inputs[:4], given)
    )


def _uses(node: fx.Node) -> Iterator[_Use]:
    args: Any = node.args
    if node.target in _BY_TENSORS:
        found = [_Use(index, args[0], place, True) for place, index in enumerate(args[1])]
    elif node.target in _ALONG:
        found = [_Use(args[2], args[0], args[1], False)]
    elif node.target is aten.embedding.default:
        found = [_Use(args[1], args[0], 0, False)]
    else:
        return
    for use in found:
        value = use.index.meta.get("val") if isinstance(use.index, fx.Node) else None
        if isinstance(value, torch.Tensor) and value.dtype in _INTEGERS and value.is_cpu:
            yield use


def _replace(node: fx.Node, old: fx.Node, new: fx.Node) -> None:
    """In the arguments of this call alone."""
    node.args = fx.map_arg(node.args, lambda each: new if each is old else each)


def _checked(graph: fx.Graph, before: fx.Node, use: _Use) -> fx.Node:
    """The index, zero where it is out of bounds, and an assertion in the graph that it is not."""
    index = use.index
    mode = index.meta["val"].fake_mode

    def call(target: Any, *args: Any) -> fx.Node:
        node = graph.call_function(target, args)
        with mode:
            node.meta["val"] = target(*fx.map_arg(args, lambda each: each.meta["val"]))
        return node

    with graph.inserting_before(before):
        shape = use.indexed.meta["val"].shape
        size: Any = shape[use.dimension] if shape else 1
        if not isinstance(size, int):
            size = call(aten.sym_size.int, use.indexed, use.dimension)
        below = call(aten.lt.Scalar, index, size)
        if use.from_the_end:
            low = call(aten.ge.Scalar, call(aten.add.Tensor, index, size), 0)
        else:
            low = call(aten.ge.Scalar, index, 0)
        inside = call(aten.bitwise_and.Tensor, below, low)
        what = f"index out of range in {before.target}: dimension {use.dimension}"
        outside = call(aten.any.default, call(aten.logical_not.default, inside))
        call(aten._assert_async.msg, call(aten.logical_not.default, outside), what)
        return call(aten.mul.Tensor, index, inside)
