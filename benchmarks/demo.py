"""The main job, shown: two real models compiled once, then loaded by fresh processes.

    make demo

Starts a farm on this machine, compiles GPT-2 and ResNet-50 from one process, and times every way to
a first result in a process of its own. Uses the GPU if there is one.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.models import DEMO, TITLES, describe_inputs, device
from benchmarks.peers import Lab, RowFailed
from benchmarks.table import busy, machine, table

_BEGIN = time.perf_counter()


def say(words: str) -> None:
    """A line of progress with the time since the start."""
    print(f"[{time.perf_counter() - _BEGIN:5.0f} s] {words}", flush=True)


def main() -> int:
    """Runs the demo; the exit code."""
    where = device()
    say(f"on {machine()['hardware']} ({where})")
    if words := busy():
        say(words)
    try:
        with Lab(say) as lab:
            say("starting a farm: gateway, store and worker in one process")
            with lab.farm() as url:
                say("one process has the farm compile both")
                made = lab.rows(DEMO, "farm-submit", lab.fresh_caches(), "--url", url)
                results = {name: _measure(lab, name, url, made[name]["key"]) for name in DEMO}
    except RowFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    for name, rows in results.items():
        print(f"\n{TITLES[name]}, {describe_inputs(name, where)}; from the model in memory:\n")
        print(table(rows))
        warm, bind = rows["compile warm"]["first_result_s"], rows["farm-bind"]["first_result_s"]
        print(f"\n  bind is {warm / bind:.0f} times faster than torch.compile's warm local cache")
    print("\ndifference: the largest from eager, relative to eager's largest value")
    return 0


def _measure(lab: Lab, name: str, url: str, key: str) -> dict[str, dict[str, Any]]:
    title = TITLES[name]
    at = ("--url", url)
    rows = {}
    say(f"{title}: a fresh process binds it")
    rows["farm-bind"] = lab.row(name, "farm-bind", lab.fresh_caches(), *at, "--key", key)
    say(f"{title}: another comes by torch.compile, whose graph is another: the farm compiles it")
    rows["farm-miss"] = lab.row(name, "farm-compile", lab.fresh_caches(), *at)
    say(f"{title}: a fresh process hits that through torch.compile")
    rows["farm-compile"] = lab.row(name, "farm-compile", lab.fresh_caches(), *at)
    say(f"{title}: eager")
    rows["eager"] = lab.row(name, "eager", lab.fresh_caches())
    say(f"{title}: torch.compile without a cache")
    caches = lab.fresh_caches()
    rows["compile cold"] = lab.row(name, "compile", caches)
    say(f"{title}: torch.compile with its warm local cache")
    rows["compile warm"] = lab.row(name, "compile", caches)
    return rows


if __name__ == "__main__":
    sys.exit(main())
