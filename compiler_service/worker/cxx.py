"""The C++ compiler of a worker: found, tried, and cured of one known fault.

In: what CXX or PATH offers. Out: the compiler to use, and what was found out about it.

The fault: some toolchains bind libstdc++ statically into shared objects. Every AOTInductor package
then crashes at load with SIGSEGV, in std::regex, which parses the device's name: the object's own
copy of its locale tables is not the process's. Linking the shared libstdc++.so.6 cures it, so a
wrapper that appends it to each -shared link is used in the compiler's place.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_LIBRARY = "libstdc++.so.6"
_SOURCE = """#include <regex>
#include <string>
extern "C" int matches(const char* text) {
  return std::regex_match(std::string(text), std::regex("([a-z]+)(?::([0-9]+))?"));
}
"""
_USUAL_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib")
_SECONDS = 120


@dataclass(frozen=True)
class CxxCompiler:
    """``path`` is what to call; empty where there is no usable one, and ``problem`` says why."""

    path: str
    problem: str = ""
    remedy: str = ""
    cured: bool = False

    @property
    def detail(self) -> str:
        """What was found, in a line."""
        if self.problem:
            return self.problem
        cure = " (libstdc++ bound statically: cured by linking the shared one)"
        return self.path + (cure if self.cured else "")


def find_compiler(work_dir: Path, environment: dict[str, str] | None = None) -> CxxCompiler:
    """Finds and tries the compiler; writes a wrapper under ``work_dir`` where it needs one."""
    variables = dict(os.environ) if environment is None else environment
    wanted = variables.get("CXX") or "g++"
    found = shutil.which(wanted, path=variables.get("PATH"))
    if found is None:
        return CxxCompiler(
            "",
            f"there is no C++ compiler ({wanted})",
            "install g++ (Debian: apt-get install g++), or set CXX",
        )
    work_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cxx-", dir=work_dir) as folder:
        problem = _try(found, Path(folder))
        if problem:
            return CxxCompiler("", f"{found} can't compile: {problem}", "repair or replace it")
        if _links_shared(Path(folder) / "try.so"):
            return CxxCompiler(found)
        library = _shared_library(found)
        if library is None:
            return CxxCompiler(
                "",
                f"{found} binds libstdc++ statically into shared objects, whose artifacts crash "
                f"at load, and there is no {_LIBRARY} to link instead",
                "install libstdc++6, or set CXX to another compiler",
            )
        wrapper = _write_wrapper(found, library, work_dir / "bin")
        problem = _try(str(wrapper), Path(folder))
        if problem or not _links_shared(Path(folder) / "try.so"):
            return CxxCompiler(
                "",
                f"{found} binds libstdc++ statically into shared objects, and linking {library} "
                f"does not change that {problem}".strip(),
                "set CXX to another compiler",
            )
        return CxxCompiler(str(wrapper), cured=True)


def _try(compiler: str, folder: Path) -> str:
    """Compiles a shared object that uses std::regex; what went wrong, or nothing."""
    source = folder / "try.cpp"
    source.write_text(_SOURCE)
    built = folder / "try.so"
    built.unlink(missing_ok=True)
    command = [compiler, "-std=c++17", "-shared", "-fPIC", "-o", str(built)]
    try:
        done = subprocess.run(
            [*command, str(source)], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return done.stderr.strip()[-500:] or "it failed without a word"
    return "" if built.exists() else "it made no file"


def _links_shared(shared_object: Path) -> bool:
    """Whether the object asks the loader for libstdc++: its name stands in the dynamic strings."""
    return _LIBRARY.encode() + b"\0" in shared_object.read_bytes()


def _shared_library(compiler: str) -> Path | None:
    answer = subprocess.run(
        [compiler, f"-print-file-name={_LIBRARY}"],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    ).stdout.strip()
    candidates = [Path(answer), *(Path(folder) / _LIBRARY for folder in _USUAL_FOLDERS)]
    return next((path for path in candidates if path.is_absolute() and path.exists()), None)


def _write_wrapper(compiler: str, library: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    wrapper = folder / "g++-shared-libstdcxx"
    real = shlex.quote(compiler)
    text = (
        "#!/bin/sh\n"
        f"# {compiler} binds libstdc++ statically into shared objects; see worker/cxx.py\n"
        'case " $* " in\n'
        f'  *" -shared "*) exec {real} "$@" {shlex.quote(str(library))} ;;\n'
        f'  *) exec {real} "$@" ;;\n'
        "esac\n"
    )
    temporary = wrapper.with_suffix(f".{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(0o755)
    temporary.replace(wrapper)
    return wrapper
