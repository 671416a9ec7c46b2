"""What this worker builds for: the hardware it stands on and the toolchain in its process."""

from __future__ import annotations

import torch

from compile_farm.targets import host_target
from compile_farm.v1 import target_pb2


def worker_target(device: str) -> target_pb2.Target:
    """The target of ``device`` ("cpu", "cuda:N"); raises RuntimeError where there is no such."""
    parsed = torch.device(device)
    if parsed.type == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError(f"{device} was asked for, and torch sees no CUDA GPU")
        torch.cuda.set_device(parsed)
    return host_target(parsed.type)
