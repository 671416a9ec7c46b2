"""Every error that the client raises, as a tree.

CompileFarmError
├── CaptureError            the model holds something that can't be captured
├── InvalidGraphError       bytes that are no valid Capture: unknown op, kind or version
├── FarmUnavailableError    the server does not answer
├── JobTimeoutError         waited as long as was asked; the job goes on (also a TimeoutError)
├── CompileFailedError      the farm answered with a Failure; carries its reason
├── ArtifactNotFoundError   no artifact under that key
├── ArtifactError           an artifact that must not be loaded
│   ├── CorruptArtifactError    truncated or altered
│   ├── UntrustedArtifactError  not signed by a trusted key
│   └── TargetMismatchError     built for other hardware or another torch
├── ReleaseNotFoundError    no release of that name, or of that revision
├── InvalidReleaseError     a name, revision or release that can't be published
├── BindError               the model's weights don't fit the artifact
└── InputMismatchError      the arguments of a call don't fit the artifact

Each says what failed, where, and in ``remedy`` what to do about it.
"""

from __future__ import annotations

from typing import Literal

from compile_farm.v1 import compiler_pb2


class CompileFarmError(Exception):
    """Base of all; ``remedy`` is one sentence, ``retryable`` whether the same call may succeed."""

    def __init__(self, message: str, *, remedy: str = "", retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


# Why a model can't be captured; compiler.proto (Refusal) says what each means.
CaptureReason = Literal[
    "gradients", "operator", "tensor", "memory", "state", "value", "size", "trace", "other"
]


class CaptureError(CompileFarmError):
    """The model holds what can't be captured, of the kind ``reason``; nothing was sent."""

    def __init__(self, message: str, *, remedy: str = "", reason: CaptureReason = "other") -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason


class InvalidGraphError(CompileFarmError):
    """Bytes that are no valid Capture: an unknown op, kind or version, or a broken reference."""


class FarmUnavailableError(CompileFarmError):
    """The server can't be reached or does not answer in time."""


class JobTimeoutError(CompileFarmError, TimeoutError):
    """Not done within the time that the caller gave; the job goes on in the farm."""


class CompileFailedError(CompileFarmError):
    """The farm tried and could not; ``failure`` is its typed answer."""

    def __init__(self, failure: compiler_pb2.Failure) -> None:
        super().__init__(failure.message, remedy=failure.remedy, retryable=failure.retryable)
        self.failure = failure

    @property
    def reason(self) -> str:
        """The reason's name in lower case: "unsupported", "timeout", "crashed"."""
        return compiler_pb2.Reason.Name(self.failure.reason).removeprefix("REASON_").lower()


class ArtifactNotFoundError(CompileFarmError):
    """No artifact under that key in any tier that answered."""


class ArtifactError(CompileFarmError):
    """An artifact that must not be loaded."""


class CorruptArtifactError(ArtifactError):
    """Truncated or altered: a digest, a size or the zip itself is wrong."""


class UntrustedArtifactError(ArtifactError):
    """Not signed, or signed by a key that this process does not trust."""


class TargetMismatchError(ArtifactError):
    """Built for other hardware or another toolchain than this process has."""


class QuarantinedError(ArtifactError):
    """A host ran it beside eager, and it differed: no host gets it any more."""


class ReleaseNotFoundError(CompileFarmError):
    """No release of that name, or none of that revision."""


class InvalidReleaseError(CompileFarmError):
    """A name, revision or release that can't be published."""


class BindError(CompileFarmError):
    """A weight is missing or differs in shape, dtype, stride or device."""


class InputMismatchError(CompileFarmError):
    """An argument differs from the signature; the message names it."""
