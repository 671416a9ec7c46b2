"""The facade over every composition of tiers: what it finds, and which tier answered."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compiler_service.storage import name
from compiler_service.storage.artifact_store import ArtifactStore, LookupResult
from compiler_service.storage.errors import InvalidNameError
from compiler_service.storage.open import open_store
from compiler_service.storage.outcome import Hit, Miss
from tests.tiers import TierMaker, TierUnderTest

KEY, OTHER_KEY = "ab" * 32, "cd" * 32
DATA = os.urandom(200_000)
DIGEST = hashlib.sha256(DATA).hexdigest()

COMPOSITIONS = ["disk", "redis", "s3", "disk+s3", "redis+s3", "s3+redis", "disk+redis+s3"]
SEVERAL = [kinds for kinds in COMPOSITIONS if "+" in kinds]


@dataclass
class Composition:
    kinds: list[str]
    tiers: list[TierUnderTest]
    store: ArtifactStore


@pytest.fixture
async def farm(
    request: pytest.FixtureRequest, make_tier: TierMaker, tmp_path: Path
) -> AsyncIterator[Composition]:
    kinds = request.param.split("+")
    tiers = [make_tier(kind) for kind in kinds]
    store = open_store([tier.url for tier in tiers], tmp_path / "data")
    yield Composition(kinds, tiers, store)
    await store.close()


everywhere = pytest.mark.parametrize("farm", COMPOSITIONS, indirect=True)
layered = pytest.mark.parametrize("farm", SEVERAL, indirect=True)


@everywhere
async def test_published_is_found_and_read_from_the_first_tier(farm: Composition) -> None:
    entry = await farm.store.publish(KEY, DATA)
    assert (entry.key, entry.digest, entry.size) == (KEY, DIGEST, len(DATA))
    assert (entry.tier, entry.missed) == (farm.kinds[0], ())
    found = await farm.store.lookup([OTHER_KEY, KEY])
    assert found == LookupResult({KEY: entry}, ())
    assert await farm.store.read(DIGEST) == Hit(DATA, farm.kinds[0])


@everywhere
async def test_publishing_writes_to_every_tier(farm: Composition) -> None:
    await farm.store.publish(KEY, DATA)
    for tier in farm.tiers:
        assert tier.peek(name.blob(DIGEST)) == DATA
        assert tier.peek(name.index(KEY)) is not None


@everywhere
async def test_nothing_is_found_in_an_empty_store(farm: Composition) -> None:
    assert await farm.store.lookup([KEY, KEY]) == LookupResult({}, ())
    assert await farm.store.lookup([]) == LookupResult({}, ())
    assert await farm.store.read(DIGEST) == Miss()
    assert await farm.store.list(0, "") == ([], "")


@everywhere
async def test_names_are_checked(farm: Composition) -> None:
    for call in (
        farm.store.lookup([KEY, "../../etc/passwd"]),
        farm.store.read("x"),
        farm.store.publish(KEY.upper(), DATA),
        farm.store.list(1, "1796000000000-../x"),
    ):
        with pytest.raises(InvalidNameError):
            await call


@layered
async def test_the_lowest_tier_answers_when_the_upper_lost_it_and_fills_them(
    farm: Composition,
) -> None:
    await farm.store.publish(KEY, DATA)
    for tier in farm.tiers[:-1]:
        tier.remove(name.blob(DIGEST))
        tier.remove(name.index(KEY))

    found = await farm.store.lookup([KEY])
    assert found.hits[KEY].tier == farm.kinds[-1]
    assert await farm.store.read(DIGEST) == Hit(DATA, farm.kinds[-1])

    await farm.store.settle()
    for tier in farm.tiers[:-1]:
        assert tier.peek(name.blob(DIGEST)) == DATA
    assert (await farm.store.lookup([KEY])).hits[KEY].tier == farm.kinds[0]
    assert await farm.store.read(DIGEST) == Hit(DATA, farm.kinds[0])


@everywhere
async def test_an_entry_whose_artifact_is_gone_is_a_miss_and_removed(farm: Composition) -> None:
    await farm.store.publish(KEY, DATA)
    for tier in farm.tiers:
        tier.remove(name.blob(DIGEST))
    assert await farm.store.lookup([KEY]) == LookupResult({}, ())
    assert all(tier.peek(name.index(KEY)) is None for tier in farm.tiers)
    entry = await farm.store.publish(KEY, DATA)
    assert (await farm.store.lookup([KEY])).hits == {KEY: entry}


@everywhere
async def test_publishing_again_replaces_and_keeps_the_old_artifact(farm: Composition) -> None:
    await farm.store.publish(KEY, DATA)
    newer = await farm.store.publish(KEY, b"newer")
    assert (await farm.store.lookup([KEY])).hits == {KEY: newer}
    # A release may have pinned it.
    assert isinstance(await farm.store.read(DIGEST), Hit)


@everywhere
async def test_the_list_goes_page_by_page_and_names_each_once(farm: Composition) -> None:
    keys = [f"{number:064x}" for number in range(7)]
    for key in keys:
        await farm.store.publish(key, key.encode())
    pages, token = [], ""
    while True:
        page, token = await farm.store.list(3, token)
        pages.append([entry.key for entry in page])
        if not token:
            break
    assert [len(page) for page in pages] == [3, 3, 1]
    assert sorted(key for page in pages for key in page) == keys
    entries, token = await farm.store.list(0, "")
    assert [entry.key for entry in entries] == [key for page in pages for key in page]
    assert token == ""


async def test_the_list_is_newest_first(make_tier: TierMaker, tmp_path: Path) -> None:
    store = open_store([make_tier("disk").url], tmp_path)
    keys = [f"{number:064x}" for number in (5, 1, 9)]
    for age, key in enumerate(reversed(keys)):
        await store.publish(key, b"artifact")
        path = tmp_path / "disk" / "v1" / "index" / key[:2] / key
        os.utime(path, (2_000_000_000 + age, 2_000_000_000 + age))
    assert [entry.key for entry in (await store.list(10, ""))[0]] == keys
    await store.close()


@layered
async def test_each_tier_counts_what_it_answered(farm: Composition) -> None:
    await farm.store.publish(KEY, DATA)
    farm.tiers[0].remove(name.blob(DIGEST))
    await farm.store.read(DIGEST)
    await farm.store.settle()
    await farm.store.read(DIGEST)
    counts = [(t.name, t.hits, t.misses, t.corrupt) for t in farm.store.tiers()]
    assert counts[0] == (farm.kinds[0], 1, 1, 0)
    assert counts[1] == (farm.kinds[1], 1, 0, 0)
    assert all(tier.available for tier in farm.store.tiers())


async def test_an_artifact_too_large_for_redis_is_indexed_there_and_read_from_s3(
    make_tier: TierMaker, tmp_path: Path
) -> None:
    redis, s3 = make_tier("redis"), make_tier("s3")
    store = open_store([redis.url, s3.url], tmp_path)
    data = bytes((16 << 20) + 1)
    entry = await store.publish(KEY, data)
    assert (entry.tier, entry.missed) == ("s3", ())
    assert redis.peek(name.index(KEY)) is not None
    assert redis.peek(name.blob(entry.digest)) is None
    assert (await store.lookup([KEY])).hits == {KEY: entry}
    assert await store.read(entry.digest) == Hit(data, "s3")
    await store.close()


@everywhere
async def test_a_quarantined_artifact_is_no_hit_in_any_tier(farm: Composition) -> None:
    await farm.store.publish(KEY, DATA)
    await farm.store.publish(OTHER_KEY, DATA)
    assert await farm.store.quarantine(KEY, DIGEST, "wrong by a lot")
    found = await farm.store.lookup([KEY, OTHER_KEY])
    assert list(found.hits) == [OTHER_KEY]
    assert found.quarantined[KEY].quarantined == "wrong by a lot"
    for tier in farm.tiers:
        kept = tier.peek(name.index(KEY))
        assert kept is not None
        assert b"wrong by a lot" in kept
    listed, _ = await farm.store.list(0, "")
    assert {entry.key: entry.quarantined for entry in listed} == {
        KEY: "wrong by a lot",
        OTHER_KEY: "",
    }


@everywhere
async def test_the_first_reason_stays(farm: Composition) -> None:
    await farm.store.publish(KEY, DATA)
    await farm.store.quarantine(KEY, DIGEST, "wrong")
    assert await farm.store.quarantine(KEY, DIGEST, "a later reason")
    found = await farm.store.lookup([KEY])
    assert found.quarantined[KEY].quarantined == "wrong"


@everywhere
async def test_only_the_keys_own_artifact_can_be_quarantined(farm: Composition) -> None:
    assert not await farm.store.quarantine(KEY, DIGEST, "there is none")
    await farm.store.publish(KEY, DATA)
    assert not await farm.store.quarantine(KEY, "ef" * 32, "another one")
    assert KEY in (await farm.store.lookup([KEY])).hits


@everywhere
async def test_a_lifted_key_has_no_artifact(farm: Composition) -> None:
    await farm.store.publish(KEY, DATA)
    assert not await farm.store.lift_quarantine(KEY)
    await farm.store.quarantine(KEY, DIGEST, "wrong")
    assert await farm.store.lift_quarantine(KEY)
    assert await farm.store.lookup([KEY]) == LookupResult({}, ())
    for tier in farm.tiers:
        assert tier.peek(name.index(KEY)) is None
