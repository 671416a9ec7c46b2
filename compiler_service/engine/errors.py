"""How a stage says that it can't go on: an exception that carries the typed Failure."""

from __future__ import annotations

from compile_farm.v1 import compiler_pb2


class EngineError(Exception):
    """``failure`` is the answer to the client; ``str()`` its message."""

    def __init__(
        self,
        reason: compiler_pb2.Reason,
        message: str,
        *,
        remedy: str = "",
        stage: str = "",
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.failure = compiler_pb2.Failure(
            reason=reason, message=message, remedy=remedy, stage=stage, retryable=retryable
        )


def unsupported(message: str, *, remedy: str = "", stage: str = "") -> EngineError:
    """A graph that holds something which the farm does not take."""
    return EngineError(compiler_pb2.REASON_UNSUPPORTED, message, remedy=remedy, stage=stage)
