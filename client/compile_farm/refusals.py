"""Tells a farm what could not be captured, so that its status counts what never reached it.

In: the reasons of CaptureErrors. Out: counts, sent together by a thread of their own. Nothing waits
for that, and a farm that does not take them is no error: the model runs eager either way.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping

from compile_farm.errors import CaptureReason, CompileFarmError
from compile_farm.v1 import compiler_pb2

log = logging.getLogger(__name__)

# A model whose graphs break is captured in many parts, one after the other.
_GATHER_SECONDS = 1.0

_KINDS: dict[CaptureReason, compiler_pb2.Refusal] = {
    "gradients": compiler_pb2.REFUSAL_GRADIENTS,
    "operator": compiler_pb2.REFUSAL_OPERATOR,
    "tensor": compiler_pb2.REFUSAL_TENSOR,
    "memory": compiler_pb2.REFUSAL_MEMORY,
    "state": compiler_pb2.REFUSAL_STATE,
    "value": compiler_pb2.REFUSAL_VALUE,
    "size": compiler_pb2.REFUSAL_SIZE,
    "trace": compiler_pb2.REFUSAL_TRACE,
    "other": compiler_pb2.REFUSAL_UNSPECIFIED,
}

Send = Callable[[Mapping[compiler_pb2.Refusal, int]], None]


class RefusalReport:
    """The refusals of one process for one farm. Every method may be called from any thread."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._counts: Counter[compiler_pb2.Refusal] = Counter()
        self._timer: threading.Timer | None = None

    def add(self, reason: CaptureReason) -> None:
        """Counts one; it is sent soon."""
        with self._lock:
            self._counts[_KINDS[reason]] += 1
            if self._timer is None:
                self._timer = threading.Timer(_GATHER_SECONDS, self.flush)
                # A process that ends does not wait for it.
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Sends now what is counted; what the farm does not take is forgotten."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if not counts:
            return
        try:
            self._send(counts)
        except CompileFarmError as error:
            log.debug("refusals were not reported: %s", error)
