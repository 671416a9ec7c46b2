"""C++ compilers with faults, for the tests of what a worker does about them."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def faulty_compiler(folder: Path) -> Path:
    """The real g++, but it binds libstdc++ statically into shared objects, as some images' does."""
    real = shlex.quote(str(shutil.which("g++")))
    return script(
        folder / "g++",
        'case " $* " in\n'
        f'  *" -shared "*) exec {real} "$@" -static-libstdc++ ;;\n'
        f'  *) exec {real} "$@" ;;\n'
        "esac",
    )
