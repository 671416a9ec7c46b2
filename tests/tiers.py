"""A tier with a back door: its URL, and ways to look and to tamper behind the store's back.

In: a folder, a Redis or a bucket. Out: the fixture ``make_tier``, which makes a ``TierUnderTest``
of a kind: "disk", "redis", "s3".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
import redis

from compiler_service.storage.name import Name
from tests.servers import RedisServer, S3Server


class TierUnderTest(Protocol):
    @property
    def url(self) -> str: ...

    def peek(self, name: Name) -> bytes | None: ...

    def plant(self, name: Name, data: bytes) -> None: ...

    def remove(self, name: Name) -> None: ...


class DiskTier:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"disk:{folder}"

    def path(self, name: Name) -> Path:
        return self.folder / "v1" / name.space / name.digits[:2] / name.digits

    def peek(self, name: Name) -> bytes | None:
        return self.path(name).read_bytes() if self.path(name).exists() else None

    def plant(self, name: Name, data: bytes) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_bytes(data)

    def remove(self, name: Name) -> None:
        self.path(name).unlink()


class RedisTier:
    def __init__(self, server: RedisServer) -> None:
        self.url = server.url
        self._client: redis.Redis = server.client()

    def peek(self, name: Name) -> bytes | None:
        value = self._client.get(f"compile-farm/v1/{name}")
        assert value is None or isinstance(value, bytes)
        return value

    def plant(self, name: Name, data: bytes) -> None:
        self._client.set(f"compile-farm/v1/{name}", data)

    def remove(self, name: Name) -> None:
        self._client.delete(f"compile-farm/v1/{name}")

    def close(self) -> None:
        self._client.close()


class S3Tier:
    def __init__(self, server: S3Server, bucket: str) -> None:
        self.url = server.url(bucket)
        self._bucket = bucket
        self._client: Any = server.client()

    def peek(self, name: Name) -> bytes | None:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=f"farm/v1/{name}")
        except self._client.exceptions.NoSuchKey:
            return None
        with answer["Body"] as body:
            data: bytes = body.read()
        return data

    def plant(self, name: Name, data: bytes) -> None:
        self._client.put_object(Bucket=self._bucket, Key=f"farm/v1/{name}", Body=data)

    def remove(self, name: Name) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=f"farm/v1/{name}")

    def close(self) -> None:
        self._client.close()


TierMaker = Callable[[str], TierUnderTest]


@pytest.fixture
def make_tier(request: pytest.FixtureRequest, tmp_path: Path) -> TierMaker:
    """Makes a tier of a kind; starts only the servers that a test needs."""

    def make(kind: str) -> TierUnderTest:
        if kind == "disk":
            return DiskTier(tmp_path / "disk")
        tier: RedisTier | S3Tier
        if kind == "redis":
            tier = RedisTier(request.getfixturevalue("redis_server"))
        else:
            bucket = request.getfixturevalue("s3_bucket")
            tier = S3Tier(request.getfixturevalue("shared_s3_server"), bucket)
        request.addfinalizer(tier.close)
        return tier

    return make
