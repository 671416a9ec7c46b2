"""Releases and pins over every composition of tiers: kept whole, or not there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from compiler_service.storage.errors import NoTierError, PublishError
from compiler_service.storage.name import Name
from compiler_service.storage.open import open_store
from tests.compositions import Composition, everywhere, layered

RELEASE = b"\x0a\x00 a signed release"
NAME = Name("releases", hashlib.sha256(b"net@1").hexdigest())
PINS = Name("pins", hashlib.sha256(b"net").hexdigest())


@everywhere
async def test_what_is_kept_is_found_in_every_tier(composition: Composition) -> None:
    releases = composition.store.releases
    assert await releases.get("net", "1") is None
    assert await releases.all() == []
    await releases.put("net", "1", RELEASE)
    await releases.put("net", "2", RELEASE + b"2")
    assert await releases.get("net", "1") == RELEASE
    assert sorted(await releases.all()) == [RELEASE, RELEASE + b"2"]
    for tier in composition.tiers:
        assert tier.peek(NAME) is not None


@everywhere
async def test_pins_are_kept_in_their_order(composition: Composition) -> None:
    releases = composition.store.releases
    assert await releases.history("net") == []
    await releases.keep_history("net", ["1", "2", "1"])
    assert await releases.history("net") == ["1", "2", "1"]
    assert await releases.history("other") == []
    await releases.keep_history("net", [str(number) for number in range(1000)])
    assert (await releases.history("net"))[-1] == "999"
    assert len(await releases.history("net")) == 100


@everywhere
async def test_an_altered_or_swapped_release_is_not_there(composition: Composition) -> None:
    releases = composition.store.releases
    await releases.put("net", "1", RELEASE)
    await releases.put("net", "2", RELEASE)
    other = Name("releases", hashlib.sha256(b"net@2").hexdigest())
    for tier in composition.tiers:
        kept = tier.peek(NAME)
        assert kept is not None
        tier.plant(NAME, kept[:-1] + b"X")
        tier.plant(other, kept)
    assert await releases.get("net", "1") is None
    assert await releases.get("net", "2") is None
    for tier in composition.tiers:
        assert tier.peek(NAME) is None


@layered
async def test_the_next_tier_has_it_and_fills_the_first(composition: Composition) -> None:
    await composition.store.releases.put("net", "1", RELEASE)
    composition.tiers[0].remove(NAME)
    assert await composition.store.releases.get("net", "1") == RELEASE
    await composition.store.settle()
    assert composition.tiers[0].peek(NAME) is not None


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
