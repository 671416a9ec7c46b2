"""Cold starts and steady state against torch.compile, in one run; writes benchmarks/results/.

    python -m benchmarks.cold_start [--repeat N] [--models gpt2,resnet50] [--out DIR]

Every row is a fresh process. Ratios are between rows of this run; a median is over --repeat rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.models import NAMES, TITLES, describe_inputs, device
from benchmarks.parts import PARTS
from benchmarks.peers import ROOT, Lab, RowFailed
from benchmarks.table import busy, machine, seconds, table

_BEGIN = time.perf_counter()


def say(words: str) -> None:
    """A line of progress with the time since the start."""
    print(f"[{time.perf_counter() - _BEGIN:5.0f} s] {words}", flush=True)


def main() -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--models", default=",".join(NAMES))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args()
    names = given.models.split(",")
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"no model is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    if given.repeat < 1:
        parser.error("--repeat takes 1 and more")
    where = device()
    report: dict[str, Any] = {
        "machine": machine(),
        "busy": busy(),
        "repeat": given.repeat,
        "models": {},
    }
    if report["busy"]:
        say(report["busy"])
    try:
        with Lab(say) as lab, lab.farm() as url:
            for name in names:
                report["models"][name] = _measure(lab, name, url, given.repeat)
            say("overhead of a call")
            report["overhead"] = _overhead(lab, url)
    except RowFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    for name, found in report["models"].items():
        found["inputs"] = describe_inputs(name, where)
        print(f"\n{TITLES[name]}, {found['inputs']}; from the model in memory:\n")
        print(table(found["medians"]))
        print()
        for line in found["claims"]:
            print(f"  {line}")
    overhead = report["overhead"]
    print(
        f"\na bound call's own Python with {overhead['weights']} weights: "
        f"{overhead['difference_us']:.1f} us as call less native run "
        f"({overhead['call_us']:.1f} - {overhead['native_us']:.1f}), "
        f"{overhead['own_us']:.1f} us with the compiled code taken out"
    )
    given.out.mkdir(parents=True, exist_ok=True)
    hardware = "".join(c if c.isalnum() else "-" for c in report["machine"]["hardware"].lower())
    named = [hardware, report["machine"]["date"], report["machine"]["revision"]]
    path = given.out / f"cold_start-{'-'.join(word for word in named if word)}.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    say(f"written to {path}")
    return 0


def _measure(lab: Lab, name: str, url: str, repeat: int) -> dict[str, Any]:
    at = ("--url", url)
    rows: dict[str, list[dict[str, Any]]] = {}

    def run(label: str, way: str, *extra: str, caches: Any = None) -> dict[str, Any]:
        say(f"{TITLES[name]}: {label}")
        row = lab.row(name, way, caches or lab.fresh_caches(), *extra)
        rows.setdefault(label, []).append(row)
        # Said at once: a run that is cut short has still measured what it measured.
        say(f"{label}: first result {seconds(row['first_result_s'])}")
        return row

    key = run("farm-submit", "farm-submit", *at)["key"]
    run("farm-miss", "farm-compile", *at)  # its graph is another: the artifact above is no hit
    warm = lab.fresh_caches()
    run("compile cold", "compile", caches=warm)
    for _ in range(repeat):
        # Interleaved, so that a drift of the machine meets all alike.
        run("eager", "eager")
        run("compile warm", "compile", caches=warm)
        run("farm-compile", "farm-compile", *at)
        run("farm-bind", "farm-bind", *at, "--key", key)
        run("farm-parts", "farm-parts", *at, "--key", key)
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
    warm, bind, jit = rows["compile warm"], rows["farm-bind"], rows["farm-compile"]
    submit = rows["farm-submit"]
    parts = {**rows["farm-parts"]["parts"], "first call": rows["farm-parts"]["first_call_s"]}
    named = ", ".join(f"{part} {seconds(parts[part])}" for part in (*PARTS, "first call"))
    return [
        f"bind / torch.compile warm: {warm['first_result_s'] / bind['first_result_s']:.1f} times "
        "faster to the first result",
        f"torch.compile backend hit / torch.compile warm: "
        f"{warm['first_result_s'] / jit['first_result_s']:.2f} times faster",
        f"steady state, torch.compile / bind: {warm['steady_s'] / bind['steady_s']:.3f}",
        f"bind in parts: {named}",
        f"open and bind {submit['weights']} weights: {seconds(parts['open'] + parts['bind'])}",
        f"artifact {submit['artifact_bytes'] / 1e6:.2f} MB "
        f"(code {submit['code_bytes'] / 1e6:.2f} MB unpacked)",
        "compile stages: "
        + ", ".join(f"{stage} {seconds(value)}" for stage, value in submit["stages"].items()),
    ]


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
