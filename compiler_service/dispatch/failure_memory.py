"""Remembers failures for a while, so that a fleet does not retry one in a storm.

A graph that the compiler refuses will be refused again; a crash may have been chance. So the first
is remembered for minutes, the second for a minute, and a cancelled job not at all.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from compile_farm.v1 import compiler_pb2

_SECONDS = {
    compiler_pb2.REASON_UNSUPPORTED: 600.0,
    compiler_pb2.REASON_COMPILER_ERROR: 600.0,
    compiler_pb2.REASON_VERIFICATION_FAILED: 600.0,
    compiler_pb2.REASON_TIMEOUT: 60.0,
    compiler_pb2.REASON_OUT_OF_MEMORY: 60.0,
    compiler_pb2.REASON_CRASHED: 60.0,
}


class FailureMemory:
    """The latest failure of each key, up to ``capacity`` keys; the oldest are forgotten first."""

    def __init__(self, capacity: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._clock = clock
        self._failures: OrderedDict[str, tuple[float, compiler_pb2.Failure]] = OrderedDict()

    def remember(self, key: str, failure: compiler_pb2.Failure) -> None:
        """Keeps it for as long as its reason deserves."""
        seconds = _SECONDS.get(failure.reason)
        if seconds is None:
            return
        self._failures.pop(key, None)
        self._failures[key] = (self._clock() + seconds, failure)
        while len(self._failures) > self._capacity:
            self._failures.popitem(last=False)

    def recall(self, key: str) -> compiler_pb2.Failure | None:
        """The failure with the seconds for which it is still believed; None if there is none."""
        found = self._failures.get(key)
        if found is None:
            return None
        remaining = found[0] - self._clock()
        if remaining <= 0:
            del self._failures[key]
            return None
        failure = compiler_pb2.Failure()
        failure.CopyFrom(found[1])
        failure.remembered_for_seconds = remaining
        return failure

    def forget(self, key: str) -> None:
        """For when the key has an artifact after all."""
        self._failures.pop(key, None)
