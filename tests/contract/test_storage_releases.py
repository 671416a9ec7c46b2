"""Releases and pins over every composition of tiers: kept whole, or not there."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from compiler_service.storage.errors import NoTierError, PublishError
from compiler_service.storage.name import Name
from compiler_service.storage.open import open_store
from tests.contract.test_storage_artifacts import COMPOSITIONS, SEVERAL, Composition
from tests.tiers import TierMaker

RELEASE = b"\x0a\x00 a signed release"
NAME = Name("releases", hashlib.sha256(b"net@1").hexdigest())
PINS = Name("pins", hashlib.sha256(b"net").hexdigest())


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
async def test_what_is_kept_is_found_in_every_tier(farm: Composition) -> None:
    releases = farm.store.releases
    assert await releases.get("net", "1") is None
    assert await releases.all() == []
    await releases.put("net", "1", RELEASE)
    await releases.put("net", "2", RELEASE + b"2")
    assert await releases.get("net", "1") == RELEASE
    assert sorted(await releases.all()) == [RELEASE, RELEASE + b"2"]
    for tier in farm.tiers:
        assert tier.peek(NAME) is not None


@everywhere
async def test_pins_are_kept_in_their_order(farm: Composition) -> None:
    releases = farm.store.releases
    assert await releases.history("net") == []
    await releases.keep_history("net", ["1", "2", "1"])
    assert await releases.history("net") == ["1", "2", "1"]
    assert await releases.history("other") == []
    await releases.keep_history("net", [str(number) for number in range(1000)])
    assert (await releases.history("net"))[-1] == "999"
    assert len(await releases.history("net")) == 100


@everywhere
async def test_an_altered_or_swapped_release_is_not_there(farm: Composition) -> None:
    releases = farm.store.releases
    await releases.put("net", "1", RELEASE)
    await releases.put("net", "2", RELEASE)
    other = Name("releases", hashlib.sha256(b"net@2").hexdigest())
    for tier in farm.tiers:
        kept = tier.peek(NAME)
        assert kept is not None
        tier.plant(NAME, kept[:-1] + b"X")
        tier.plant(other, kept)
    assert await releases.get("net", "1") is None
    assert await releases.get("net", "2") is None
    for tier in farm.tiers:
        assert tier.peek(NAME) is None


@layered
async def test_the_next_tier_has_it_and_fills_the_first(farm: Composition) -> None:
    await farm.store.releases.put("net", "1", RELEASE)
    farm.tiers[0].remove(NAME)
    assert await farm.store.releases.get("net", "1") == RELEASE
    await farm.store.settle()
    assert farm.tiers[0].peek(NAME) is not None


async def test_an_outage_is_no_miss(tmp_path: Path) -> None:
    store = open_store(["redis://127.0.0.1:1/0"], tmp_path)
    with pytest.raises(NoTierError):
        await store.releases.get("net", "1")
    with pytest.raises(NoTierError):
        await store.releases.history("net")
    with pytest.raises(NoTierError):
        await store.releases.all()
    with pytest.raises(PublishError):
        await store.releases.put("net", "1", RELEASE)
    await store.close()
