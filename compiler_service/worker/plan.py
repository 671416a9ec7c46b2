"""How a child is started: its command line, its variables, and what it may touch.

In: the worker's choices. Out: arguments and an environment that hold nothing of the server's own:
no tokens, no home, and no folder that Python would import from and a graph could have written to.
"""

from __future__ import annotations

import json
import os
import site
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import compile_farm
import compiler_service
from compiler_service.worker.limits import Limits

CHILD_MODULE = "compiler_service.worker.child"

# Variables of the worker that a child may see; everything else, tokens too, stays outside.
_PASSED = (
    "PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VIRTUAL_ENV",
    "COMPILE_FARM_ISA", "CXX", "CC", "TRITON_PTXAS_PATH",
)  # fmt: skip


@dataclass(frozen=True)
class ChildArguments:
    """What the parent tells a child on its command line. ``descriptor`` is its end of the socket.

    ``writable`` are the only folders that it may change, ``hidden`` the paths that it may not read,
    ``libraries`` the modules that it imports at its start.
    """

    descriptor: int
    device: str
    file_bytes: int
    open_files: int
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    confined: bool = True
    libraries: tuple[str, ...] = ()

    def to_text(self) -> str:
        """One argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> ChildArguments:
        """The reverse of ``to_text``."""
        given = json.loads(text)
        for name in ("writable", "hidden", "libraries"):
            given[name] = tuple(given[name])
        return cls(**given)


@dataclass(frozen=True)
class SandboxPlan:
    """How to start a child: on what device, where, and with which limits.

    ``cxx`` is the C++ compiler that it uses, empty for what CXX or PATH offer; ``hidden`` are files
    and folders that it may not read, the signing key above all; ``confined`` is False where the
    operator said so, for a driver that needs files which nobody foresaw; ``libraries`` are modules
    that register the custom operators which graphs may call.
    """

    device: str
    work_dir: Path
    limits: Limits
    cxx: str = ""
    child_module: str = CHILD_MODULE
    hidden: tuple[Path, ...] = ()
    confined: bool = True
    libraries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for path in self.hidden:
            if path.absolute().is_relative_to(self.work_dir):
                raise ValueError(f"{path} can't be hidden: it lies in the sandbox's own folder")

    @property
    def cache_dir(self) -> Path:
        """The compiler's caches, which outlive the child and the server."""
        return self.work_dir / "cache"

    def command(self, descriptor: int) -> list[str]:
        """The child's command line; ``descriptor`` is its end of the socket."""
        # The cache may be a link to a place that several workers share.
        writable = (str(self.work_dir), str(self.cache_dir.resolve()))
        arguments = ChildArguments(
            descriptor=descriptor,
            device=self.device,
            file_bytes=self.limits.file_bytes,
            open_files=self.limits.open_files,
            writable=writable,
            hidden=tuple(str(path) for path in self.hidden),
            confined=self.confined,
            libraries=self.libraries,
        )
        return [sys.executable, "-m", self.child_module, arguments.to_text()]

    def environment(self, temporary: Path) -> dict[str, str]:
        """The child's variables; its temporary files go to ``temporary``."""
        kept = {name: os.environ[name] for name in _PASSED if name in os.environ}
        return {
            **kept,
            **({"CXX": self.cxx} if self.cxx else {}),
            **_python_variables(os.environ),
            "HOME": str(self.work_dir),
            "TMPDIR": str(temporary),
            "TORCHINDUCTOR_CACHE_DIR": str(self.cache_dir / "inductor"),
            "TRITON_CACHE_DIR": str(self.cache_dir / "triton"),
            # Line information would put this folder's name into each kernel.
            "TRITON_DISABLE_LINE_INFO": "1",
            # Inductor's compile processes only ask whether there is a GPU. Confined, they can't
            # start CUDA (see landlock.py), and needn't: its management library knows as well.
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
            "HF_HUB_OFFLINE": "1",
        }


def _python_variables(given: Mapping[str, str]) -> dict[str, str]:
    """So that the child imports what the parent would, and never from where a graph may write."""
    standard = {Path(folder).resolve() for folder in site.getsitepackages()}
    ours = [
        Path(str(package.__file__)).resolve().parent.parent
        for package in (compile_farm, compiler_service)
    ]
    operators = [Path(entry).resolve() for entry in given.get("PYTHONPATH", "").split(":") if entry]
    # What lies among the installed packages is found anyway; named here, it would hide Python's own
    # modules.
    folders = dict.fromkeys(path for path in (*ours, *operators) if path not in standard)
    return {
        **({"PYTHONPATH": ":".join(map(str, folders))} if folders else {}),
        "PYTHONSAFEPATH": "1",  # without it the current folder would come first
        "PYTHONUSERBASE": site.getuserbase(),  # else found through HOME, which the child may write
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
    }
