"""What a child says, cut to what a message for people may hold.

In: stages and failures as the child sent them. Out: the same within bounds, without the host's
paths, and with a reason that exists. A graph may have taken the child over and make it say
anything.
"""

from __future__ import annotations

import math

from compile_farm.v1 import compiler_pb2
from compiler_service.worker.last_words import without_paths

# A tuned compile tells a few dozen.
MAX_STAGES = 10_000

_NAME, _DETAIL, _REMEDY, _MESSAGE = 40, 200, 1000, 8000

# What a child can know of itself. That nobody serves a target, for instance, is not for it to say.
_REASONS = frozenset(
    {
        compiler_pb2.REASON_UNSUPPORTED,
        compiler_pb2.REASON_COMPILER_ERROR,
        compiler_pb2.REASON_VERIFICATION_FAILED,
        compiler_pb2.REASON_OUT_OF_MEMORY,
        compiler_pb2.REASON_INVALID,
        compiler_pb2.REASON_INTERNAL,
    }
)


def tidy_stage(stage: compiler_pb2.Stage) -> compiler_pb2.Stage:
    """A stage whose fraction lies between 0 and 1."""
    fraction = min(max(stage.fraction, 0.0), 1.0) if math.isfinite(stage.fraction) else 0.0
    return compiler_pb2.Stage(
        name=stage.name[:_NAME], fraction=fraction, detail=stage.detail[:_DETAIL]
    )


def tidy_failure(failure: compiler_pb2.Failure, stage: str) -> compiler_pb2.Failure:
    """A failure in ``stage`` with a message, and with a reason that a compile can have."""
    known = failure.reason in _REASONS
    return compiler_pb2.Failure(
        reason=failure.reason if known else compiler_pb2.REASON_COMPILER_ERROR,
        message=without_paths(failure.message[:_MESSAGE]) or "the compiler failed without a word",
        remedy=failure.remedy[:_REMEDY],
        stage=stage[:_NAME],
        retryable=failure.retryable,
    )
