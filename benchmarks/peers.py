"""Runs rows in fresh processes, each with caches of its own, against a farm that it starts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Say = Callable[[str], None]


class RowFailed(Exception):
    """A row's process failed; the message has the end of its output."""


@dataclass(frozen=True)
class Caches:
    """Where one process keeps what it compiled and fetched."""

    folder: Path

    def environment(self) -> dict[str, str]:
        """Variables that keep every cache inside the folder, and the network out.

        Python may keep its bytecode: an installed client has it, and a checkout whose modules are
        compiled anew in each process would measure Python's compiler.
        """
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT / "client"), str(ROOT), os.environ.get("PYTHONPATH", "")]
            ),
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"),
            "TRITON_CACHE_DIR": str(self.folder / "triton"),
            "COMPILE_FARM_CACHE": str(self.folder / "farm"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONWARNINGS": "ignore",
        }


class Lab:
    """A temporary folder for everything that a run leaves behind."""

    def __init__(self, say: Say) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="compile-farm-bench-")
        self.folder = Path(self._temporary.name)
        self.say = say
        self._count = 0

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()

    def fresh_caches(self) -> Caches:
        """Empty ones."""
        self._count += 1
        folder = self.folder / f"caches-{self._count}"
        folder.mkdir()
        return Caches(folder)

    def row(self, model: str, way: str, caches: Caches, *extra: str) -> dict[str, Any]:
        """One row in a fresh process; its stages are told while it runs. Raises RowFailed."""
        return self.rows([model], way, caches, *extra)[model]

    def rows(
        self, models: Sequence[str], way: str, caches: Caches, *extra: str
    ) -> dict[str, dict[str, Any]]:
        """A row for each model, all from one process, which is fresh for the first."""
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.row", ",".join(models), way, *extra],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=caches.environment(),
        )
        errors: list[str] = []
        follower = threading.Thread(target=self._follow, args=(process, errors), daemon=True)
        follower.start()
        ended = threading.Event()
        threading.Thread(target=self._beat, args=(ended,), daemon=True).start()
        assert process.stdout is not None
        try:
            found = [json.loads(line[4:]) for line in process.stdout if line.startswith("ROW ")]
            process.wait()
        finally:
            # Whoever interrupts the run wants its rows gone as well.
            process.kill()
            ended.set()
        follower.join(5)
        if process.returncode or len(found) != len(models):
            tail = "\n".join(errors[-15:])
            raise RowFailed(f"{','.join(models)} {way} ended with {process.returncode}:\n{tail}")
        return {row["model"]: row for row in found}

    def _follow(self, process: subprocess.Popen[str], errors: list[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            errors.append(line.rstrip())
            if re.match(r"\s*\d+% \w+", line):
                self.say(f"    {line.strip()}")

    def _beat(self, ended: threading.Event) -> None:
        """Shows that a long row is alive."""
        begin = time.perf_counter()
        while not ended.wait(10):
            self.say(f"    {time.perf_counter() - begin:3.0f} s in this process")

    @contextlib.contextmanager
    def farm(self, *options: str) -> Iterator[str]:
        """A farm on a free port with an empty store; its address, once its worker is warm.

        ``options`` are more of its command line ("--library", "MODULE").
        """
        data = self.folder / "farm"
        data.mkdir(exist_ok=True)
        log = data / "log"
        with log.open("w") as stream:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "compiler_service",
                    "--listen", "127.0.0.1:0", "--data", str(data), *options,
                ],
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                cwd=ROOT,
                env=self.fresh_caches().environment(),
            )  # fmt: skip
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.match(r"listening on (\S+)", line)
            if found is None:
                raise RowFailed(f"the farm did not start:\n{log.read_text()[-3000:]}")
            self._wait_for_worker(found[1])
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    def _wait_for_worker(self, address: str) -> None:
        """The worker's first compile pays for headers once; that is no request's cost."""
        from compile_farm import Farm

        begin = time.perf_counter()
        with Farm(address, cache_dir=self.folder / "client") as farm:
            while True:
                (worker,) = farm.status().workers
                if worker.state == "unhealthy":
                    raise RowFailed(f"the worker takes no work: {worker.problem}")
                if worker.state != "starting":
                    return
                self.say(f"    {time.perf_counter() - begin:3.0f} s: the worker warms up")
                time.sleep(5)
