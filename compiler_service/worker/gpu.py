"""Whether torch, in a process of its own, sees the GPU and has the Triton that it needs.

In: a device and a child's environment. Out: checks. The worker's own process never imports torch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compiler_service.worker.last_words import without_paths
from compiler_service.worker.preflight import Check

_SECONDS = 120
_LOOK = """
import importlib.util, json, torch
gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
triton = importlib.util.find_spec("triton") is not None
print(json.dumps({"cuda": torch.version.cuda, "gpus": gpus, "triton": triton}))
"""


def resolve_device(device: str, environment: Mapping[str, str]) -> str:
    """What "auto" is here: the first GPU that torch sees, else the CPU.

    Asked outside the sandbox: from within, a GPU that can't be opened looks like none.
    """
    if device != "auto":
        return device
    if not any(Path("/dev").glob("nvidia*")) and not Path("/dev/dxg").exists():
        return "cpu"
    try:
        return "cuda:0" if _look(environment)["gpus"] else "cpu"
    except (OSError, ValueError, subprocess.SubprocessError):
        return "cpu"


def gpu_checks(device: str, environment: Mapping[str, str]) -> list[Check]:
    """Checks of "auto" or "cuda:N"; without a GPU, "auto" passes as a CPU worker."""
    try:
        found = _look(environment)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", None) or str(error)
        detail = without_paths(str(words).strip()[-500:])
        remedy = "run `python -c 'import torch'` with the worker's interpreter"
        return [Check("GPU", False, f"torch can't be imported: {detail}", remedy)]
    return judge(device, found)


def judge(device: str, found: Mapping[str, Any]) -> list[Check]:
    """What ``found`` ("cuda", "gpus", "triton", as torch says) means for the device."""
    gpus: list[str] = found["gpus"]
    index = int(device.partition(":")[2] or 0)
    if index >= len(gpus):
        if device == "auto":
            return [Check("GPU", True, "torch sees none: this will be a CPU worker")]
        if not found["cuda"]:
            detail, remedy = "this torch is built without CUDA", "install a CUDA build of torch"
        elif not gpus:
            detail = f"torch is built for CUDA {found['cuda']}, and sees no GPU"
            remedy = "look at nvidia-smi, the driver's version, and CUDA_VISIBLE_DEVICES"
        else:
            detail = f"{device} was asked for, and torch sees {len(gpus)}: {', '.join(gpus)}"
            remedy = "give another --device"
        return [Check("GPU", False, detail, remedy)]
    triton: bool = found["triton"]
    return [
        Check("GPU", True, f"{gpus[index]}, CUDA {found['cuda']}"),
        Check(
            "Triton",
            triton,
            "installed" if triton else "not installed",
            "" if triton else "install the triton that this torch pairs with",
        ),
    ]


def _look(environment: Mapping[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _LOOK],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
