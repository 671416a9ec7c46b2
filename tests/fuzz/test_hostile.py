"""Inputs made to exhaust their reader end in a typed error, in bounded memory.

Large valid ones pass.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.hostile import CASES

ROOT = Path(__file__).parents[2]
MOST_BYTES = 500 * 2**20
TAKEN = frozenset({"large_but_valid", "large_constants"})
# Each of the others takes a process 2 to 8 s, and there are forty.
QUICK = frozenset(
    {
        "a_million_nodes",
        "an_expression_10000_deep",
        "a_tree_10000_deep",
        "a_chain_of_subgraphs",
        "a_size_of_2_to_the_62",
        "a_tower_of_powers",
        "a_zip_whose_directory_has_millions",
        "a_manifest_that_unpacks_to_600_mb",
        "a_zstd_bomb",
    }
)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_ends_in_a_typed_error_and_bounded_memory(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.hostile", name],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ended, peak = done.stdout.split()
    assert (ended == "none") == (name in TAKEN)
    assert int(peak) < MOST_BYTES
