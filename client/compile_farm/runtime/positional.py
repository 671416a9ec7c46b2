"""Calls an artifact by position: the torch.compile way, where Dynamo gives all inputs at each call.

In: every input of the Signature in order, tensors and Python integers. Out: its outputs in order.
Weights come along with each call; they are checked when they change and compared by object and
address otherwise, which costs a tenth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import torch

from compile_farm.runtime.checks import CheckCompiler
from compile_farm.runtime.explain import input_mismatch
from compile_farm.runtime.loaded import LoadedArtifact, finisher
from compile_farm.runtime.weights import check_weights
from compile_farm.v1 import graph_pb2

_WEIGHTS = (graph_pb2.ROLE_PARAMETER, graph_pb2.ROLE_BUFFER)
_address = torch.Tensor.data_ptr


def positional(loaded: LoadedArtifact) -> Callable[[Sequence[Any]], list[Any]]:
    """A call that raises InputMismatchError, before anything ran, for inputs that don't fit."""
    return _Positional(loaded).call


class _Positional:
    def __init__(self, loaded: LoadedArtifact) -> None:
        self._loaded = loaded
        manifest = loaded.manifest
        self._signature = manifest.signature
        inputs = list(enumerate(self._signature.inputs))
        self._weights = [
            index
            for index, entry in inputs
            if entry.role in _WEIGHTS and entry.WhichOneof("kind") == "tensor"
        ]
        self._checked = [index for index, _ in inputs if index not in set(self._weights)]
        self._pick_weights = _picker(self._weights)
        self._pick_checked = _picker(self._checked)
        self._seen: list[torch.Tensor] = []
        self._addresses: list[int] = []
        self._device = torch.device("cpu")
        self._prepare: Any = None

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        """See ``positional``."""
        if len(inputs) != len(self._signature.inputs):
            raise input_mismatch(self._signature, {}, [], self._device)
        weights = self._pick_weights(inputs)
        checked = self._pick_checked(inputs)
        if self._prepare is None or list(map(_address, weights)) != self._addresses:
            self._take(weights, inputs)
        prepared = self._prepare(checked, weights)
        if prepared is None:
            given = dict(zip(self._checked, checked, strict=True))
            raise input_mismatch(self._signature, given, weights, self._device)
        tensors, symbols = prepared
        outputs = self._run(tensors)
        return outputs if self._finish is None else self._finish(outputs, symbols)

    def _take(self, weights: Sequence[torch.Tensor], inputs: Sequence[Any]) -> None:
        """Checks the weights, and compiles the check of the rest for their device."""
        device = _device_of(inputs)
        entries = [self._signature.inputs[index] for index in self._weights]
        check_weights(entries, weights, device)
        if self._prepare is None or device != self._device:
            compiler = CheckCompiler(
                self._signature,
                self._loaded.manifest.compiled_inputs,
                self._checked,
                self._weights,
                device,
            )
            prepare = compiler.compile()
            self._run = self._loaded.runner(device).run
            self._finish = finisher(self._loaded.manifest, compiler.known_symbols)
            self._device, self._prepare = device, prepare
        # Kept, so that no other tensor can come to lie at the same address.
        self._seen = list(weights)
        self._addresses = list(map(_address, weights))


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
