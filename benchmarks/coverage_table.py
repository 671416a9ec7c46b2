"""Coverage's rows as a summary for the terminal and as docs/coverage.md.

In: the content of a results file. Out: lines; a page with totals first, then one row for each
architecture, then the reasons of what did not pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.architectures import ARCHITECTURES, FAMILIES

TITLES = {
    "inductor": "torch.compile",
    "export": "torch.export",
    "farm-compile": 'torch.compile(backend="compile_farm")',
    "farm-submit": "farm.submit and bind",
}
_OUTCOMES = ("passed", "partly", "refused", "differs", "failed")
_MEANING = {
    "passed": "the same results as eager, within the bound, each graph from compiled code",
    "partly": "the same, but some graphs ran eager",
    "refused": "an error that says why, before anything ran; under torch.compile eager runs",
    "differs": "other results than eager's",
    "failed": "another error, a crash or a hang",
}


def summary(content: dict[str, Any]) -> list[str]:
    """A line for each way."""
    rows = content["rows"]
    lines = []
    for way, counts in totals(rows).items():
        words = ", ".join(f"{counts[outcome]} {outcome}" for outcome in _OUTCOMES)
        lines.append(f"{TITLES[way]:40}{words} (of {counts.total()})")
    return lines


def totals(rows: list[dict[str, Any]]) -> dict[str, Counter[str]]:
    """Of each way, how many architectures came to each outcome."""
    return {
        way: Counter(row["ways"][way]["outcome"] for row in rows if way in row["ways"])
        for way in TITLES
        if any(way in row["ways"] for row in rows)
    }


def write_markdown(content: dict[str, Any], source: Path, page: Path) -> None:
    """Writes the page anew."""
    page.write_text("\n".join(_page(content, source)) + "\n")


def _page(content: dict[str, Any], source: Path) -> list[str]:
    machine, rows = content["machine"], content["rows"]
    found = totals(rows)
    dtype = "bfloat16" if machine["cuda"] and "NVIDIA" in machine["hardware"] else "float32"
    commits = sorted({str(row.get("revision") or machine["revision"]) for row in rows})
    lines = [
        "# Coverage",
        "",
        f"{len(rows)} architectures, small and with random weights, in eval mode: through torch's "
        "own ways and",
        "the farm's, on the same list in the same run." + _unmeasured(rows),
        "",
        f"{machine['hardware']}, torch {machine['torch']}, transformers "
        f"{machine['transformers']}, {dtype}, {machine['date']},",
        f"commit {' and '.join(commits)} ([rows](../benchmarks/results/{source.name})).",
        "",
        f"| | {' | '.join(_OUTCOMES)} |",
        f"|---|{'---|' * len(_OUTCOMES)}",
    ]
    for way, counts in found.items():
        cells = " | ".join(str(counts[outcome]) for outcome in _OUTCOMES)
        lines.append(f"| {_code(TITLES[way])} | {cells} |")
    lines += ["", *(f"- **{name}**: {words}" for name, words in _MEANING.items()), ""]
    lines += [
        "The bound is the same for all ways: relative, by norm, for each result. It is four times "
        "eager's own",
        "rounding error (against the model in a higher precision), and at least 64 roundings of "
        "float32, or 0.03",
        "in bfloat16.",
        "",
        "`python -m benchmarks.coverage --markdown` measures your machine and writes this page.",
        "",
        "## Architectures",
        "",
        f"| family | architecture | {' | '.join(_code(TITLES[way]) for way in found)} |",
        f"|---|---|{'---|' * len(found)}",
    ]
    ordered = sorted(rows, key=lambda row: FAMILIES.index(row["family"]))
    for row in ordered:
        cells = " | ".join(_cell(row["ways"].get(way)) for way in found)
        lines.append(f"| {row['family']} | {row['name']} | {cells} |")
    lines += [
        "",
        "## Reasons",
        "",
        "| architecture | way | outcome | reason |",
        "|---|---|---|---|",
    ]
    for row in ordered:
        for way, one in row["ways"].items():
            if one["outcome"] != "passed":
                start = f"| {row['name']} | {_code(TITLES[way])} | {one['outcome']}"
                lines.append(f"{start} | {_reason(one)} |")
    return lines


def _code(title: str) -> str:
    return f"`{title}`" if "(" in title else title


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not run"
    graphs: int = row.get("graphs", 0)
    return str(row["outcome"]) + (f", {graphs} graphs" if graphs > 1 else "")


def _reason(row: dict[str, Any]) -> str:
    """One line that a table can hold, without addresses and paths of one run."""
    words = " ".join(f"{row.get('kind', '')}: {row.get('reason', '')}".split())
    words = re.sub(r"(/[\w.+-]+){3,}/", "", words)
    words = re.sub(r"0x[0-9a-f]{6,}", "0x...", words)
    words = words.replace("|", "\\|").replace("<", "&lt;")
    return words[:300].rstrip() + ("..." if len(words) > 300 else "")


def _unmeasured(rows: Sequence[dict[str, Any]]) -> str:
    left = len({one.name for one in ARCHITECTURES} - {row["name"] for row in rows})
    return f" {left} more on the list are not measured yet." if left else ""
