"""A store that answers in bounded time whatever happens below it.

In: calls to one tier. Out: its answer, or Unavailable: when it takes too long, when it raises what
it should have answered, and, for a while after it kept a caller waiting in vain, at once. A refused
connection costs nothing, so a tier that fails fast is asked again every time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from compiler_service.storage.name import Name, Space
from compiler_service.storage.outcome import Outcome, Presence, PutOutcome, Unavailable, outage
from compiler_service.storage.store import Listed, Store

_log = logging.getLogger(__name__)

# Whose objects are a few kilobytes.
_SMALL = frozenset({"index", "pins"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """All in seconds."""

    # A call about small objects, plus so much for each of a batch.
    answer: float = 2.5
    each: float = 0.01
    # A whole artifact, or a whole listing, on a slow link. A tier that stalls midway is noticed
    # sooner, by its own socket's timeout.
    transfer: float = 30.0
    # A failure slower than this makes the tier rest.
    slow: float = 0.5
    rest: float = 5.0


class GuardedStore(Store):
    def __init__(self, inner: Store, limits: Limits | None = None) -> None:
        self._inner = inner
        self._limits = limits or Limits()
        self._rests_until = 0.0
        self._rest_reason = ""

    @property
    def name(self) -> str:
        return self._inner.name

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        small = all(name.space in _SMALL for name in names)
        seconds = self._batch(names) if small else self._limits.transfer
        answer = await self._guard(lambda: self._inner.get(names), seconds)
        return [answer] * len(names) if isinstance(answer, Unavailable) else answer

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        answer = await self._guard(lambda: self._inner.contains(names), self._batch(names))
        return [answer] * len(names) if isinstance(answer, Unavailable) else answer

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        seconds = self._limits.answer if name.space in _SMALL else self._limits.transfer
        return await self._guard(lambda: self._inner.put(name, data), seconds)

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        return await self._guard(lambda: self._inner.delete(names), self._batch(names))

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        return await self._guard(lambda: self._inner.scan(space), self._limits.transfer)

    async def close(self) -> None:
        await self._inner.close()

    def _batch(self, names: Sequence[Name]) -> float:
        return self._limits.answer + self._limits.each * len(names)

    async def _guard(self, call: Callable[[], Awaitable[T]], seconds: float) -> T | Unavailable:
        started = time.monotonic()
        if started < self._rests_until:
            return self._unavailable(f"not asked again yet, after: {self._rest_reason}")
        answer: T | Unavailable
        try:
            async with asyncio.timeout(seconds):
                answer = await call()
        except TimeoutError:
            answer = self._unavailable(f"{self.name} did not answer within {seconds:.3g} s")
        except Exception as error:
            # A fault of ours, or an error that a library does not document: it costs this tier's
            # answer and not the request.
            _log.exception("tier %s raised instead of answering", self.name)
            answer = self._unavailable(f"{type(error).__name__}: {error}")
        failed = outage(answer)
        now = time.monotonic()
        if failed is not None and now - started >= self._limits.slow:
            self._rests_until = now + self._limits.rest
            self._rest_reason = failed.reason
        return answer

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable((self.name,), reason)
