"""Objects truncated, altered or exchanged in each tier: never handed out, removed, and rebuilt."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from compiler_service.storage import index_entry, name
from compiler_service.storage.artifact_store import ArtifactStore, LookupResult
from compiler_service.storage.index_entry import IndexEntry
from compiler_service.storage.open import open_store
from compiler_service.storage.outcome import Hit, Miss
from tests.tiers import TierMaker, TierUnderTest

KEY = "ab" * 32
DATA = os.urandom(200_000)
DIGEST = hashlib.sha256(DATA).hexdigest()
BLOB, INDEX = name.blob(DIGEST), name.index(KEY)

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "emptied": lambda data: b"",
    "bit flipped": lambda data: data[:50] + bytes([data[50] ^ 1]) + data[51:],
    "grown": lambda data: data + b"\0",
}


@dataclass
class Damaged:
    """A store of two tiers; ``upper`` is of the kind under test, ``lower`` is a folder."""

    kind: str
    upper: TierUnderTest
    store: ArtifactStore


@pytest.fixture(params=["disk", "redis", "s3"])
async def alone(
    request: pytest.FixtureRequest, make_tier: TierMaker, tmp_path: Path
) -> AsyncIterator[Damaged]:
    upper = make_tier(request.param)
    store = open_store([upper.url], tmp_path)
    await store.publish(KEY, DATA)
    yield Damaged(request.param, upper, store)
    await store.close()


@pytest.fixture(params=["disk", "redis", "s3"])
async def layered(
    request: pytest.FixtureRequest, make_tier: TierMaker, tmp_path: Path
) -> AsyncIterator[Damaged]:
    upper = make_tier(request.param)
    store = open_store([upper.url, f"disk:{tmp_path}/lower"], tmp_path)
    await store.publish(KEY, DATA)
    yield Damaged(request.param, upper, store)
    await store.close()


def damage(tier: TierUnderTest, one: name.Name, how: str) -> None:
    data = tier.peek(one)
    assert data is not None
    tier.plant(one, DAMAGES[how](data))


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_damaged_artifact_is_a_miss_removed_counted_and_rebuilt(
    alone: Damaged, how: str
) -> None:
    damage(alone.upper, BLOB, how)
    assert await alone.store.read(DIGEST) == Miss(corrupt=(alone.kind,))
    assert alone.upper.peek(BLOB) is None
    assert alone.store.tiers()[0].corrupt == 1
    assert await alone.store.lookup([KEY]) == LookupResult({}, ())
    assert alone.upper.peek(INDEX) is None

    entry = await alone.store.publish(KEY, DATA)
    assert (await alone.store.lookup([KEY])).hits == {KEY: entry}
    assert await alone.store.read(DIGEST) == Hit(DATA, alone.kind)


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_damaged_index_entry_is_a_miss_removed_counted_and_rebuilt(
    alone: Damaged, how: str
) -> None:
    damage(alone.upper, INDEX, how)
    assert await alone.store.lookup([KEY]) == LookupResult({}, ())
    assert alone.upper.peek(INDEX) is None
    assert alone.store.tiers()[0].corrupt == 1

    entry = await alone.store.publish(KEY, DATA)
    assert (await alone.store.lookup([KEY])).hits == {KEY: entry}


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_damaged_copy_is_repaired_from_the_tier_below(layered: Damaged, how: str) -> None:
    lower = "disk-2" if layered.kind == "disk" else "disk"
    damage(layered.upper, BLOB, how)
    damage(layered.upper, INDEX, how)

    assert KEY in (await layered.store.lookup([KEY])).hits
    assert await layered.store.read(DIGEST) == Hit(DATA, lower)
    await layered.store.settle()
    assert layered.upper.peek(BLOB) == DATA
    assert await layered.store.read(DIGEST) == Hit(DATA, layered.kind)
    upper, below = layered.store.tiers()
    assert (upper.corrupt, below.corrupt) == (2, 0)


async def test_an_artifact_in_another_ones_place_is_noticed(alone: Damaged) -> None:
    other = name.blob(hashlib.sha256(b"other").hexdigest())
    alone.upper.plant(other, DATA)
    assert await alone.store.read(other.digits) == Miss(corrupt=(alone.kind,))
    assert await alone.store.read(DIGEST) == Hit(DATA, alone.kind)


async def test_an_index_entry_in_another_ones_place_is_noticed(alone: Damaged) -> None:
    good = alone.upper.peek(INDEX)
    assert good is not None
    alone.upper.plant(name.index("cd" * 32), good)
    found = await alone.store.lookup([KEY, "cd" * 32])
    assert set(found.hits) == {KEY}


async def test_a_valid_entry_that_points_at_nothing_is_removed(alone: Damaged) -> None:
    entry = IndexEntry("cd" * 32, "ef" * 32, 10, 1)
    alone.upper.plant(name.index(entry.key), index_entry.encode(entry))
    assert await alone.store.lookup([entry.key]) == LookupResult({}, ())
    assert alone.upper.peek(name.index(entry.key)) is None


async def test_a_monstrous_index_entry_is_not_read_whole(alone: Damaged) -> None:
    alone.upper.plant(INDEX, bytes(1 << 20))
    assert await alone.store.lookup([KEY]) == LookupResult({}, ())
    assert alone.upper.peek(INDEX) is None
    assert alone.store.tiers()[0].corrupt == 1


async def test_damage_in_one_of_a_batch_costs_only_that_one(alone: Damaged) -> None:
    keys = [f"{number:064x}" for number in range(5)]
    for key in keys:
        await alone.store.publish(key, key.encode())
    damage(alone.upper, name.index(keys[2]), "truncated")
    found = await alone.store.lookup(keys)
    assert list(found.hits) == [key for key in keys if key != keys[2]]
    listed, _ = await alone.store.list(10, "")
    assert {entry.key for entry in listed} == {*found.hits, KEY}
