"""What a worker leaves on the disk, and what it starts there: folders, processes, variables."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

from compiler_service.worker.family import Family
from compiler_service.worker.limits import Limits
from compiler_service.worker.plan import ChildArguments, SandboxPlan
from compiler_service.worker.scratch import Scratch
from tests.sandboxes import is_running


def test_scratch_is_gone_after_use(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "scratch")
    folder = scratch.folder("job-")
    (folder / "file").write_text("x")
    assert folder != scratch.folder("job-")
    scratch.close()
    scratch.close()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_scratch_of_the_living_stays_and_of_the_dead_goes(tmp_path: Path) -> None:
    dead = tmp_path / "run-dead"
    dead.mkdir()
    (dead / "file").write_text("x")
    (tmp_path / "keep").mkdir()
    living = Scratch(tmp_path)
    kept = living.folder("job-")
    other = Scratch(tmp_path)
    assert kept.exists()
    assert not dead.exists()
    assert (tmp_path / "keep").exists()
    other.close()
    assert kept.exists()
    living.close()


def test_scratch_outlives_no_process(tmp_path: Path) -> None:
    code = (
        "import os, pathlib\n"
        "from compiler_service.worker.scratch import Scratch\n"
        f"scratch = Scratch(pathlib.Path({str(tmp_path)!r}))\n"
        "os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = tmp_path.iterdir()
    Scratch(tmp_path).close()
    assert not left.exists()


def _grandchild(session: str) -> tuple[subprocess.Popen[bytes], int]:
    """A child that leads its group, and has started "sleep"; the latter's process id."""
    code = (
        "import subprocess, time\n"
        f"started = subprocess.Popen(['sleep', '600'], start_new_session={session})\n"
        "print(started.pid, flush=True)\n"
        "time.sleep(600)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None
    with child.stdout:
        return child, int(child.stdout.readline())


@pytest.mark.parametrize("session", ["True", "False"])
def test_a_family_ends_together(session: str) -> None:
    child, grandchild = _grandchild(session)
    family = Family(child.pid)
    assert family.resident_bytes() > 0
    family.end()
    child.wait(30)
    while is_running(grandchild):
        pass
    assert family.resident_bytes() == 0
    family.end()


@pytest.mark.parametrize("session", ["True", "False"])
def test_a_family_ends_also_after_its_head(session: str) -> None:
    child, grandchild = _grandchild(session)
    family = Family(child.pid)
    family.resident_bytes()  # sees the grandchild while it still has a parent
    child.kill()
    child.wait(30)
    assert is_running(grandchild)
    family.end()
    while is_running(grandchild):
        pass


def test_a_family_holds_the_memory_of_all() -> None:
    code = "held = b'x' * 100_000_000; print(flush=True); import time; time.sleep(600)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    child = subprocess.Popen(
        [sys.executable, "-c", outer], stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None
    with child.stdout:
        child.stdout.readline()
    family = Family(child.pid)
    used = family.resident_bytes()
    family.end()
    child.wait(30)
    assert 100_000_000 < used < 300_000_000


def test_the_childs_arguments_survive_a_command_line() -> None:
    given = ChildArguments(7, "cuda:1", 10, 20, ("/a b", "/c'\"d"), ("/e",))
    assert ChildArguments.from_text(given.to_text()) == given


def plan(work_dir: Path, **changes: object) -> SandboxPlan:
    """A plan for the CPU."""
    return SandboxPlan("cpu", work_dir, Limits(), **changes)  # type: ignore[arg-type]


def test_the_command_line_is_this_interpreters(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    work_dir = tmp_path / "worker"
    work_dir.mkdir()
    (work_dir / "cache").symlink_to(tmp_path / "elsewhere")
    hidden = tmp_path / "key"
    program, option, module, text = plan(work_dir, hidden=(hidden,)).command(5)
    assert (program, option, module) == (sys.executable, "-m", "compiler_service.worker.child")
    given = ChildArguments.from_text(text)
    # The cache may be a link, and a rule on a link would be a rule on nothing.
    assert given.writable == (str(work_dir), str(tmp_path / "elsewhere"))
    assert given.hidden == (str(hidden),)


def test_the_environment_is_made_from_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("HTTP_PROXY", "http://user:password@proxy")
    monkeypatch.setenv("PYTHONSTARTUP", "/evil")
    monkeypatch.setenv("CXX", "g++-12")
    found = plan(tmp_path).environment(tmp_path / "tmp")
    assert found["PATH"] == "/bin"
    assert found["CUDA_VISIBLE_DEVICES"] == "3"
    assert found["CXX"] == "g++-12"
    assert plan(tmp_path, cxx="/w/g++").environment(tmp_path)["CXX"] == "/w/g++"
    assert {"HTTP_PROXY", "PYTHONSTARTUP"} & set(found) == set()
    assert found["TMPDIR"] == str(tmp_path / "tmp")


def test_the_operators_import_path_is_kept_and_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = site.getsitepackages()[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"client::{packages}:/abs")
    path = plan(tmp_path).environment(tmp_path)["PYTHONPATH"].split(":")
    assert str(tmp_path / "client") in path
    assert "/abs" in path
    # Installed packages, first in line, could hide Python's own modules.
    assert packages not in path
    assert "" not in path
