"""What every Store keeps, whichever it is: run on a disk, a real Redis, an S3 API over HTTP, each
bare and as a whole tier, and on all of them together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from compiler_service.storage import index_entry, name
from compiler_service.storage.disk_store import DiskStore
from compiler_service.storage.index_entry import IndexEntry
from compiler_service.storage.name import Name
from compiler_service.storage.open import tier
from compiler_service.storage.outcome import Found, Hit, Miss, Refused, Stored, Unavailable
from compiler_service.storage.read_through_store import ReadThroughStore
from compiler_service.storage.redis_store import RedisStore
from compiler_service.storage.s3_store import S3Store
from compiler_service.storage.store import Store
from tests.servers import RedisServer, S3Server

BARE = ["disk", "redis", "s3"]
WHOLE = [f"{kind} tier" for kind in BARE]


def a_blob(data: bytes) -> tuple[Name, bytes]:
    return name.blob(hashlib.sha256(data).hexdigest()), data


def an_entry(key: str, size: int) -> tuple[Name, bytes]:
    return name.index(key), index_entry.encode(IndexEntry(key, "cd" * 32, size, 1))


@pytest.fixture(params=[*BARE, *WHOLE, "all three"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    def bare(kind: str) -> Store:
        if kind == "disk":
            return DiskStore(tmp_path)
        if kind == "redis":
            server: RedisServer = request.getfixturevalue("redis_server")
            return RedisStore(server.url)
        s3: S3Server = request.getfixturevalue("shared_s3_server")
        return S3Store(request.getfixturevalue("s3_bucket"), "farm", endpoint=s3.endpoint)

    made: Store
    if request.param in BARE:
        made = bare(request.param)
    elif request.param in WHOLE:
        made = tier(bare(request.param.split()[0]))
    else:
        made = ReadThroughStore([tier(bare(kind)) for kind in BARE])
    yield made
    await made.close()


def answering(store: Store) -> str:
    """The tier that has to answer for what all have: the first."""
    return store.name.split("+")[0]


@pytest.mark.parametrize("size", [0, 1, 70_000, 5 << 20])
async def test_what_is_put_is_got_and_says_from_where(store: Store, size: int) -> None:
    blob, data = a_blob(os.urandom(size))
    assert await store.put(blob, data) == Stored(tuple(store.name.split("+")))
    assert await store.get([blob]) == [Hit(data, answering(store))]
    assert await store.contains([blob]) == [Found(answering(store))]


async def test_what_was_never_put_is_a_miss(store: Store) -> None:
    absent = [name.blob("ab" * 32), name.index("ab" * 32)]
    assert await store.get(absent) == [Miss(), Miss()]
    assert await store.contains(absent) == [Miss(), Miss()]
    assert await store.scan("blobs") == []
    assert await store.scan("index") == []


async def test_no_names_are_no_answers(store: Store) -> None:
    assert await store.get([]) == []
    assert await store.contains([]) == []
    assert await store.delete([]) is None


async def test_putting_again_replaces(store: Store) -> None:
    entry, old = an_entry("ab" * 32, 1)
    _, new = an_entry("ab" * 32, 2)
    await store.put(entry, old)
    await store.put(entry, new)
    assert await store.get([entry]) == [Hit(new, answering(store))]


async def test_a_batch_is_answered_in_its_order(store: Store) -> None:
    there = [an_entry(f"{number:064x}", number) for number in range(0, 600, 2)]
    for entry, data in there[::60]:
        await store.put(entry, data)
    kept = dict(there[::60])
    asked = [name.index(f"{number:064x}") for number in reversed(range(600))]
    tier_name = answering(store)
    assert await store.get(asked) == [
        Hit(kept[one], tier_name) if one in kept else Miss() for one in asked
    ]
    assert await store.contains(asked) == [
        Found(tier_name) if one in kept else Miss() for one in asked
    ]


async def test_deleting_forgets_and_may_be_repeated(store: Store) -> None:
    one, two = a_blob(b"one"), a_blob(b"two")
    await store.put(*one)
    await store.put(*two)
    assert await store.delete([one[0], name.blob("ab" * 32)]) is None
    assert await store.delete([one[0]]) is None
    assert await store.get([one[0], two[0]]) == [Miss(), Hit(b"two", answering(store))]


async def test_the_spaces_are_apart(store: Store) -> None:
    blob, data = a_blob(b"data")
    await store.put(blob, data)
    assert await store.contains([name.index(blob.digits)]) == [Miss()]
    assert await store.scan("index") == []


async def test_scanning_names_all_of_the_space_with_their_times(store: Store) -> None:
    entries = [an_entry(f"{number:064x}", number) for number in range(10)]
    for entry, data in entries:
        await store.put(entry, data)
    await store.delete([entries[0][0]])
    scanned = await store.scan("index")
    assert not isinstance(scanned, Unavailable)
    assert sorted(one.name for one in scanned) == [entry for entry, _ in entries[1:]]
    # Unix seconds of this century, whatever the tier's own clock counts in.
    assert all(1_700_000_000 < one.modified < 10_000_000_000 for one in scanned)


async def test_redis_refuses_what_is_too_large_and_keeps_the_rest(
    redis_server: RedisServer,
) -> None:
    store = RedisStore(redis_server.url, largest_value=100)
    blob, data = a_blob(bytes(101))
    refused = await store.put(blob, data)
    assert isinstance(refused, Refused)
    assert refused.reason == "101 bytes are over its limit of 100"
    assert await store.get([blob]) == [Miss()]
    small, data = a_blob(bytes(100))
    assert await store.put(small, data) == Stored(("redis",))
    await store.close()


async def test_redis_forgets_the_names_of_what_was_evicted(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url)
    kept, evicted = an_entry("ab" * 32, 1), an_entry("cd" * 32, 1)
    await store.put(*kept)
    await store.put(*evicted)
    with redis_server.client() as client:
        client.delete(f"compile-farm/v1/{evicted[0]}")
        scanned = await store.scan("index")
        assert not isinstance(scanned, Unavailable)
        assert [one.name for one in scanned] == [kept[0]]
        assert client.zcard("compile-farm/v1/names/index") == 1
    await store.close()


async def test_s3_without_a_prefix_keeps_to_its_version(
    shared_s3_server: S3Server, s3_bucket: str
) -> None:
    store = S3Store(s3_bucket, "", endpoint=shared_s3_server.endpoint)
    blob, data = a_blob(b"data")
    await store.put(blob, data)
    client = shared_s3_server.client()
    keys = [item["Key"] for item in client.list_objects_v2(Bucket=s3_bucket)["Contents"]]
    client.close()
    assert keys == [f"v1/blobs/{blob.digits}"]
    await store.close()


async def test_a_foreign_file_in_the_folder_is_not_listed(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    entry, data = an_entry("ab" * 32, 1)
    await store.put(entry, data)
    for foreign in ("v1/index/README", "v1/index/ab/notes.txt"):
        (tmp_path / foreign).write_text("not ours")
    scanned = await store.scan("index")
    assert not isinstance(scanned, Unavailable)
    assert [one.name for one in scanned] == [entry]
    await store.close()


async def test_files_are_closed_to_others(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "farm")
    blob, data = a_blob(b"data")
    await store.put(blob, data)
    made = [tmp_path / "farm" / "v1", *(tmp_path / "farm" / "v1").rglob("*")]
    assert any(path.is_file() for path in made)
    assert all(path.stat().st_mode & 0o007 == 0 for path in made)
    await store.close()
