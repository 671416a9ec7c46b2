"""How a stage says that it can't go on, and how any other exception is put in words."""

from __future__ import annotations

import traceback
from pathlib import Path

from compile_farm.v1 import compiler_pb2

# Of an exception's own text, in a message.
_TEXT = 4000
# torch has an OutOfMemoryError of its own, and RuntimeErrors that only say it.
_ALLOCATION = "can't allocate memory"


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


def in_words(error: BaseException) -> str:
    """What an exception is, where it came from and what it says, also if that is nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    place = "an unknown place"
    if frames:
        path = "/".join(Path(frames[-1].filename).parts[-2:])
        place = f"{frames[-1].name} ({path}:{frames[-1].lineno})"
    text = (_complaints(error) or str(error).strip())[:_TEXT]
    return f"{type(error).__name__} in {place}: {text or 'it gave no message'}"


def _complaints(error: BaseException) -> str:
    """Of a C++ compiler, whose pages of command line in the exception's text help nobody."""
    output = getattr(error, "output", None)
    lines = output.splitlines() if isinstance(output, str) else []
    return "; ".join(line.strip() for line in lines if "error:" in line)


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether the exception is the host's or the GPU's memory running out."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or _ALLOCATION in str(error)
    )
