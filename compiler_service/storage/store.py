"""The one protocol of every store: a disk, a Redis, an S3 bucket, and each decorator over them.

Methods take batches, so that ten thousand keys are one call, and answer in the order they were
asked. None raises for an outage: that is an Unavailable. All are safe to repeat.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from compiler_service.storage.name import Name, Space
from compiler_service.storage.outcome import Outcome, Presence, PutOutcome, Unavailable


@dataclass(frozen=True, slots=True)
class Listed:
    """A name that a store holds, and when it came there, in Unix seconds."""

    name: Name
    modified: float


class Store(Protocol):
    """Abstract methods only: a decorator that forgets to forward one can't be instantiated."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The tier's name, for answers and metrics: "disk", "redis", "s3"."""

    @abstractmethod
    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        """Each object's bytes."""

    @abstractmethod
    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        """Whether each object is there; its bytes are neither read nor checked."""

    @abstractmethod
    async def put(self, name: Name, data: bytes) -> PutOutcome:
        """Keep it, whole or not at all, in place of what is there under that name."""

    @abstractmethod
    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        """Forget these; those that are not there count as forgotten."""

    @abstractmethod
    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        """All that the space holds, in no order."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections and threads; the store is not used afterwards."""
