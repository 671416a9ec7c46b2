"""Each index of a graph is checked: out of bounds it raises, and no kernel sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from compiler_service.engine.bounds import BoundsPass

aten = torch.ops.aten


def _wide(index: torch.Tensor) -> torch.Tensor:
    return index[:, None].expand(-1, 3)


# Whether negative indices count from the end, as in eager.
_CALLS: dict[str, tuple[Callable[..., Any], bool]] = {
    "index": (lambda w, i: aten.index.Tensor(w, [None, None, i]), True),
    "index_put": (lambda w, i: aten.index_put(w, [None, None, i], torch.ones(1)), True),
    "embedding": (lambda w, i: aten.embedding(w[0], i), False),
    "gather": (lambda w, i: aten.gather(w[0], 0, _wide(i)), False),
    "scatter": (lambda w, i: aten.scatter(w[0], 0, _wide(i), 5.0), False),
    "scatter_add": (lambda w, i: aten.scatter_add(w[0], 0, _wide(i), w[0, :2] + 0), False),
    "scatter_reduce": (
        lambda w, i: aten.scatter_reduce(w[0], 0, _wide(i), w[0, :2] + 0, "amax"),
        False,
    ),
}


def _checked(function: Callable[..., Any], dynamic: bool) -> torch.fx.GraphModule:
    mode = "symbolic" if dynamic else "fake"
    module: torch.fx.GraphModule = make_fx(function, tracing_mode=mode)(
        torch.ones(2, 5, 3), torch.tensor([0, 1])
    )
    BoundsPass()(module.graph)
    module.graph.lint()
    module.recompile()
    return module


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", _CALLS)
def test_in_bounds_and_out(name: str, dynamic: bool) -> None:
    function, from_the_end = _CALLS[name]
    module = _checked(function, dynamic)
    weight = torch.randn(2, 5, 3)
    size = 3 if from_the_end else 5
    for good in ([0, size - 1], [1, 1], *([[-1, -size]] if from_the_end else [])):
        index = torch.tensor(good)
        assert torch.equal(module(weight, index), function(weight, index))
    for bad in ([0, size], [-size - 1, 0], [10**12, 0], *([] if from_the_end else [[-1, 0]])):
        with pytest.raises(RuntimeError, match="index out of range in aten"):
            module(weight, torch.tensor(bad))


def test_masks_and_other_arguments_stay() -> None:
    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = aten.index.Tensor(x, [index > 0]) + index.sum()
        return found

    module = make_fx(function, tracing_mode="fake")(torch.ones(2, 3), torch.tensor([0, 1]))
    before = len(module.graph.nodes)
    BoundsPass()(module.graph)
    assert len(module.graph.nodes) == before


def test_inside_a_kernel_nothing_is_asserted() -> None:
    """The score of flex_attention that reads a captured tensor."""

    def score(
        s: torch.Tensor,
        b: torch.Tensor,
        h: torch.Tensor,
        i: torch.Tensor,
        j: torch.Tensor,
        table: torch.Tensor,
    ) -> torch.Tensor:
        return s + aten.index.Tensor(table, [j - i])

    zero = torch.tensor(0)
    module = make_fx(score, tracing_mode="fake")(
        torch.tensor(0.5), zero, zero, zero, zero, torch.ones(5)
    )
    nodes = len(module.graph.nodes)
    BoundsPass()(module.graph)
    assert len(module.graph.nodes) == nodes
