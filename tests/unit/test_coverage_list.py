"""The list that benchmarks/coverage.py measures, and how it compares results."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import coverage, coverage_row, coverage_table
from benchmarks.architectures import ARCHITECTURES, FAMILIES, by_name
from benchmarks.coverage_row import Mismatch, difference
from benchmarks.peers import Caches


def test_the_list_has_every_family_and_each_name_once() -> None:
    names = Counter(one.name for one in ARCHITECTURES)
    assert [name for name, count in names.items() if count > 1] == []
    assert {one.family for one in ARCHITECTURES} == set(FAMILIES)


def test_at_least_60_exist_in_the_installed_transformers() -> None:
    pytest.importorskip("transformers")
    assert sum(one.exists() for one in ARCHITECTURES) >= 60


@pytest.mark.filterwarnings("ignore")  # transformers warns about what it will change
@pytest.mark.parametrize("name", ["llama", "t5", "convnext"])
def test_it_builds_small_models_that_run(name: str) -> None:
    pytest.importorskip("transformers")
    model, args, kwargs = by_name(name).build()
    assert sum(weight.numel() for weight in model.parameters()) < 2_000_000
    with torch.no_grad():
        first, second = model(*args, **kwargs), model(*args, **kwargs)
    assert difference(first, second) == 0.0


X = torch.tensor([1.0, 2.0, float("nan")])


@pytest.mark.parametrize(
    ("mine", "theirs", "words"),
    [
        ({"a": X}, {"b": X}, "results"),
        ((X, [X]), (X, [X, X]), "results"),
        (X[:2], X, "shape"),
        (X.double(), X, "dtype"),
        (X.nan_to_num(), X, "NaN"),
        (torch.tensor([float("inf")]), torch.tensor([-float("inf")]), "infinity"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 integers"),
        ({"a": 1}, {"a": True}, "is 1"),
    ],
)
def test_what_no_relative_error_describes_is_a_mismatch(mine: Any, theirs: Any, words: str) -> None:
    with pytest.raises(Mismatch, match=words):
        difference(mine, theirs)


def test_the_difference_is_the_largest_relative_norm_of_all_results() -> None:
    theirs = {"a": torch.ones(4), "b": [torch.ones(4), X]}
    mine = {"a": torch.ones(4) * 1.5, "b": [torch.ones(4) * 3, X]}
    assert difference(mine, theirs) == pytest.approx(2.0)


def test_a_crash_costs_one_way_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "child"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "for way in sys.argv[4].split(','):\n"
        "    if way == 'export':\n"
        "        print('it hurts', file=sys.stderr, flush=True)\n"
        "        os.abort()\n"
        "    print('ROW ' + json.dumps({'way': way, 'outcome': 'passed'}), flush=True)\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(coverage.sys, "executable", str(script))
    ways = list(coverage_row.WAYS)
    found = coverage.measure("bert", ways, "nowhere", Caches(tmp_path), limit=60)
    assert {way: row["outcome"] for way, row in found.items()} == {
        "inductor": "passed",
        "export": "failed",
        "farm-compile": "passed",
        "farm-submit": "passed",
    }
    assert found["export"]["kind"] == "crash"
    assert "it hurts" in found["export"]["reason"]


def test_the_page_has_totals_a_row_for_each_and_the_reasons(tmp_path: Path) -> None:
    ways = {
        way: {"way": way, "outcome": "passed", "graphs": 1}
        for way in ("inductor", "export", "farm-compile")
    }
    refused = {"way": "farm-submit", "outcome": "refused", "kind": "CaptureError", "reason": "a|b"}
    row = {"name": "bert", "family": "encoder", "ways": {**ways, "farm-submit": refused}}
    machine = dict.fromkeys(("hardware", "date", "torch", "cuda", "transformers", "revision"), "")
    page = tmp_path / "coverage.md"
    content = json.loads(json.dumps({"machine": machine, "rows": [row]}))
    coverage_table.write_markdown(content, Path("rows.json"), page)
    lines = page.read_text().splitlines()
    assert "| farm.submit and bind | 0 | 0 | 1 | 0 | 0 |" in lines
    assert "| encoder | bert | passed | passed | passed | refused |" in lines
    assert r"| bert | farm.submit and bind | refused | CaptureError: a\|b |" in lines
