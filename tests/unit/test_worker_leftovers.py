"""What a killed compile left in the compiler's cache is removed, and nothing else."""

from __future__ import annotations

import fcntl
from pathlib import Path

from torch._inductor import codecache, cpp_builder

from compiler_service.engine.leftovers import BUILD_FOLDER_SUFFIX, remove_interrupted


def cached(folder: Path, *names: str) -> None:
    """Files of these names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("x")


def names(folder: Path) -> list[str]:
    """Every file and folder beneath."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_only_what_was_being_built_goes(tmp_path: Path) -> None:
    cached(tmp_path / "ab", "cabc.cpp", "cabc.so", "cabcd.so")
    cached(tmp_path / "ab" / f"cabc{BUILD_FOLDER_SUFFIX}", "part.o")
    cached(tmp_path / "precompiled_headers", "cxyz.h", "cxyz.h.gch", "cother.h", "cother.h.gch")
    (tmp_path / "precompiled_headers" / f"cxyz.h{BUILD_FOLDER_SUFFIX}").mkdir()
    removed = remove_interrupted(tmp_path)
    assert sorted(removed) == ["cabc.cpp", "cabc.so", "cxyz.h", "cxyz.h.gch"]
    assert names(tmp_path) == [
        "ab",
        "ab/cabcd.so",
        "precompiled_headers",
        "precompiled_headers/cother.h",
        "precompiled_headers/cother.h.gch",
    ]
    assert remove_interrupted(tmp_path) == []


def test_what_another_process_builds_now_stays(tmp_path: Path) -> None:
    cached(tmp_path / "ab", "cabc.cpp", "cabc.so")
    (tmp_path / "ab" / f"cabc{BUILD_FOLDER_SUFFIX}").mkdir()
    cached(tmp_path / "locks", "cabc.lock")
    with (tmp_path / "locks" / "cabc.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert remove_interrupted(tmp_path) == []
    assert sorted(remove_interrupted(tmp_path)) == ["cabc.cpp", "cabc.so"]


def test_a_cache_that_is_not_there_is_clean(tmp_path: Path) -> None:
    assert remove_interrupted(tmp_path / "none") == []


def test_torch_still_names_what_is_relied_on() -> None:
    """Where these go, headers are compiled anew with each child, and leftovers stay."""
    assert isinstance(codecache._HEADER_DIR, str)
    assert isinstance(codecache._HEADER_LOCK_DIR, str)
    assert cpp_builder._BUILD_TEMP_DIR
