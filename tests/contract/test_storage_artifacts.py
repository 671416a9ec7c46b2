"""The facade over every composition of tiers: what it finds, and which tier answered."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from compiler_service.storage import name
from compiler_service.storage.artifact_store import LookupResult
from compiler_service.storage.errors import InvalidNameError
from compiler_service.storage.open import open_store
from compiler_service.storage.outcome import Hit, Miss
from tests.compositions import Composition, everywhere, layered
from tests.tiers import TierMaker

KEY, OTHER_KEY = "ab" * 32, "cd" * 32
DATA = os.urandom(200_000)
DIGEST = hashlib.sha256(DATA).hexdigest()


@everywhere
async def test_published_is_found_and_read_from_the_first_tier(composition: Composition) -> None:
    entry = await composition.store.publish(KEY, DATA)
    assert (entry.key, entry.digest, entry.size) == (KEY, DIGEST, len(DATA))
    assert (entry.tier, entry.missed) == (composition.kinds[0], ())
    found = await composition.store.lookup([OTHER_KEY, KEY])
    assert found == LookupResult({KEY: entry}, ())
    assert await composition.store.read(DIGEST) == Hit(DATA, composition.kinds[0])


@everywhere
async def test_publishing_writes_to_every_tier(composition: Composition) -> None:
    await composition.store.publish(KEY, DATA)
    for tier in composition.tiers:
        assert tier.peek(name.blob(DIGEST)) == DATA
        assert tier.peek(name.index(KEY)) is not None


@everywhere
async def test_nothing_is_found_in_an_empty_store(composition: Composition) -> None:
    assert await composition.store.lookup([KEY, KEY]) == LookupResult({}, ())
    assert await composition.store.lookup([]) == LookupResult({}, ())
    assert await composition.store.read(DIGEST) == Miss()
    assert await composition.store.list(0, "") == ([], "")


@everywhere
async def test_names_are_checked(composition: Composition) -> None:
    for call in (
        composition.store.lookup([KEY, "../../etc/passwd"]),
        composition.store.read("x"),
        composition.store.publish(KEY.upper(), DATA),
        composition.store.list(1, "1796000000000-../x"),
    ):
        with pytest.raises(InvalidNameError):
            await call


@layered
async def test_the_lowest_tier_answers_when_the_upper_lost_it_and_fills_them(
    composition: Composition,
) -> None:
    await composition.store.publish(KEY, DATA)
    for tier in composition.tiers[:-1]:
        tier.remove(name.blob(DIGEST))
        tier.remove(name.index(KEY))

    found = await composition.store.lookup([KEY])
    assert found.hits[KEY].tier == composition.kinds[-1]
    assert await composition.store.read(DIGEST) == Hit(DATA, composition.kinds[-1])

    await composition.store.settle()
    for tier in composition.tiers[:-1]:
        assert tier.peek(name.blob(DIGEST)) == DATA
    assert (await composition.store.lookup([KEY])).hits[KEY].tier == composition.kinds[0]
    assert await composition.store.read(DIGEST) == Hit(DATA, composition.kinds[0])


@everywhere
async def test_an_entry_whose_artifact_is_gone_is_a_miss_and_removed(
    composition: Composition,
) -> None:
    await composition.store.publish(KEY, DATA)
    for tier in composition.tiers:
        tier.remove(name.blob(DIGEST))
    assert await composition.store.lookup([KEY]) == LookupResult({}, ())
    assert all(tier.peek(name.index(KEY)) is None for tier in composition.tiers)
    entry = await composition.store.publish(KEY, DATA)
    assert (await composition.store.lookup([KEY])).hits == {KEY: entry}


@everywhere
async def test_publishing_again_replaces_and_keeps_the_old_artifact(
    composition: Composition,
) -> None:
    await composition.store.publish(KEY, DATA)
    newer = await composition.store.publish(KEY, b"newer")
    assert (await composition.store.lookup([KEY])).hits == {KEY: newer}
    # A release may have pinned it.
    assert isinstance(await composition.store.read(DIGEST), Hit)


@everywhere
async def test_the_list_goes_page_by_page_and_names_each_once(composition: Composition) -> None:
    keys = [f"{number:064x}" for number in range(7)]
    for key in keys:
        await composition.store.publish(key, key.encode())
    pages, token = [], ""
    while True:
        page, token = await composition.store.list(3, token)
        pages.append([entry.key for entry in page])
        if not token:
            break
    assert [len(page) for page in pages] == [3, 3, 1]
    assert sorted(key for page in pages for key in page) == keys
    entries, token = await composition.store.list(0, "")
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
async def test_each_tier_counts_what_it_answered(composition: Composition) -> None:
    await composition.store.publish(KEY, DATA)
    composition.tiers[0].remove(name.blob(DIGEST))
    await composition.store.read(DIGEST)
    await composition.store.settle()
    await composition.store.read(DIGEST)
    counts = [(t.name, t.hits, t.misses, t.corrupt) for t in composition.store.tiers()]
    assert counts[0] == (composition.kinds[0], 1, 1, 0)
    assert counts[1] == (composition.kinds[1], 1, 0, 0)
    assert all(tier.available for tier in composition.store.tiers())


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
async def test_a_quarantined_artifact_is_no_hit_in_any_tier(composition: Composition) -> None:
    await composition.store.publish(KEY, DATA)
    await composition.store.publish(OTHER_KEY, DATA)
    assert await composition.store.quarantine(KEY, DIGEST, "wrong by a lot")
    found = await composition.store.lookup([KEY, OTHER_KEY])
    assert list(found.hits) == [OTHER_KEY]
    assert found.quarantined[KEY].quarantined == "wrong by a lot"
    for tier in composition.tiers:
        kept = tier.peek(name.index(KEY))
        assert kept is not None
        assert b"wrong by a lot" in kept
    listed, _ = await composition.store.list(0, "")
    assert {entry.key: entry.quarantined for entry in listed} == {
        KEY: "wrong by a lot",
        OTHER_KEY: "",
    }


@everywhere
async def test_the_first_reason_stays(composition: Composition) -> None:
    await composition.store.publish(KEY, DATA)
    await composition.store.quarantine(KEY, DIGEST, "wrong")
    assert await composition.store.quarantine(KEY, DIGEST, "a later reason")
    found = await composition.store.lookup([KEY])
    assert found.quarantined[KEY].quarantined == "wrong"


@everywhere
async def test_only_the_keys_own_artifact_can_be_quarantined(composition: Composition) -> None:
    assert not await composition.store.quarantine(KEY, DIGEST, "there is none")
    await composition.store.publish(KEY, DATA)
    assert not await composition.store.quarantine(KEY, "ef" * 32, "another one")
    assert KEY in (await composition.store.lookup([KEY])).hits


@everywhere
async def test_a_lifted_key_has_no_artifact(composition: Composition) -> None:
    await composition.store.publish(KEY, DATA)
    assert not await composition.store.lift_quarantine(KEY)
    await composition.store.quarantine(KEY, DIGEST, "wrong")
    assert await composition.store.lift_quarantine(KEY)
    assert await composition.store.lookup([KEY]) == LookupResult({}, ())
    for tier in composition.tiers:
        assert tier.peek(name.index(KEY)) is None
