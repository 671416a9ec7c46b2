"""The C++ compiler of a worker: found, tried, and cured of binding libstdc++ statically.

With the real compiler, and with one that has the fault, made from the real one.
"""

from __future__ import annotations

import ctypes
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from compiler_service.worker.cxx import find_compiler
from tests.compilers import faulty_compiler, script

GXX = shutil.which("g++")
needs_gxx = pytest.mark.skipif(GXX is None, reason="there is no g++ here")


def needed(shared_object: Path) -> str:
    """What the object asks the loader for, as binutils see it."""
    return subprocess.run(
        ["readelf", "-d", str(shared_object)], capture_output=True, text=True, check=True
    ).stdout


@needs_gxx
def test_a_good_compiler_is_taken_as_it_is(tmp_path: Path) -> None:
    found = find_compiler(tmp_path, {"PATH": str(Path(str(GXX)).parent)})
    assert (found.path, found.problem, found.cured) == (GXX, "", False)
    assert not (tmp_path / "bin").exists()
    assert list(tmp_path.iterdir()) == []


@needs_gxx
def test_the_fault_is_found_and_cured(tmp_path: Path) -> None:
    # A name that a shell would split.
    faulty = faulty_compiler(tmp_path / "it's a folder")
    found = find_compiler(tmp_path / "worker", {"CXX": str(faulty)})
    assert found.cured
    assert found.problem == ""
    assert "bound statically" in found.detail
    assert found.path.startswith(str(tmp_path / "worker" / "bin"))

    source = tmp_path / "try.cpp"
    source.write_text(
        '#include <regex>\nextern "C" int f(const char* t)'
        '{ return std::regex_match(t, std::regex("cuda:[0-9]+")); }'
    )
    for compiler, linked in ((str(faulty), False), (found.path, True)):
        built = tmp_path / f"{linked}.so"
        command = [compiler, "-shared", "-fPIC", "-o", str(built), str(source)]
        subprocess.run(command, check=True)
        assert ("libstdc++.so.6" in needed(built)) == linked
    assert ctypes.CDLL(str(tmp_path / "True.so")).f(b"cuda:0") == 1
    # What is no shared object is compiled as before.
    subprocess.run([found.path, "-c", "-o", str(tmp_path / "a.o"), str(source)], check=True)
    version = subprocess.run([found.path, "--version"], capture_output=True, text=True, check=True)
    assert "GCC" in version.stdout or "g++" in version.stdout


def test_no_compiler(tmp_path: Path) -> None:
    found = find_compiler(tmp_path, {"PATH": str(tmp_path)})
    assert found.path == ""
    assert "there is no C++ compiler (g++)" in found.problem
    assert "apt-get install g++" in found.remedy


def test_a_compiler_that_can_not_compile_is_told_in_its_own_words(tmp_path: Path) -> None:
    broken = script(tmp_path / "g++", "echo 'fatal error: regex: No such file' >&2; exit 1")
    found = find_compiler(tmp_path, {"CXX": str(broken)})
    assert found.path == ""
    assert "can't compile: fatal error: regex: No such file" in found.problem
    silent = script(tmp_path / "silent", "exit 1")
    assert "without a word" in find_compiler(tmp_path, {"CXX": str(silent)}).problem


def test_a_compiler_that_says_yes_and_makes_nothing(tmp_path: Path) -> None:
    lazy = script(tmp_path / "g++", "exit 0")
    found = find_compiler(tmp_path, {"CXX": str(lazy)})
    assert found.path == ""
    assert "made no file" in found.problem


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    wrong = tmp_path / "g++"
    wrong.write_bytes(b"\x7fELF but no more")
    wrong.chmod(0o755)
    found = find_compiler(tmp_path, {"CXX": str(wrong)})
    assert found.path == ""
    assert "can't compile" in found.problem


@needs_gxx
def test_a_fault_that_linking_does_not_cure_is_told(tmp_path: Path) -> None:
    """A compiler that always makes the same object, whatever it is given."""
    faulty = faulty_compiler(tmp_path / "faulty")
    source, built = tmp_path / "x.cpp", tmp_path / "x.so"
    source.write_text("int x;")
    subprocess.run([str(faulty), "-shared", "-fPIC", "-o", str(built), str(source)], check=True)
    stubborn = script(
        tmp_path / "stubborn",
        f'case "$1" in -print-file-name*) exec {shlex.quote(str(GXX))} "$@";; esac\n'
        f'while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done\n'
        f'cp {shlex.quote(str(built))} "$out"',
    )
    found = find_compiler(tmp_path, {"CXX": str(stubborn)})
    assert found.path == ""
    assert "binds libstdc++ statically" in found.problem
    assert "set CXX to another compiler" in found.remedy
