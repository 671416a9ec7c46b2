"""A child with everything that it started: how much memory they hold, and their end.

In: the id of a child that leads a process group of its own. Compilers that it starts are in the
group; what leaves the group is remembered from the last look, and ended too.
"""

from __future__ import annotations

import os
import signal
import threading

import psutil


class Family:
    """The processes that descend from a child. Safe to call after any of them has ended."""

    def __init__(self, group: int) -> None:
        """``group``: the child's process id, which is its group's too."""
        self._group = group
        self._ended = False
        self._known: dict[int, psutil.Process] = {}
        self._lock = threading.Lock()  # it is slow enough to be called from other threads

    def resident_bytes(self) -> int:
        """Resident memory of all of them; pages that they share count for each."""
        total = 0
        for process in self._look():
            try:
                total += process.memory_info().rss
            except psutil.Error:  # it has just ended
                continue
        return total

    def end(self) -> None:
        """Kills all of them, once: later the group's number may be another's."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        known = self._look()
        try:
            os.killpg(self._group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        for process in known:
            try:
                process.kill()  # not if the number has passed to another process
            except psutil.Error:
                continue

    def _look(self) -> list[psutil.Process]:
        """The group's members and all descendants, also of those whose parent has died."""
        with self._lock:
            self._known = self._grown({pid: p for pid, p in self._known.items() if p.is_running()})
            return list(self._known.values())

    def _grown(self, known: dict[int, psutil.Process]) -> dict[int, psutil.Process]:
        children: dict[int, list[psutil.Process]] = {}
        for process in psutil.process_iter(["ppid"]):
            children.setdefault(process.info["ppid"], []).append(process)
            if process.pid == self._group or _group_of(process.pid) == self._group:
                known.setdefault(process.pid, process)
        unseen = list(known)
        while unseen:
            for process in children.get(unseen.pop(), ()):
                if process.pid not in known:
                    known[process.pid] = process
                    unseen.append(process.pid)
        return known


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1
