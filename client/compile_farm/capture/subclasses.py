"""Tensor subclasses in an exported graph, which is traced once more on the plain tensors in them.

In: a model, and torch.export's graph of it, which calls operators on the subclasses themselves.
Out: a graph of the calls that the subclasses make of these, as AOTAutograd has it in the
torch.compile way; and a record of each subclass, by which another process tells whether its own
says the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from compile_farm.errors import CaptureError
from compile_farm.runtime.subclasses import (
    IncomparableError,
    is_subclass,
    plain_parts,
    rebuilt,
    subclass_states,
)
from compile_farm.v1 import graph_pb2

_BY_COMPILE = "use torch.compile(model, backend='compile_farm')"


def record_subclasses(model: torch.nn.Module) -> list[graph_pb2.Subclass]:
    """A record of each weight that is a subclass; raises CaptureError for one that can't be bound.

    Nothing else would keep the artifact from the weights of another configuration.
    """
    states: list[graph_pb2.Subclass] = []
    for name, weight in _weights(model):
        if is_foreign(weight):
            raise CaptureError(
                f"the weight {name} is a {_kind(weight)}, a subclass of Tensor that can't be taken "
                "apart into plain tensors",
                remedy="use plain tensors, or a class with __tensor_flatten__",
                reason="tensor",
            )
        try:
            states.extend(subclass_states(name, weight))
        except IncomparableError as error:
            raise CaptureError(
                f"the weight {name} is a {_kind(weight)}, and a host could not tell whether its "
                f"own is the same: {error}",
                remedy=_BY_COMPILE,
                reason="tensor",
            ) from None
    return states


def parts_of(values: Sequence[Any]) -> list[tuple[int, Any]]:
    """The plain tensors inside each value, or the value itself, with the value's position."""
    try:
        return [
            (index, part)
            for index, value in enumerate(values)
            for _, part in plain_parts("", value)
        ]
    except IncomparableError as error:
        raise CaptureError(
            f"an input is a tensor subclass that holds other things than tensors: {error}",
            remedy="keep it outside the compiled region",
            reason="tensor",
        ) from None


def refuse_subclass(what: str, value: Any) -> None:
    """Raises CaptureError for an argument or a result that is a tensor of another class."""
    if is_subclass(value) or is_foreign(value):
        raise CaptureError(
            f"{what} is a {_kind(value)}, a subclass of Tensor",
            remedy="take and return the plain tensors inside it, and make it in forward; or "
            + _BY_COMPILE,
            reason="tensor",
        )


def is_foreign(value: Any) -> bool:
    """Whether this is a tensor of a class that can't be taken apart, and may mean anything."""
    return (
        isinstance(value, torch.Tensor)
        and type(value) not in (torch.Tensor, torch.nn.Parameter)
        and not isinstance(value, torch._subclasses.FakeTensor)
        and not is_subclass(value)
    )


def retrace(module: fx.GraphModule, values: Sequence[Any]) -> tuple[fx.GraphModule, list[Any]]:
    """The graph on plain tensors, and what its placeholders stand for.

    Args:
        module: torch.export's, with a placeholder for each of ``values``.
        values: fake tensors, subclasses around fake tensors, sizes, and fixed values.

    A subclass has as many placeholders as plain tensors inside it, all others keep theirs.
    """
    mode: Any = torch._guards.detect_fake_mode([part for _, part in parts_of(values)])
    if mode is None:
        raise CaptureError("the exported graph has no fake tensors", reason="trace")
    with mode:
        # Two weights may hold the same tensor; each has a placeholder of its own.
        fresh = [rebuilt(value, _like) if is_subclass(value) else value for value in values]
    flat = [part for _, part in parts_of(fresh)]
    before = _sizes_known(mode.shape_env)

    def run(*given: Any) -> Any:
        parts = iter(given)
        taken = [_from(value, parts) for value in fresh]
        held = parts_of(taken)
        results = fx.Interpreter(module).run(*taken)
        for index, result in enumerate(pytree.tree_leaves(results)):
            refuse_subclass(f"result {index}", result)
        if [id(part) for _, part in parts_of(taken)] != [id(part) for _, part in held]:
            raise CaptureError(
                "a tensor subclass puts another tensor in the place of one inside it",
                remedy=_BY_COMPILE,
                reason="state",
            )
        return results

    try:
        with mode, torch.no_grad(), enable_python_dispatcher():
            traced = make_fx(run)(*(value for value in flat if not _is_fixed(value)))
    except CaptureError:
        raise
    except Exception as error:
        text = str(error).strip() or "no message"
        raise CaptureError(
            f"the tensor subclasses in the graph could not be taken apart: "
            f"{type(error).__name__}: {text[:2000]}",
            remedy=_BY_COMPILE,
            reason="trace",
        ) from error
    _check_sizes(before, _sizes_known(mode.shape_env))
    _add_fixed(traced, flat)
    return traced, flat


def _weights(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )


def _is_fixed(value: Any) -> bool:
    return not isinstance(value, torch.Tensor | torch.SymInt)


def _from(value: Any, parts: Iterator[Any]) -> Any:
    """``value`` with its plain tensors taken from ``parts``; a fixed one as it is."""
    if _is_fixed(value):
        return value
    if isinstance(value, torch.SymInt):
        return next(parts)
    return rebuilt(value, lambda _: next(parts))


def _sizes_known(env: Any) -> tuple[dict[Any, Any], ...]:
    """What is known of symbolic sizes: their ranges, and what else."""
    if env is None:
        return {}, {}
    return dict(env.var_to_range), {"guards": len(env.guards), **env.replacements}


def _check_sizes(before: tuple[dict[Any, Any], ...], after: tuple[dict[Any, Any], ...]) -> None:
    """Tracing again must find nothing new: what it finds is in no range of the capture."""
    if after[0].keys() - before[0].keys():
        raise CaptureError(
            "a size depends on a tensor's values, in a model whose weights are tensor subclasses",
            remedy=_BY_COMPILE,
            reason="size",
        )
    if before != after:
        raise CaptureError(
            "taking the tensor subclasses apart depends on sizes that the export left open",
            remedy="make the dynamic dimensions static, or " + _BY_COMPILE,
            reason="size",
        )


def _add_fixed(traced: fx.GraphModule, flat: Sequence[Any]) -> None:
    """Fixed values were not traced; their placeholders keep all others in their places."""
    placeholders = iter([node for node in traced.graph.nodes if node.op == "placeholder"])
    last = None
    for index, value in enumerate(flat):
        if not _is_fixed(value):
            last = next(placeholders)
            continue
        first = next(iter(traced.graph.nodes))
        where = traced.graph.inserting_before(first) if last is None else None
        with where or traced.graph.inserting_after(last):
            last = traced.graph.placeholder(f"fixed_{index}")
        last.meta["val"] = value
    traced.recompile()
