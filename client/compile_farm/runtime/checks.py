"""The check of a call's inputs, compiled once from the signature.

In: an artifact's Signature. Out: a function that takes the inputs and returns the tensors in the
order of the compiled code, and the values of the symbols; or None when anything differs. It costs
about a microsecond a tensor. Then ``explain`` looks again, slowly, and names what differs.

The compiled code checks nothing by itself: with a wrong shape it reads past the end of a tensor
and answers. So each dtype, device, size and stride is compared on each call, and each symbol with
its range. (Memory that is written to and shared is looked for in ``overlap``.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from compile_farm.errors import CorruptArtifactError, TargetMismatchError
from compile_farm.runtime.expressions import (
    Linear,
    definitions,
    source,
    symbols_of,
    tuple_source,
)
from compile_farm.runtime.numbers import copy_as_it_lies
from compile_farm.v1 import artifact_pb2, graph_pb2

# Takes all inputs of the Signature that are checked at each call, in order, then the weights.
Prepare = Callable[[Sequence[Any], Sequence[torch.Tensor]], tuple[list[torch.Tensor], Any] | None]

# CUDA kernels are compiled for pointers at multiples of this many bytes, and crash on others.
ALIGNMENT = 16


def torch_dtype(name: str) -> torch.dtype:
    """The dtype of the schema's name; this torch may lack one that another has."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise TargetMismatchError(f"torch {torch.__version__} has no dtype {name}")
    return dtype


def in_transform() -> bool:
    """Whether torch.func (vmap, grad) runs this call: its tensors hide dimensions and memory."""
    level: int | None = torch._C._functorch.maybe_current_level()
    return level is not None


def strides_fit(tensor: torch.Tensor, strides: Sequence[int]) -> bool:
    """Whether the strides are the ones asked for, where they matter: not for a size of 1, nor for
    an empty tensor."""
    shape = tensor.shape
    if 0 in shape:
        return True
    return all(
        size == 1 or mine == theirs
        for size, mine, theirs in zip(shape, tensor.stride(), strides, strict=True)
    )


class CheckCompiler:
    """Makes ``prepare`` for a signature, of which some inputs are weights and checked elsewhere."""

    def __init__(
        self,
        signature: graph_pb2.Signature,
        compiled_inputs: Sequence[artifact_pb2.CompiledInput],
        checked: Sequence[int],
        weights: Sequence[int],
        device: torch.device,
    ) -> None:
        """``checked`` and ``weights`` are indices into the Signature's inputs, together all."""
        self._signature = signature
        self._compiled_inputs = compiled_inputs
        self._checked = list(checked)
        self._place = {index: position for position, index in enumerate(weights)}
        self._device = device
        self._known: set[int] = set()
        self._lines: list[str] = []
        # Each size that has a symbol in it: the variable that holds it, and what it should be.
        self._sizes: list[tuple[str, graph_pb2.Expr]] = []
        self._strides: list[tuple[str, list[graph_pb2.Expr]]] = []
        self._names: dict[str, Any] = {
            "Tensor": torch.Tensor,
            "Parameter": torch.nn.Parameter,
            "strided": torch.strided,
            "strides_fit": strides_fit,
            "copy_as_it_lies": copy_as_it_lies,
            "in_transform": in_transform,
            "carrier": torch.empty(1, dtype=torch.uint8),
        }

    def compile(self) -> Prepare:
        """The function; see this module's text.

        Raises CorruptArtifactError where the signature leaves a size open.
        """
        self._require("not in_transform()")
        names = "".join(f"a{index}, " for index in self._checked)
        if names:
            self._lines.append(f"{names}= given")
        for index in self._checked:
            entry = self._signature.inputs[index]
            if entry.WhichOneof("kind") == "tensor":
                self._tensor(index, entry)
            else:
                self._require(f"type(a{index}) is int")
                self._size(f"a{index}", entry.scalar)
        self._solve()
        for tensor, exprs in self._strides:
            strides = tuple_source(self._closed(exprs))
            self._require(f"{tensor}.stride() == {strides} or strides_fit({tensor}, {strides})")
        self._alignment()
        self._carriers()
        values = "".join(f"y{index}, " for index in sorted(self._known))
        self._lines.append(f"return [{', '.join(self._order())}], ({values})")
        return self._function()

    @property
    def known_symbols(self) -> list[int]:
        """The symbols whose values ``prepare`` returns, in its order."""
        return sorted(self._known)

    def _function(self) -> Prepare:
        body = "\n".join("        " + line for line in self._lines)
        text = (
            "def prepare(given, weights):\n"
            f"    try:\n{body}\n"
            "    except ZeroDivisionError:\n        return None\n"
        )
        builtins = {"type": type, "int": int, "min": min, "max": max}
        namespace: dict[str, Any] = {
            "__builtins__": {**builtins, "ZeroDivisionError": ZeroDivisionError},
            **self._names,
        }
        exec(compile(text, "<signature>", "exec"), namespace)
        prepare: Prepare = namespace["prepare"]
        return prepare

    def _require(self, condition: str) -> None:
        self._lines.append(f"if not ({condition}): return None")

    def _name(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self._names)}"
        self._names[name] = value
        return name

    def _tensor(self, index: int, entry: graph_pb2.Input) -> None:
        spec, a = entry.tensor, f"a{index}"
        dtype = self._name("dtype", torch_dtype(spec.dtype))
        # A subclass may mean anything by its shape.
        self._require(f"type({a}) is Tensor or type({a}) is Parameter")
        device = f"{a}.is_cpu"
        if spec.device_type == "cuda":
            device = f"{a}.is_cuda and {a}.get_device() == {int(self._device.index or 0)}"
        self._require(f"{a}.dtype is {dtype} and {device} and {a}.layout is strided")
        lazy = f"{a}.is_neg()"
        if spec.dtype.startswith("complex"):
            lazy += f" or {a}.is_conj()"
        self._require(f"not ({lazy})")
        sizes = list(spec.sizes)
        if not any(symbols_of(size) for size in sizes):
            self._require(f"{a}.shape == {tuple_source(sizes)}")
        else:
            names = [f"d{index}_{dimension}" for dimension in range(len(sizes))]
            self._require(f"{a}.dim() == {len(sizes)}")
            self._lines.append("".join(f"{name}, " for name in names) + f"= {a}.shape")
            for name, size in zip(names, sizes, strict=True):
                self._size(name, size)
        self._strides.append((a, list(spec.strides)))

    def _size(self, name: str, size: graph_pb2.Expr) -> None:
        if symbols_of(size):
            self._sizes.append((name, size))
        else:
            self._require(f"{name} == {source(size)}")

    def _solve(self) -> None:
        """Defines each symbol from a size that has it, then checks ranges and the other sizes."""
        # A symbol that stands in no size may stand in a stride.
        strides = [
            (f"{tensor}.stride({dimension})", expr)
            for tensor, exprs in self._strides
            for dimension, expr in enumerate(exprs)
            if symbols_of(expr)
        ]
        for name, linear in definitions([*self._sizes, *strides]):
            self._define(name, linear)
        for index in sorted(self._known):
            symbol = self._signature.symbols[index]
            upper = f" <= {int(symbol.maximum)}" if symbol.HasField("maximum") else ""
            self._require(f"{int(symbol.minimum)} <= y{index}{upper}")
        for name, size in self._sizes:
            self._require(f"{name} == {source(*self._closed([size]))}")

    def _define(self, name: str, linear: Linear) -> None:
        self._known.add(linear.symbol)
        rest = f"({name} - {source(linear.offset)})"
        # A size that does not divide is found when it is checked against its expression.
        value = rest if linear.factor == 1 else f"{rest} // ({linear.factor})"
        self._lines.append(f"y{linear.symbol} = {name if linear.plain else value}")

    def _closed(self, exprs: list[graph_pb2.Expr]) -> list[graph_pb2.Expr]:
        """The expressions, all of whose symbols have a value by now."""
        for expr in exprs:
            if open_symbols := symbols_of(expr) - self._known:
                raise CorruptArtifactError(
                    f"the size of symbol {min(open_symbols)} follows from no input"
                )
        return exprs

    def _alignment(self) -> None:
        for index in self._checked:
            entry = self._signature.inputs[index]
            if entry.tensor.device_type != "cuda":
                continue
            a = f"a{index}"
            cure = "return None" if entry.mutated else f"{a} = copy_as_it_lies({a})"
            self._lines.append(f"if {a}.data_ptr() % {ALIGNMENT}: {cure}")

    def _carriers(self) -> None:
        for item in self._compiled_inputs:
            if item.WhichOneof("kind") == "size_carrier":
                self._closed([graph_pb2.Expr(symbol=item.size_carrier)])
                self._require(f"y{item.size_carrier} >= 0")

    def _order(self) -> list[str]:
        """The tensors in the compiled code's order; runs of weights as slices."""
        parts: list[str] = []
        start = end = 0
        for item in self._compiled_inputs:
            if item.WhichOneof("kind") == "input" and item.input in self._place:
                position = self._place[item.input]
                if parts and parts[-1].startswith("*") and position == end:
                    end += 1
                else:
                    start, end = position, position + 1
                    parts.append("")
                parts[-1] = f"*weights[{start}:{end}]"
                continue
            if item.WhichOneof("kind") == "input":
                parts.append(f"a{item.input}")
            else:
                parts.append(f"carrier.as_strided((y{item.size_carrier},), (0,))")
        return parts
