"""How many model architectures work through the farm, against torch's own ways, in one run.

    python -m benchmarks.coverage [--only NAME,NAME] [--skip-inductor] [--jobs N] [--out DIR]
        [--limit-seconds N] [--resume FILE] [--markdown]
    python -m benchmarks.coverage --markdown --resume FILE --only ""    # the table alone

In: architectures.py's list. Out: rows in coverage-HARDWARE-DATE-COMMIT.json, written after each
architecture, so that a run that is cut short keeps what it measured; a summary; docs/coverage.md.

Each architecture has a process of its own. One that crashes or hangs is started again with the
ways that are left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.architecture import Architecture
from benchmarks.architectures import ARCHITECTURES
from benchmarks.coverage_row import WAYS
from benchmarks.coverage_table import summary, write_markdown
from benchmarks.peers import ROOT, Caches, Lab, RowFailed
from benchmarks.table import machine, results_path, write_results

_BEGIN = time.perf_counter()
# Mixtures of experts call transformers' own operator, where torch's takes bfloat16 alone.
_EXPERTS = "transformers.integrations.moe"


def say(words: str) -> None:
    """A line of progress with the time since the start."""
    print(f"[{time.perf_counter() - _BEGIN:5.0f} s] {words}", flush=True)


def main() -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="these architectures alone")
    parser.add_argument("--skip-inductor", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="architectures at one time")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument(
        "--limit-seconds",
        type=float,
        default=600.0,
        help="for an architecture; each of its ways has an equal part, and what those before left",
    )
    parser.add_argument("--resume", type=Path, help="a results file: what it has is not run again")
    parser.add_argument("--markdown", action="store_true", help="write docs/coverage.md")
    given = parser.parse_args()
    chosen = _choose(parser, given.only)
    ways = [way for way in WAYS if not (given.skip_inductor and way == "inductor")]
    report = _Report(given.out, given.resume)
    todo = [one for one in chosen if not report.has(one.name)]
    try:
        if todo:
            _measure_all(todo, ways, given.jobs, given.limit_seconds, report)
    except RowFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        print("\n".join(summary(report.content)), flush=True)
    if given.markdown:
        write_markdown(report.content, report.path, ROOT / "docs" / "coverage.md")
        say("docs/coverage.md is written")
    return 0


def _choose(parser: argparse.ArgumentParser, only: str | None) -> list[Architecture]:
    if only is None:
        missing = [one.name for one in ARCHITECTURES if not one.exists()]
        if missing:
            say(f"not installed here: {', '.join(missing)}")
        return [one for one in ARCHITECTURES if one.name not in missing]
    names = [name for name in only.split(",") if name]
    known = {one.name: one for one in ARCHITECTURES}
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no architecture is called {unknown[0]!r}")
    return [known[name] for name in names]


class _Report:
    """The results file; written as a whole after each architecture."""

    def __init__(self, folder: Path, resume: Path | None) -> None:
        self._lock = threading.Lock()
        found = machine()
        self.content: dict[str, Any] = {"machine": found, "rows": []}
        # A file that is resumed may hold rows of an earlier commit.
        self._revision = found["revision"]
        self.path = results_path(folder, "coverage", found)
        if resume is not None:
            self.path = resume
            self.content = json.loads(resume.read_text())

    def has(self, name: str) -> bool:
        return any(row["name"] == name for row in self.content["rows"])

    def add(self, row: dict[str, Any]) -> None:
        with self._lock:
            self.content["rows"].append({**row, "revision": self._revision})
            write_results(self.path, self.content)


def _measure_all(
    todo: list[Architecture], ways: list[str], jobs: int, limit: float, report: _Report
) -> None:
    libraries = [word for name in _libraries() for word in ("--library", name)]
    pool = ThreadPoolExecutor(jobs)
    with Lab(say) as lab, lab.farm(*libraries) as url:
        say(f"{len(todo)} architectures, {len(ways)} ways")
        caches = lab.fresh_caches()
        futures = {pool.submit(measure, one.name, ways, url, caches, limit): one for one in todo}
        try:
            for count, future in enumerate(as_completed(futures), 1):
                one = futures[future]
                found = future.result()
                report.add({"name": one.name, "family": one.family, "ways": found})
                outcomes = ", ".join(f"{way} {row['outcome']}" for way, row in found.items())
                say(f"{count}/{len(todo)} {one.name}: {outcomes}")
                for way, row in found.items():
                    if row["outcome"] != "passed":
                        say(f"    {way}: {row.get('kind', '')} {row.get('reason', '')[:300]!r}")
        finally:
            # After an interrupt only those that run already are waited for.
            pool.shutdown(cancel_futures=True)


def _libraries() -> list[str]:
    """Modules with operators that the models call, for the farm to load."""
    import torch

    try:
        import_module(_EXPERTS)
    except ImportError:
        return []
    return [_EXPERTS] if hasattr(torch.ops.transformers, "grouped_mm_fallback") else []


def measure(
    name: str, ways: list[str], url: str, caches: Caches, limit: float
) -> dict[str, dict[str, Any]]:
    """A row for each way; a process that ends or hangs costs the way that it was at."""
    begin = time.monotonic()
    found: dict[str, dict[str, Any]] = {}
    while left := [way for way in ways if way not in found]:
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                [
                    sys.executable, "-m", "benchmarks.coverage_row",
                    name, ",".join(left), "--url", url,
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=caches.environment(),
                bufsize=0,  # select sees nothing of what a buffer holds
                start_new_session=True,
            ) as process,
        ):  # fmt: skip
            try:
                problem = _follow(process, ways, found, begin, limit)
            finally:
                _end(process)
            if problem == "crash":
                errors.seek(0)
                tail = errors.read()[-600:].decode(errors="replace").strip()
                reason = f"the process ended with {process.returncode}: {tail}"
            else:
                reason = f"not done in its part of {limit:.0f} s"
        if problem:
            stopped = next(way for way in ways if way not in found)
            row = {"way": stopped, "outcome": "failed", "kind": problem, "reason": reason}
            found[stopped] = row
    return {way: found[way] for way in ways}


def _follow(
    process: subprocess.Popen[bytes],
    ways: list[str],
    found: dict[str, dict[str, Any]],
    begin: float,
    limit: float,
) -> str:
    """Reads rows as they come, until all ways have one; else "crash" or "timeout"."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(found) < len(ways):
            share = limit * (len(found) + 1) / len(ways)
            if not selector.select(max(begin + share - time.monotonic(), 1.0)):
                return "timeout"
            line = process.stdout.readline()
            if not line:
                process.wait()
                return "crash"
            if line.startswith(b"ROW "):
                row = json.loads(line[4:])
                found[row["way"]] = row
    return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends it and what it started: Inductor keeps processes of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
