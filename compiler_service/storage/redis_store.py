"""A Redis: small, hot, and allowed to forget.

In: names and bytes. Out: string values ``compile-farm/v1/blobs/<digest>`` and
``compile-farm/v1/index/<key>``, and for each space a sorted set of what it holds,
``compile-farm/v1/names/<space>``, by the time it came: a scan would walk through everything else
that lives in that Redis.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from compiler_service.storage.errors import InvalidNameError
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

T = TypeVar("T")

PREFIX = "compile-farm/v1/"
LARGEST_VALUE = 16 << 20

_CONNECT_SECONDS = 1.0
_ANSWER_SECONDS = 2.0
_CONNECTIONS = 16
_BATCH = 256


class RedisStore(Store):
    """``url``: ``redis://`` or ``rediss://``, as redis-py reads it. Connects when first asked."""

    def __init__(
        self, url: str, *, name: str = "redis", largest_value: int = LARGEST_VALUE
    ) -> None:
        self._name = name
        self._largest_value = largest_value
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=_CONNECT_SECONDS,
            socket_connect_timeout=_CONNECT_SECONDS,
            socket_timeout=_ANSWER_SECONDS,
            socket_keepalive=True,
            # Its own retries back off for seconds; RetryingStore decides instead, within a limit.
            retry=Retry(NoBackoff(), 0),
        )
        self._redis: Any = Redis.from_pool(pool)

    @property
    def name(self) -> str:
        return self._name

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        try:
            for batch in _batches(names):
                values = await self._redis.mget([_key(name) for name in batch])
                outcomes += (
                    Miss() if value is None else Hit(value, self._name) for value in values
                )
        except (RedisError, OSError) as error:
            return [self._unavailable(error)] * len(names)
        return outcomes

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        presences: list[Presence] = []
        try:
            for batch in _batches(names):
                presences += (
                    Found(self._name) if there else Miss() for there in await self._exist(batch)
                )
        except (RedisError, OSError) as error:
            return [self._unavailable(error)] * len(names)
        return presences

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        if len(data) > self._largest_value:
            return Refused(
                (self._name,), f"{len(data)} bytes are over its limit of {self._largest_value}"
            )
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.set(_key(name), data)
                pipe.zadd(_names(name.space), {name.digits: time.time()})
                await pipe.execute()
        except (RedisError, OSError) as error:
            return self._unavailable(error)
        return Stored((self._name,))

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        try:
            for batch in _batches(names):
                async with self._redis.pipeline(transaction=True) as pipe:
                    for name in batch:
                        pipe.delete(_key(name))
                        pipe.zrem(_names(name.space), name.digits)
                    await pipe.execute()
        except (RedisError, OSError) as error:
            return self._unavailable(error)
        return None

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        try:
            members = await self._redis.zrange(_names(space), 0, -1, withscores=True)
            listed = [one for member, score in members if (one := _listed(space, member, score))]
            kept: list[Listed] = []
            for batch in _batches(listed):
                there = await self._exist([one.name for one in batch])
                kept += (one for one, exists in zip(batch, there, strict=True) if exists)
                # Redis evicts values without telling; their names go when somebody looks.
                evicted = [
                    one.name.digits for one, exists in zip(batch, there, strict=True) if not exists
                ]
                if evicted:
                    await self._redis.zrem(_names(space), *evicted)
        except (RedisError, OSError) as error:
            return self._unavailable(error)
        return kept

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _exist(self, names: Sequence[Name]) -> Sequence[int]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.exists(_key(name))
            answers: Sequence[int] = await pipe.execute()
        return answers

    def _unavailable(self, error: Exception) -> Unavailable:
        return Unavailable((self._name,), f"Redis: {error or type(error).__name__}")


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]


def _key(name: Name) -> str:
    return PREFIX + str(name)


def _names(space: Space) -> str:
    return f"{PREFIX}names/{space}"


def _listed(space: Space, member: bytes, score: float) -> Listed | None:
    try:
        return Listed(Name(space, member.decode(errors="replace")), score)
    except InvalidNameError:
        return None
