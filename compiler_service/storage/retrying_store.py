"""A store that asks a second time when the first attempt failed at once.

A dropped connection or a moment's overload is over in milliseconds; a timeout is not retried, since
its caller has waited long enough. Every method of a Store is safe to repeat.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from compiler_service.storage.name import Name, Space
from compiler_service.storage.outcome import Outcome, Presence, PutOutcome, Unavailable, outage
from compiler_service.storage.store import Listed, Store

T = TypeVar("T")


class RetryingStore(Store):
    """Retries once, after ``pause_seconds``, what failed within ``quick_seconds``."""

    def __init__(
        self, inner: Store, *, quick_seconds: float = 0.5, pause_seconds: float = 0.05
    ) -> None:
        self._inner = inner
        self._quick_seconds = quick_seconds
        self._pause_seconds = pause_seconds

    @property
    def name(self) -> str:
        return self._inner.name

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        return await self._twice(lambda: self._inner.get(names))

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        return await self._twice(lambda: self._inner.contains(names))

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        return await self._twice(lambda: self._inner.put(name, data))

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        return await self._twice(lambda: self._inner.delete(names))

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        return await self._twice(lambda: self._inner.scan(space))

    async def close(self) -> None:
        await self._inner.close()

    async def _twice(self, call: Callable[[], Awaitable[T]]) -> T:
        started = time.monotonic()
        answer = await call()
        if outage(answer) is None or time.monotonic() - started > self._quick_seconds:
            return answer
        await asyncio.sleep(self._pause_seconds)
        return await call()
