"""Opens a freshly compiled shared object in the sandbox, to measure and verify it there.

Hosts load artifacts through ``compile_farm.runtime``, which first checks the signature; here there
is none yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from compile_farm.runtime.native import open_native


def open_runner(
    shared_object: Path, device: torch.device
) -> Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]:
    """A call of the compiled code on tensors in its own order."""
    run: Callable[[list[torch.Tensor]], Sequence[torch.Tensor]] = open_native(
        shared_object, device
    ).run
    return run
