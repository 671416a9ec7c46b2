"""Stores for tests to compose: one in memory, and faults as ordinary objects around any store.

Out: ``MemoryStore`` (a bare tier, whose ``objects`` a test may read and alter), ``FailingStore``
(down for so many calls), ``SilentStore`` (never answers), ``RaisingStore`` (raises instead).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NoReturn

from compiler_service.storage.name import Name, Space
from compiler_service.storage.outcome import (
    Found,
    Hit,
    Miss,
    Outcome,
    Presence,
    PutOutcome,
    Refused,
    Stored,
    Unavailable,
)
from compiler_service.storage.store import Listed, Store


class MemoryStore(Store):
    def __init__(self, name: str = "memory", *, largest: int = 1 << 30) -> None:
        self._name = name
        self._largest = largest
        self._times: dict[Name, float] = {}
        self.objects: dict[Name, bytes] = {}
        self.closed = False

    @property
    def name(self) -> str:
        return self._name

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        return [
            Hit(self.objects[name], self._name) if name in self.objects else Miss()
            for name in names
        ]

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        return [Found(self._name) if name in self.objects else Miss() for name in names]

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        if len(data) > self._largest:
            return Refused((self._name,), "too large")
        self.objects[name] = data
        self._times[name] = time.time()
        return Stored((self._name,))

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        for name in names:
            self.objects.pop(name, None)
        return None

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        return [Listed(name, self._times[name]) for name in self.objects if name.space == space]

    async def close(self) -> None:
        self.closed = True


class FailingStore(Store):
    """Unavailable for the next ``times`` calls of ``methods`` (None: of all), then as ``inner``."""

    def __init__(self, inner: Store, times: int, *, methods: set[str] | None = None) -> None:
        self.inner = inner
        self.times = times
        self.calls = 0
        self._methods = methods

    @property
    def name(self) -> str:
        return self.inner.name

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        failed = self._fails("get")
        return [failed] * len(names) if failed else await self.inner.get(names)

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        failed = self._fails("contains")
        return [failed] * len(names) if failed else await self.inner.contains(names)

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        return self._fails("put") or await self.inner.put(name, data)

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        return self._fails("delete") or await self.inner.delete(names)

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        return self._fails("scan") or await self.inner.scan(space)

    async def close(self) -> None:
        await self.inner.close()

    def _fails(self, method: str) -> Unavailable | None:
        self.calls += 1
        if self.times <= 0 or (self._methods is not None and method not in self._methods):
            return None
        self.times -= 1
        return Unavailable((self.name,), "injected")


class SilentStore(Store):
    """Accepts every call and never answers; counts them."""

    def __init__(self, name: str = "silent") -> None:
        self._name = name
        self.calls = 0

    @property
    def name(self) -> str:
        return self._name

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        await self._wait()

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        await self._wait()

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        await self._wait()

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        await self._wait()

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        await self._wait()

    async def close(self) -> None:
        pass

    async def _wait(self) -> NoReturn:
        self.calls += 1
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")


class RaisingStore(SilentStore):
    async def _wait(self) -> NoReturn:
        raise RuntimeError("a fault of the program")
