"""The one place that maps compiled code into this process, behind a name of our own.

torch's runner takes the shared object itself: nothing is unpacked, no compiler is called and
``torch._inductor`` is not imported. It checks nothing either, so whoever calls this has checked the
artifact before, and checks the tensors at each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch


class NativeRunner(Protocol):
    """Compiled code: takes the tensors in its own order, gives its outputs."""

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]: ...


def open_native(shared_object: Path, device: torch.device) -> NativeRunner:
    """Maps ``shared_object``; raises RuntimeError where the loader can't.

    Fallback calls are read from the ".json" of the same name beside it. One model instance: calls
    from several threads wait for each other.
    """
    bindings: Any = torch._C._aoti
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        folder = str(shared_object.parent)
        with torch.cuda.device(index):
            runner = bindings.AOTIModelContainerRunnerCuda(
                str(shared_object), 1, f"cuda:{index}", folder
            )
        return _OnDevice(runner, index)
    on_cpu: NativeRunner = bindings.AOTIModelContainerRunnerCpu(str(shared_object), 1)
    return on_cpu


class _OnDevice:
    """Runs on its own GPU's current stream; torch's runner takes the current GPU's."""

    def __init__(self, runner: NativeRunner, index: int) -> None:
        self._run = runner.run
        self._index = index

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if torch._C._cuda_getDevice() == self._index:
            return self._run(inputs)
        with torch.cuda.device(self._index):
            return self._run(inputs)
