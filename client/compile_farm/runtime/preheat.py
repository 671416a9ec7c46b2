"""Starts the GPU's libraries while an artifact is on its way.

The first matrix product in a process makes a cuBLAS handle, the first convolution loads cuDNN: a
tenth of a second each, which eager's first call pays as well. Fetching, verifying and binding take
about as long, so both are begun in a thread at once. Nothing depends on it: a call that comes
before it has ended does the same work itself.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from compile_farm.v1 import artifact_pb2

_begun: set[tuple[str, int]] = set()
_lock = threading.Lock()


def preheat(manifest: artifact_pb2.Manifest | None = None) -> None:
    """Begins what this process will need; only where it uses a GPU already."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    needed = {"product"}
    if manifest is not None and any(
        "convolution" in op for kernel in manifest.report.kernels for op in kernel.ops
    ):
        needed.add("convolution")
    device = torch.cuda.current_device()
    for name in needed:
        with _lock:
            if (name, device) in _begun:
                continue
            _begun.add((name, device))
        # No daemon: a process that ends meanwhile waits for it. Python would end the thread inside
        # CUDA, and the process with it ("terminate called without an active exception").
        threading.Thread(target=_run, args=(torch, name, device), name=f"preheat-{name}").start()


def _run(torch: Any, name: str, device: int) -> None:
    try:
        with torch.cuda.device(device), torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            x = torch.zeros(16, 16, device="cuda", dtype=torch.bfloat16)
            if name == "product":
                torch.addmm(x[0], x, x)
            else:
                image = x.view(1, 16, 4, 4)
                torch.nn.functional.conv2d(image, x.view(16, 16, 1, 1))
            torch.cuda.current_stream().synchronize()
    except RuntimeError:
        # Out of memory, or an old card: the call itself will say so, if it matters.
        return
