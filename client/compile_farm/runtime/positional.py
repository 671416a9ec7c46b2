"""Calls an artifact by position: the torch.compile way, where Dynamo gives all inputs at each call.

In: every input of the Signature in order, tensors and Python integers. Out: its outputs in order.
Weights come along with each call; they are checked when they move and compared by address
otherwise, which costs a tenth. (Dynamo's guards have compared their dtypes and sizes before. To
hold on to the weights here, so that no others come to lie at the same addresses, would keep a dead
model's alive.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch

from compile_farm.errors import InputMismatchError
from compile_farm.runtime.checks import CheckCompiler, Prepare
from compile_farm.runtime.explain import input_mismatch, shared_memory
from compile_farm.runtime.loaded import Finish, LoadedArtifact, finisher
from compile_farm.runtime.overlap import WriteWatch, first_shared
from compile_farm.runtime.weights import check_weights, is_fixed
from compile_farm.v1 import graph_pb2

_WEIGHTS = (graph_pb2.ROLE_PARAMETER, graph_pb2.ROLE_BUFFER)
_address = torch.Tensor.data_ptr


def positional(loaded: LoadedArtifact) -> Callable[[Sequence[Any]], list[Any]]:
    """A call that raises InputMismatchError, before anything ran, for inputs that don't fit."""
    return _Positional(loaded).call


@dataclass(frozen=True)
class _Ready:
    """What was checked or made for the weights that were seen last; replaced as a whole."""

    addresses: list[int]
    device: torch.device
    prepare: Prepare
    finish: Finish | None
    run: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]
    watch: WriteWatch


class _Positional:
    def __init__(self, loaded: LoadedArtifact) -> None:
        self._loaded = loaded
        self._signature = loaded.manifest.signature
        inputs = list(enumerate(self._signature.inputs))
        self._weights = [
            index
            for index, entry in inputs
            if entry.role in _WEIGHTS and entry.WhichOneof("kind") == "tensor" and is_fixed(entry)
        ]
        weights = set(self._weights)
        self._checked = [index for index, _ in inputs if index not in weights]
        self._pick_weights = _picker(self._weights)
        self._pick_checked = _picker(self._checked)
        self._ready: _Ready | None = None

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        """See ``positional``."""
        if len(inputs) != len(self._signature.inputs):
            raise InputMismatchError(
                f"{len(inputs)} inputs, the artifact takes {len(self._signature.inputs)}"
            )
        weights = self._pick_weights(inputs)
        checked = self._pick_checked(inputs)
        ready = self._ready
        if ready is None or not _same_addresses(weights, ready.addresses):
            ready = self._ready = self._take(weights, inputs)
        prepared = ready.prepare(checked, weights)
        if prepared is None:
            given = dict(zip(self._checked, checked, strict=True))
            raise input_mismatch(self._signature, given, ready.device)
        if ready.watch.needed and (position := ready.watch.conflict(checked)) is not None:
            index = self._checked[position]
            raise shared_memory(self._signature.inputs[index], index)
        tensors, symbols = prepared
        outputs = ready.run(tensors)
        return outputs if ready.finish is None else ready.finish(outputs, symbols)

    def _take(self, weights: Sequence[torch.Tensor], inputs: Sequence[Any]) -> _Ready:
        """Checks the weights, and compiles the check of the rest for their device."""
        device = _device_of(inputs)
        entries = [self._signature.inputs[index] for index in self._weights]
        check_weights(entries, weights, device)
        mutated = [entry.mutated for entry in entries]
        if (pair := first_shared(weights, mutated)) is not None:
            raise shared_memory(entries[pair[0]], self._weights[pair[0]])
        written = [self._signature.inputs[index].mutated for index in self._checked]
        watch = WriteWatch(written, weights, mutated)
        addresses = list(map(_address, weights))
        last = self._ready
        if last is not None and last.device == device:
            return _Ready(addresses, device, last.prepare, last.finish, last.run, watch)
        compiler = CheckCompiler(
            self._signature,
            self._loaded.manifest.compiled_inputs,
            self._checked,
            self._weights,
            device,
        )
        prepare = compiler.compile()
        finish = finisher(self._loaded.manifest, compiler.known_symbols)
        run = self._loaded.runner(device).run
        return _Ready(addresses, device, prepare, finish, run, watch)


def _same_addresses(weights: Sequence[Any], addresses: list[int]) -> bool:
    try:
        return list(map(_address, weights)) == addresses
    except (TypeError, RuntimeError):
        return False  # no tensor, or one without memory: the check says which


def _picker(indices: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    if not indices:
        return lambda values: ()
    if len(indices) == 1:
        (only,) = indices
        return lambda values: (values[only],)
    picker: Any = itemgetter(*indices)
    return picker  # type: ignore[no-any-return]


def _device_of(inputs: Sequence[Any]) -> torch.device:
    for value in inputs:
        if isinstance(value, torch.Tensor) and value.is_cuda:
            return value.device
    return torch.device("cpu")
