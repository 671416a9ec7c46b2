"""A checkout that nothing was installed from: torch finds the backend by its entry point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_checkouts_entry_points_are_found(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "describe-checkout"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    code = (
        "import sys, importlib.metadata as m; sys.path[:] = [sys.argv[1]]\n"
        "(one,) = m.entry_points(group='torch_dynamo_backends', name='compile_farm')\n"
        "print(one.value)"
    )
    told = subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout.strip() == "compile_farm.backend:compile_farm"
