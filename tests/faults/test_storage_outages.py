"""Tiers that die, freeze, forget and come back, as real processes; requests are still answered."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from compile_farm.v1 import compiler_pb2
from compiler_service.storage import name
from compiler_service.storage.artifact_store import ArtifactStore, LookupResult
from compiler_service.storage.errors import NoTierError, PublishError
from compiler_service.storage.name import Name
from compiler_service.storage.open import open_store, tier
from compiler_service.storage.outcome import Hit, Miss, PutOutcome, Unavailable
from tests.servers import RedisServer, S3Server
from tests.stores import FailingStore, MemoryStore

KEY, OTHER_KEY = "ab" * 32, "cd" * 32
DATA = os.urandom(200_000)
DIGEST = hashlib.sha256(DATA).hexdigest()


@asynccontextmanager
async def opened(*urls: str) -> AsyncIterator[ArtifactStore]:
    store = open_store(urls, Path("unused"))
    try:
        yield store
    finally:
        await store.close()


def status(store: ArtifactStore, tier_name: str) -> compiler_pb2.TierStatus:
    return next(status for status in store.tiers() if status.name == tier_name)


async def test_redis_killed_s3_answers_and_redis_is_filled_when_it_returns(
    redis_server: RedisServer, s3_server: S3Server
) -> None:
    async with opened(redis_server.url, s3_server.url(s3_server.new_bucket())) as store:
        entry = await store.publish(KEY, DATA)
        assert await store.read(DIGEST) == Hit(DATA, "redis")

        redis_server.kill()
        assert await store.read(DIGEST) == Hit(DATA, "s3")
        found = await store.lookup([KEY, OTHER_KEY])
        assert found.hits[KEY].tier == "s3"
        assert found.unavailable == ("redis",)
        assert not status(store, "redis").available
        assert status(store, "redis").unavailable > 0
        assert status(store, "s3").available

        redis_server.start()
        assert await store.read(DIGEST) == Hit(DATA, "s3")
        await store.settle()
        assert await store.read(DIGEST) == Hit(DATA, "redis")
        assert status(store, "redis").available
        assert (await store.lookup([KEY, OTHER_KEY])) == LookupResult({KEY: entry}, ())


async def test_redis_frozen_does_not_hang_anybody(
    redis_server: RedisServer, s3_server: S3Server
) -> None:
    async with opened(redis_server.url, s3_server.url(s3_server.new_bucket())) as store:
        await store.publish(KEY, DATA)
        redis_server.freeze()
        assert await store.read(DIGEST) == Hit(DATA, "s3")
        entry = await store.publish(OTHER_KEY, b"other")
        assert (entry.tier, entry.missed) == ("s3", ("redis",))
        redis_server.thaw()


async def test_s3_killed_what_redis_has_is_answered_and_the_rest_is_unavailable(
    redis_server: RedisServer, s3_server: S3Server
) -> None:
    async with opened(redis_server.url, s3_server.url(s3_server.new_bucket())) as store:
        entry = await store.publish(KEY, DATA)
        s3_server.kill()
        assert await store.lookup([KEY]) == LookupResult({KEY: entry}, ())
        assert await store.read(DIGEST) == Hit(DATA, "redis")
        assert await store.lookup([OTHER_KEY]) == LookupResult({}, ("s3",))
        unread = await store.read("00" * 32)
        assert isinstance(unread, Unavailable)
        assert unread.tiers == ("s3",)

        published = await store.publish(OTHER_KEY, b"other")
        assert (published.tier, published.missed) == ("redis", ("s3",))
        assert (await store.lookup([OTHER_KEY])).hits[OTHER_KEY].tier == "redis"
        entries, _ = await store.list(10, "")
        assert {entry.key for entry in entries} == {KEY, OTHER_KEY}


async def test_s3_frozen_a_large_batch_waits_once_and_not_for_each_key(
    s3_server: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(f"disk:{tmp_path}", s3_server.url(s3_server.new_bucket())) as store:
        entry = await store.publish(KEY, DATA)
        s3_server.freeze()
        absent = [f"{number:064x}" for number in range(5000)]
        assert await store.lookup([*absent, KEY]) == LookupResult({KEY: entry}, ("s3",))
        # The first key's timeout ended it, and not the far later limit of the whole batch.
        assert "Read timeout" in caplog.text
        # It rests now: the next caller is not kept waiting at all, and reads the reason.
        unread = await store.read("00" * 32)
        assert isinstance(unread, Unavailable)
        assert "not asked again yet" in unread.reason
        s3_server.thaw()


async def test_an_outage_never_removes_an_index_entry(
    redis_server: RedisServer, s3_server: S3Server
) -> None:
    async with opened(redis_server.url, s3_server.url(s3_server.new_bucket())) as store:
        entry = await store.publish(KEY, DATA)
        with redis_server.client() as client:
            client.delete(f"compile-farm/v1/{name.blob(DIGEST)}")
        s3_server.kill()
        # Redis says whose artifact it is, and only S3 could say whether that is still there.
        assert await store.lookup([KEY]) == LookupResult({}, ("s3",))
        with redis_server.client() as client:
            assert client.exists(f"compile-farm/v1/{name.index(KEY)}")
            client.set(f"compile-farm/v1/{name.blob(DIGEST)}", DATA)
        assert await store.lookup([KEY]) == LookupResult({KEY: entry}, ())


async def test_all_tiers_down_every_call_says_so(
    redis_server: RedisServer, s3_server: S3Server
) -> None:
    async with opened(redis_server.url, s3_server.url(s3_server.new_bucket())) as store:
        redis_server.kill()
        s3_server.kill()
        assert await store.lookup([KEY]) == LookupResult({}, ("redis", "s3"))
        unread = await store.read(DIGEST)
        assert isinstance(unread, Unavailable)
        assert unread.tiers == ("redis", "s3")
        with pytest.raises(PublishError, match=r"no tier took the artifact.*redis.*s3"):
            await store.publish(KEY, DATA)
        with pytest.raises(NoTierError, match="no tier of the store answers"):
            await store.list(10, "")


async def test_a_server_that_starts_before_its_tiers_finds_them_later(
    redis_server: RedisServer,
) -> None:
    redis_server.kill()
    async with opened(redis_server.url) as store:
        assert (await store.lookup([KEY])).unavailable == ("redis",)
        redis_server.start()
        entry = await store.publish(KEY, DATA)
        assert (await store.lookup([KEY])).hits == {KEY: entry}


async def test_a_redis_that_is_full_costs_only_its_own_copy(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    with redis_server.client() as client:
        client.config_set("maxmemory", "1mb")
        client.config_set("maxmemory-policy", "noeviction")
    async with opened(redis_server.url, f"disk:{tmp_path}") as store:
        entry = await store.publish(KEY, DATA)
        assert (entry.tier, entry.missed) == ("disk", ("redis",))
        assert await store.read(DIGEST) == Hit(DATA, "disk")


async def test_a_missing_bucket_is_an_outage_that_names_it(s3_server: S3Server) -> None:
    async with opened(s3_server.url("no-such-bucket")) as store:
        unread = await store.read(DIGEST)
        assert isinstance(unread, Unavailable)
        assert "no-such-bucket" in unread.reason
        assert "NoSuchBucket" in unread.reason


async def test_missing_credentials_are_an_outage_that_says_so(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = s3_server.url(s3_server.new_bucket())
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    async with opened(url) as store:
        unread = await store.read(DIGEST)
        assert isinstance(unread, Unavailable)
        assert "credentials" in unread.reason


async def test_an_s3_endpoint_from_the_environment(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3_server.new_bucket()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server.endpoint)
    async with opened(f"s3://{bucket}/farm") as store:
        await store.publish(KEY, DATA)
    async with opened(s3_server.url(bucket)) as store:
        assert await store.read(DIGEST) == Hit(DATA, "s3")


async def test_a_folder_that_vanished_is_empty_and_made_again(tmp_path: Path) -> None:
    async with opened(f"disk:{tmp_path}/farm") as store:
        await store.publish(KEY, DATA)
        shutil.rmtree(tmp_path / "farm")
        assert await store.lookup([KEY]) == LookupResult({}, ())
        assert await store.read(DIGEST) == Miss()
        assert await store.list(10, "") == ([], "")
        entry = await store.publish(KEY, DATA)
        assert (await store.lookup([KEY])).hits == {KEY: entry}


async def test_a_disk_that_can_not_be_written_is_passed_over(tmp_path: Path) -> None:
    async with opened(f"disk:{tmp_path}/bad", f"disk:{tmp_path}/good") as store:
        # A file where the folder was: also root can't write there.
        shutil.rmtree(tmp_path / "bad" / "v1")
        (tmp_path / "bad" / "v1").write_text("in the way")
        entry = await store.publish(KEY, DATA)
        assert (entry.tier, entry.missed) == ("disk-2", ("disk",))
        assert await store.read(DIGEST) == Hit(DATA, "disk-2")


async def test_a_tier_that_missed_the_artifact_gets_no_index_entry() -> None:
    down, good = MemoryStore("down"), MemoryStore("good")
    failing = FailingStore(down, 2)  # the attempt and its retry; the entry's write would succeed
    store = ArtifactStore([tier(failing), tier(good)])
    entry = await store.publish(KEY, DATA)
    assert entry.missed == ("down",)
    assert down.objects == {}
    assert set(good.objects) == {name.blob(DIGEST), name.index(KEY)}


async def test_a_failed_index_write_leaves_no_entry_and_is_an_error() -> None:
    class Unindexed(MemoryStore):
        async def put(self, name: Name, data: bytes) -> PutOutcome:
            if name.space == "index":
                return Unavailable((self.name,), "injected")
            return await super().put(name, data)

    store = ArtifactStore([tier(Unindexed())])
    with pytest.raises(PublishError, match="no tier took the index entry"):
        await store.publish(KEY, DATA)
    assert await store.lookup([KEY]) == LookupResult({}, ())
