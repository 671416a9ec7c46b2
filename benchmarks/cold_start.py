"""Cold starts and steady state against torch.compile, in one run; writes benchmarks/results/.

    python -m benchmarks.cold_start [--repeat N] [--models gpt2,resnet50] [--ways WAY,WAY]
        [--out DIR]

Every row is a fresh process. Ratios are between rows of this run; a median is over --repeat rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.models import DEMO, NAMES, TITLES, describe_inputs, device
from benchmarks.peers import ROOT, Lab, RowFailed
from benchmarks.row import RELEASED
from benchmarks.table import TITLES as TITLES_OF_WAYS
from benchmarks.table import busy, machine, results_path, seconds, table, write_results

_BEGIN = time.perf_counter()
_HITS = ("farm-compile", "farm-bind", *RELEASED)
_WAYS = ("eager", "compile warm", "farm-compile", "farm-bind", "farm-parts", *RELEASED)


def say(words: str) -> None:
    """A line of progress with the time since the start."""
    print(f"[{time.perf_counter() - _BEGIN:5.0f} s] {words}", flush=True)


def main() -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--models", default=",".join(DEMO))
    parser.add_argument("--ways", default=",".join(_WAYS), help="those that are repeated")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args()
    names = given.models.split(",")
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"no model is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    ways = given.ways.split(",")
    if unknown := [way for way in ways if way not in _WAYS]:
        parser.error(f"no way is called {unknown[0]!r}; there are {', '.join(_WAYS)}")
    if given.repeat < 1:
        parser.error("--repeat takes 1 and more")
    where = device()
    report: dict[str, Any] = {
        "machine": machine(),
        "busy": busy(),
        "repeat": given.repeat,
        "models": {},
    }
    path = results_path(given.out, "cold_start", report["machine"])
    if report["busy"]:
        say(report["busy"])
    try:
        with Lab(say) as lab, lab.farm() as url:
            for name in names:
                report["models"][name] = _measure(lab, name, url, given.repeat, ways)
                # A run that is cut short keeps the models that it has measured.
                _show(name, report["models"][name], where)
                write_results(path, report)
            say("overhead of a call")
            report["overhead"] = _overhead(lab, url)
    except RowFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    overhead = report["overhead"]
    print(
        f"\na bound call's own Python with {overhead['weights']} weights: "
        f"{overhead['difference_us']:.1f} us as call less native run "
        f"({overhead['call_us']:.1f} - {overhead['native_us']:.1f}), "
        f"{overhead['own_us']:.1f} us with the compiled code taken out"
    )
    write_results(path, report)
    say(f"written to {path}")
    return 0


def _show(name: str, found: dict[str, Any], where: str) -> None:
    found["inputs"] = describe_inputs(name, where)
    print(f"\n{TITLES[name]}, {found['inputs']}; from the model in memory:\n")
    print(table(found["medians"]))
    print()
    for line in found["claims"]:
        print(f"  {line}", flush=True)


def _measure(lab: Lab, name: str, url: str, repeat: int, ways: Sequence[str]) -> dict[str, Any]:
    at = ("--url", url)
    rows: dict[str, list[dict[str, Any]]] = {}

    def run(label: str, way: str, *extra: str, caches: Any = None) -> dict[str, Any]:
        say(f"{TITLES[name]}: {label}")
        row = lab.row(name, way, caches or lab.fresh_caches(), *extra)
        rows.setdefault(label, []).append(row)
        # Said at once: a run that is cut short has still measured what it measured.
        say(f"{label}: first result {seconds(row['first_result_s'])}")
        return row

    publish = ["--publish"] if set(ways) & set(RELEASED) else []
    key = run("farm-submit", "farm-submit", *at, *publish)["key"]
    if "farm-compile" in ways:
        # Its graph is another: the artifact above is no hit.
        run("farm-miss", "farm-compile", *at)
    warm = lab.fresh_caches()
    if "compile warm" in ways:
        run("compile cold", "compile", caches=warm)
    for _ in range(repeat):
        # Interleaved, so that a drift of the machine meets all alike.
        for way in ways:
            if way == "compile warm":
                run("compile warm", "compile", caches=warm)
            else:
                run(way, way, *at, "--key", key)
    medians = {label: _median(found) for label, found in rows.items()}
    return {"rows": rows, "medians": medians, "claims": _claims(medians)}


def _median(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each number, also of those inside; what is no number is the first row's."""
    found: dict[str, Any] = {}
    for name, value in rows[0].items():
        if isinstance(value, dict):
            found[name] = _median([row[name] for row in rows])
        elif isinstance(value, float):
            found[name] = statistics.median(row[name] for row in rows)
        else:
            found[name] = value
    return found


def _claims(rows: dict[str, dict[str, Any]]) -> list[str]:
    submit = rows["farm-submit"]
    return [
        *_sooner(rows),
        *_in_parts(rows),
        f"artifact {submit['artifact_bytes'] / 1e6:.2f} MB "
        f"(code {submit['code_bytes'] / 1e6:.2f} MB unpacked)",
        "compile stages: "
        + ", ".join(f"{stage} {seconds(value)}" for stage, value in submit["stages"].items()),
    ]


def _sooner(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Each hit against torch.compile's warm local cache and against eager, where measured."""
    lines = []
    for name in (hit for hit in _HITS if hit in rows):
        first, words = rows[name]["first_result_s"], []
        for peer in ("compile warm", "eager"):
            if peer in rows:
                ratio = rows[peer]["first_result_s"] / first
                words.append(f"{ratio:.2f} times sooner than {TITLES_OF_WAYS[peer]}")
        if words:
            lines.append(f"{TITLES_OF_WAYS[name]}: first result {', '.join(words)}")
    if "farm-bind" in rows and "compile warm" in rows:
        ratio = rows["compile warm"]["steady_s"] / rows["farm-bind"]["steady_s"]
        lines.append(f"steady state, torch.compile / bind: {ratio:.3f}")
    return lines


def _in_parts(rows: dict[str, dict[str, Any]]) -> list[str]:
    """What a hit is made of, step by step."""
    lines = []
    for name, row in rows.items():
        if "parts" in row:
            parts = {**row["parts"], "first call": row["first_call_s"]}
            named = ", ".join(f"{part} {seconds(value)}" for part, value in parts.items())
            title = "bind" if name == "farm-parts" else TITLES_OF_WAYS[name]
            lines.append(f"{title} in parts: {named}")
    if "farm-parts" in rows:
        parts, weights = rows["farm-parts"]["parts"], rows["farm-submit"]["weights"]
        both = seconds(parts["open"] + parts["bind"])
        lines.append(f"open and bind {weights} weights: {both}")
    return lines


def _overhead(lab: Lab, url: str) -> dict[str, float]:
    caches = lab.fresh_caches()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.overhead", "--url", url],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=caches.environment(),
        check=False,
    )
    if done.returncode:
        raise RowFailed(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
