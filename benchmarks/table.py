"""Rows as a table for people, and the machine that they were measured on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

TITLES = {
    "eager": "eager",
    "compile cold": "torch.compile, cold",
    "compile warm": "torch.compile, warm local cache",
    "farm-submit": "farm miss, submit",
    "farm-miss": 'farm miss, torch.compile(backend="compile_farm")',
    "farm-compile": 'farm hit, torch.compile(backend="compile_farm")',
    "farm-bind": "farm hit, bind",
    "farm-load": "farm hit, load of a release",
    "farm-prefetch": "farm hit, load, fetched before the model was there",
}


def table(rows: dict[str, dict[str, Any]]) -> str:
    """One line a way: time to the first result, steady calls, difference from eager."""
    lines = [f"  {'':49}{'first result':>13}{'steady call':>14}{'difference':>12}"]
    for name, title in TITLES.items():
        row = rows.get(name)
        if row is None:
            continue
        lines.append(
            f"  {title:49}{seconds(row['first_result_s']):>13}{seconds(row['steady_s']):>14}"
            f"{row['difference']:>12.1e}"
        )
    return "\n".join(lines)


def seconds(value: float) -> str:
    """0.0123 is "12.3 ms"."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.1f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} us"


def busy() -> str:
    """A warning if other processes use the processors right now, else nothing; takes a second."""
    before = _processor_seconds()
    time.sleep(1)
    used = _processor_seconds() - before
    if used < 0.3:
        return ""
    return (
        f"note: other processes keep {used:.1f} processors busy. Whoever computes at the same time "
        "slows the rest down many times over: don't trust these figures"
    )


def _processor_seconds() -> float:
    """Seconds for which the processors have worked since the machine started."""
    line = Path("/proc/stat").read_text().splitlines()[0]
    user, nice, system = (int(ticks) for ticks in line.split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def results_path(folder: Path, what: str, found: dict[str, Any]) -> Path:
    """Where measurements of ``what`` on the machine ``found`` are kept."""
    hardware = "".join(c if c.isalnum() else "-" for c in found["hardware"].lower())
    named = [what, hardware, found["date"], found["revision"]]
    return folder / f"{'-'.join(word for word in named if word)}.json"


def write_results(path: Path, content: dict[str, Any]) -> None:
    """As a whole: a run that is cut short keeps what it wrote before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(content, indent=1) + "\n")
    temporary.replace(path)


def machine() -> dict[str, Any]:
    """Hardware, versions and the date, for the results' file."""
    import torch

    hardware = torch.cuda.get_device_name() if torch.cuda.is_available() else _cpu()
    found: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "revision": _revision(),
        "hardware": hardware,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }
    for name in ("triton", "transformers"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _revision() -> str | None:
    """The commit that was measured, "-dirty" if files differ from it; None outside a checkout."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
