"""The check of a call's inputs, compiled once from the signature.

In: an artifact's Signature. Out: a function that takes the inputs and returns the tensors in the
order of the compiled code, and the values of the symbols; or None when anything differs. It costs
about a microsecond a tensor. Then ``explain`` looks again, slowly, and names what differs.

The compiled code checks nothing by itself: with a wrong shape it reads past the end of a tensor
and answers. So each dtype, device, size and stride is compared on each call, and each symbol with
its range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from compile_farm.errors import TargetMismatchError
from compile_farm.runtime.expressions import Linear, as_linear, source, symbols_of, tuple_source
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


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy of it with the same strides where its address is not aligned."""
    if not tensor.data_ptr() % ALIGNMENT:
        return tensor
    copy = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return copy.copy_(tensor)


def shares_memory(written: torch.Tensor, others: Sequence[Any]) -> bool:
    """Whether another of the tensors lies in the storage of the one that is written to."""
    storage = written.untyped_storage().data_ptr()
    return any(
        other is not written
        and isinstance(other, torch.Tensor)
        and other.untyped_storage().data_ptr() == storage
        and other.numel() > 0
        for other in others
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
        self._later: list[str] = []
        self._names: dict[str, Any] = {
            "Tensor": torch.Tensor,
            "Parameter": torch.nn.Parameter,
            "strided": torch.strided,
            "strides_fit": strides_fit,
            "aligned": aligned,
            "shares_memory": shares_memory,
            "carrier": torch.empty(1, dtype=torch.uint8),
            "min": min,
            "max": max,
        }

    def compile(self) -> Prepare:
        """The function; see this module's text."""
        names = "".join(f"a{index}, " for index in self._checked)
        if names:
            self._lines.append(f"{names}= given")
        for index in self._checked:
            entry = self._signature.inputs[index]
            if entry.WhichOneof("kind") == "tensor":
                self._tensor(index, entry)
            else:
                self._scalar(index, entry.scalar)
        self._bounds()
        self._writes()
        lines = [*self._lines, *self._later, *self._alignment()]
        ordered = ", ".join(self._order())
        values = "".join(f"y{index}, " for index in sorted(self._known))
        lines.append(f"return [{ordered}], ({values})")
        body = "\n".join("    " + line for line in lines)
        allowed = {"type": type, "isinstance": isinstance, "int": int, "bool": bool}
        namespace: dict[str, Any] = {"__builtins__": allowed, **self._names}
        exec(compile(f"def prepare(given, weights):\n{body}\n", "<signature>", "exec"), namespace)
        prepare: Prepare = namespace["prepare"]
        return prepare

    @property
    def known_symbols(self) -> list[int]:
        """The symbols whose values ``prepare`` returns, in its order."""
        return sorted(self._known)

    def _require(self, condition: str, *, later: bool = False) -> None:
        lines = self._later if later else self._lines
        lines.append(f"if not ({condition}): return None")

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
        strides = tuple_source(list(spec.strides))
        self._require(f"{a}.stride() == {strides} or strides_fit({a}, {strides})", later=True)

    def _size(self, name: str, size: graph_pb2.Expr) -> None:
        """Defines the size's symbol where it can, and otherwise checks it once all are known."""
        linear = as_linear(size)
        if linear is None or linear.symbol in self._known:
            self._require(f"{name} == {source(size)}", later=True)
            return
        self._define(name, linear)

    def _define(self, name: str, linear: Linear) -> None:
        self._known.add(linear.symbol)
        if linear.factor == 1 and linear.offset == 0:
            self._lines.append(f"y{linear.symbol} = {name}")
            return
        self._require(f"({name} - ({linear.offset})) % ({linear.factor}) == 0")
        self._lines.append(f"y{linear.symbol} = ({name} - ({linear.offset})) // ({linear.factor})")

    def _scalar(self, index: int, expr: graph_pb2.Expr) -> None:
        a = f"a{index}"
        self._require(f"isinstance({a}, int) and not isinstance({a}, bool)")
        self._size(a, expr)

    def _bounds(self) -> None:
        for index in sorted(self._known):
            symbol = self._signature.symbols[index]
            upper = f" <= {int(symbol.maximum)}" if symbol.HasField("maximum") else ""
            self._require(f"{int(symbol.minimum)} <= y{index}{upper}")

    def _writes(self) -> None:
        """An input that is written to may not lie in another's memory: the compiled code would
        see the write, or not, as its fusion has it."""
        tensors = [
            index
            for index in self._checked
            if self._signature.inputs[index].WhichOneof("kind") == "tensor"
        ]
        for index in tensors:
            if self._signature.inputs[index].mutated:
                others = "".join(f"a{other}, " for other in tensors if other != index)
                self._require(f"not shares_memory(a{index}, ({others}*weights,))", later=True)

    def _alignment(self) -> list[str]:
        lines = []
        for index in self._checked:
            entry = self._signature.inputs[index]
            if entry.tensor.device_type != "cuda":
                continue
            a = f"a{index}"
            if entry.mutated:
                lines.append(f"if {a}.data_ptr() % {ALIGNMENT}: return None")
            else:
                lines.append(f"if {a}.data_ptr() % {ALIGNMENT}: {a} = aligned({a})")
        return lines

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
