"""An artifact that this process may run: checked, and mapped once per device.

In: an unpacked artifact whose signature, digests and target were checked (see open.py). Out: the
runner for a device, and what its outputs mean.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from compile_farm.errors import ArtifactError
from compile_farm.runtime.expressions import evaluate, symbols_of
from compile_farm.runtime.native import NativeRunner, open_native
from compile_farm.v1 import artifact_pb2


class LoadedArtifact:
    """The manifest, and the shared object in the local cache that it speaks of."""

    def __init__(self, manifest: artifact_pb2.Manifest, shared_object: Path) -> None:
        self.manifest = manifest
        self._shared_object = shared_object
        self._runners: dict[int, NativeRunner] = {}
        self._lock = threading.Lock()

    @property
    def device_type(self) -> str:
        """ "cpu" or "cuda"."""
        return self.manifest.target.WhichOneof("hardware") or "cpu"

    def runner(self, device: torch.device) -> NativeRunner:
        """The compiled code on ``device``; opened at first use, then shared."""
        index = (device.index or 0) if self.device_type == "cuda" else -1
        with self._lock:
            if index not in self._runners:
                where = torch.device("cuda", index) if index >= 0 else torch.device("cpu")
                self._runners[index] = self._open(where)
            return self._runners[index]

    def _open(self, device: torch.device) -> NativeRunner:
        try:
            return open_native(self._shared_object, device)
        except RuntimeError as error:
            raise ArtifactError(
                f"{self._shared_object} can't be mapped: {error}",
                remedy="the local cache must lie where code may be run (no noexec mount): set "
                "COMPILE_FARM_CACHE",
            ) from error


Finish = Callable[[Sequence[torch.Tensor], Sequence[int]], list[Any]]


def finisher(manifest: artifact_pb2.Manifest, known: Sequence[int]) -> Finish | None:
    """From what the code returns to the Signature's outputs; None where they are the same.

    ``known`` are the symbols whose values come with each call. Integers are computed from them, and
    an empty tensor gets the strides that eager gives it, which the compiled code does not keep.
    """
    outputs = manifest.signature.outputs
    empty = [
        index
        for index, output in enumerate(outputs)
        if output.WhichOneof("kind") == "tensor"
        and any(size.constant == 0 and not symbols_of(size) for size in output.tensor.sizes)
    ]
    in_order = list(manifest.compiled_outputs) == list(range(len(outputs)))
    if in_order and not empty:
        return None
    scalars = [
        (index, output.scalar)
        for index, output in enumerate(outputs)
        if output.WhichOneof("kind") == "scalar"
    ]

    def finish(tensors: Sequence[torch.Tensor], values: Sequence[int]) -> list[Any]:
        symbols = dict(zip(known, values, strict=True))
        results: list[Any] = [None] * len(outputs)
        for index, tensor in zip(manifest.compiled_outputs, tensors, strict=True):
            results[index] = tensor
        for index, expression in scalars:
            results[index] = evaluate(expression, symbols)
        for index in empty:
            results[index] = _restride(results[index], outputs[index].tensor.strides, symbols)
        return results

    return finish


def _restride(tensor: torch.Tensor, strides: Sequence[Any], symbols: dict[int, int]) -> Any:
    if not all(symbols_of(stride) <= set(symbols) for stride in strides):
        return tensor
    return tensor.as_strided(tensor.shape, [evaluate(stride, symbols) for stride in strides])
