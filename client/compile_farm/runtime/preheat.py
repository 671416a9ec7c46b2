"""Starts the GPU's libraries while an artifact is on its way.

The first matrix product in a process makes a cuBLAS handle, the first convolution loads cuDNN: a
tenth of a second each, which eager's first call pays as well. Fetching, verifying and binding take
about as long, so they begin in a thread at once. Nothing depends on it: a call that comes before it
has ended does the same work itself.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from compile_farm.v1 import artifact_pb2

# On a GPU each costs the others time: the driver loads one library after the other.
_PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten.linear", "aten.matmul")
_CONVOLUTIONS = ("aten.convolution", "aten.conv1d", "aten.conv2d", "aten.conv3d")

_begun: set[tuple[str, int]] = set()
_lock = threading.Lock()


def preheat_for_model(model: torch.nn.Module) -> None:
    """Begins what the layers of ``model`` will need; nothing for one that is not on a GPU."""
    torch = sys.modules["torch"]
    for layer in model.modules():
        weight = layer._parameters.get("weight")
        if weight is None or not weight.is_cuda:
            continue
        if isinstance(layer, torch.nn.modules.conv._ConvNd):
            _begin(torch, "convolution", weight.dtype, weight.device)
        elif weight.dim() == 2 and not isinstance(layer, torch.nn.Embedding):
            _begin(torch, "product", weight.dtype, weight.device)


def preheat_for_artifact(manifest: artifact_pb2.Manifest) -> None:
    """Begins what the code of the artifact calls; only where this process uses a GPU already."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    called = [
        op for kernel in manifest.report.kernels if kernel.kind == "extern" for op in kernel.ops
    ]
    device = torch.device("cuda", torch.cuda.current_device())
    for need, ops in (("product", _PRODUCTS), ("convolution", _CONVOLUTIONS)):
        if any(op.startswith(ops) for op in called):
            _begin(torch, need, torch.bfloat16, device)


def _begin(torch: Any, need: str, dtype: torch.dtype, device: torch.device) -> None:
    with _lock:
        if (need, device.index) in _begun:
            return
        _begun.add((need, device.index))
    try:
        x = torch.empty(16, 16, dtype=dtype, device=device)
    except RuntimeError:  # no memory is left: the call itself will say so, if it matters
        return
    # One call each, which gives up Python's lock at once: the thread that fetches needs it.
    call = torch.addmm
    args: tuple[Any, ...] = (x[0], x, x)
    if need == "convolution":
        image = x.view(1, 16, 4, 4).contiguous(memory_format=torch.channels_last)
        call, args = torch.conv2d, (image, x.view(16, 16, 1, 1))
    # No daemon: a process that ends meanwhile waits for it. Python would end the thread inside
    # CUDA, and the process with it ("terminate called without an active exception").
    threading.Thread(target=_run, args=(call, args, device), name=f"preheat-{need}").start()


def _run(call: Any, args: tuple[Any, ...], device: torch.device) -> None:
    try:
        # A thread has no CUDA context before its first call to the driver, of which cuBLAS warns.
        sys.modules["torch"].cuda.current_stream(device).query()
        call(*args)
    except (RuntimeError, Warning):
        # An old card without this dtype, or no memory: the call itself will say so, if it matters.
        return
