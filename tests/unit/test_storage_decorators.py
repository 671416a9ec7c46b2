"""Each decorator alone, over a store in memory and stores with a fault."""

from __future__ import annotations

import hashlib
import logging

import pytest

from compiler_service.storage import index_entry, name
from compiler_service.storage.guarded_store import GuardedStore, Limits
from compiler_service.storage.index_entry import IndexEntry
from compiler_service.storage.metered_store import MeteredStore
from compiler_service.storage.name import Name
from compiler_service.storage.outcome import Found, Hit, Miss, Refused, Stored, Unavailable
from compiler_service.storage.read_through_store import ReadThroughStore
from compiler_service.storage.retrying_store import RetryingStore
from compiler_service.storage.store import Store
from compiler_service.storage.verified_store import VerifiedStore
from tests.stores import FailingStore, MemoryStore, RaisingStore, SilentStore

DATA = b"artifact"
NAME = name.blob(hashlib.sha256(DATA).hexdigest())
OTHER = name.blob("00" * 32)
QUICK = Limits(answer=0.05, each=0.0, transfer=0.05, slow=0.01, rest=60.0)


async def first(store: Store, asked: Name = NAME) -> object:
    return (await store.get([asked]))[0]


async def test_verified_hands_out_what_is_intact() -> None:
    inner = MemoryStore()
    inner.objects[NAME] = DATA
    assert await first(VerifiedStore(inner)) == Hit(DATA, "memory")


@pytest.mark.parametrize("altered", [b"", DATA[:-1], DATA + b"!", b"Artifact"])
async def test_verified_removes_what_is_altered(altered: bytes) -> None:
    inner = MemoryStore()
    inner.objects[NAME] = altered
    assert await first(VerifiedStore(inner)) == Miss(corrupt=("memory",))
    assert NAME not in inner.objects


async def test_verified_checks_large_objects_too() -> None:
    data = bytes(3 << 20)
    large = name.blob(hashlib.sha256(data).hexdigest())
    inner = MemoryStore()
    inner.objects[large] = data
    assert await first(VerifiedStore(inner), large) == Hit(data, "memory")
    inner.objects[large] = data[:-1] + b"\1"
    assert await first(VerifiedStore(inner), large) == Miss(corrupt=("memory",))


async def test_verified_refuses_an_index_entry_of_another_key() -> None:
    inner = MemoryStore()
    entry = IndexEntry("ab" * 32, NAME.digits, 8, 0)
    inner.objects[name.index("ab" * 32)] = index_entry.encode(entry)
    inner.objects[name.index("cd" * 32)] = index_entry.encode(entry)
    verified = VerifiedStore(inner)
    assert isinstance(await first(verified, name.index("ab" * 32)), Hit)
    assert await first(verified, name.index("cd" * 32)) == Miss(corrupt=("memory",))


async def test_verified_still_misses_when_the_removal_fails() -> None:
    inner = MemoryStore()
    inner.objects[NAME] = b"altered"
    verified = VerifiedStore(FailingStore(inner, 1, methods={"delete"}))
    assert await first(verified) == Miss(corrupt=("memory",))
    assert NAME in inner.objects
    assert await first(verified) == Miss(corrupt=("memory",))
    assert NAME not in inner.objects


async def test_metered_counts_each_kind_of_answer(caplog: pytest.LogCaptureFixture) -> None:
    inner = MemoryStore()
    failing = FailingStore(inner, 0)
    metered = MeteredStore(VerifiedStore(failing))
    inner.objects[NAME] = DATA
    inner.objects[OTHER] = b"altered"
    await metered.get([NAME, OTHER, NAME, name.blob("11" * 32)])
    status = metered.status()
    assert (status.hits, status.misses, status.corrupt, status.unavailable) == (2, 2, 1, 0)
    assert status.available

    caplog.clear()
    failing.times = 2
    assert isinstance(await first(metered), Unavailable)
    assert isinstance(await metered.put(NAME, DATA), Unavailable)
    assert metered.status().unavailable == 2
    assert not metered.status().available
    # An operator reads one line for each outage, and not one for each request.
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warnings] == ["tier memory is unavailable: injected"]

    await metered.contains([NAME])
    assert metered.status().available
    assert metered.status().hits == 2


async def test_retrying_hides_one_quick_failure_and_not_two() -> None:
    inner = MemoryStore()
    failing = FailingStore(inner, 1)
    retrying = RetryingStore(failing, pause_seconds=0)
    assert await retrying.put(NAME, DATA) == Stored(("memory",))
    assert inner.objects == {NAME: DATA}
    failing.times = 2
    assert isinstance(await first(retrying), Unavailable)


async def test_retrying_does_not_repeat_what_failed_slowly() -> None:
    failing = FailingStore(MemoryStore(), 1)
    retrying = RetryingStore(failing, quick_seconds=-1)
    assert isinstance(await first(retrying), Unavailable)
    assert failing.calls == 1


async def test_guarded_gives_up_on_silence_and_then_leaves_the_tier_alone() -> None:
    silent = SilentStore()
    guarded = GuardedStore(silent, QUICK)
    answer = await first(guarded)
    assert isinstance(answer, Unavailable)
    assert answer.tiers == ("silent",)
    assert answer.reason == "silent did not answer within 0.05 s"
    assert isinstance(await guarded.put(NAME, DATA), Unavailable)
    assert isinstance((await guarded.contains([NAME, OTHER]))[1], Unavailable)
    assert isinstance(await guarded.delete([NAME]), Unavailable)
    assert isinstance(await guarded.scan("index"), Unavailable)
    assert silent.calls == 1


async def test_guarded_asks_again_after_the_rest() -> None:
    silent = SilentStore()
    guarded = GuardedStore(silent, Limits(answer=0.05, transfer=0.05, slow=0.01, rest=0.0))
    await first(guarded)
    await first(guarded)
    assert silent.calls == 2


async def test_guarded_asks_a_tier_that_fails_fast_every_time() -> None:
    inner = MemoryStore()
    inner.objects[NAME] = DATA
    guarded = GuardedStore(FailingStore(inner, 1))
    assert isinstance(await first(guarded), Unavailable)
    assert await first(guarded) == Hit(DATA, "memory")


async def test_guarded_turns_an_exception_into_an_outage() -> None:
    guarded = GuardedStore(RaisingStore("odd"))
    assert await first(guarded) == Unavailable(("odd",), "RuntimeError: a fault of the program")


async def test_read_through_stops_at_the_first_tier_that_has_it() -> None:
    upper, lower = MemoryStore("upper"), SilentStore("lower")
    upper.objects[NAME] = DATA
    store = ReadThroughStore([upper, lower])
    assert await first(store) == Hit(DATA, "upper")
    assert await store.contains([NAME]) == [Found("upper")]
    assert lower.calls == 0


async def test_read_through_fills_the_tiers_above_and_only_those() -> None:
    top, middle, low, bottom = (MemoryStore(n) for n in ("top", "middle", "low", "bottom"))
    low.objects[NAME] = DATA
    store = ReadThroughStore([top, middle, low, bottom])
    assert await first(store) == Hit(DATA, "low")
    await store.settle()
    assert top.objects == middle.objects == {NAME: DATA}
    assert bottom.objects == {}
    assert await first(store) == Hit(DATA, "top")


@pytest.mark.parametrize("broken", [RaisingStore, SilentStore])
async def test_a_failed_fill_never_fails_a_good_read(broken: type[SilentStore]) -> None:
    class Unfillable(MemoryStore):
        put = broken("upper").put

    upper, lower = Unfillable("upper"), MemoryStore("lower")
    lower.objects[NAME] = DATA
    store = ReadThroughStore(
        [GuardedStore(upper, QUICK) if broken is SilentStore else upper, lower]
    )
    assert await first(store) == Hit(DATA, "lower")
    await store.settle()
    assert await first(store) == Hit(DATA, "lower")
    await store.settle()


async def test_read_through_passes_over_a_tier_that_is_down() -> None:
    upper, lower = FailingStore(MemoryStore("upper"), 1), MemoryStore("lower")
    lower.objects[NAME] = DATA
    store = ReadThroughStore([upper, lower])
    assert await first(store) == Hit(DATA, "lower")
    await store.settle()
    # It did not say that it lacks the object, so nothing is copied to it.
    assert upper.calls == 1


async def test_read_through_does_not_take_an_outage_for_a_miss() -> None:
    store = ReadThroughStore([FailingStore(MemoryStore("upper"), 99), MemoryStore("lower")])
    assert await first(store) == Unavailable(("upper",), "injected")
    assert await store.contains([NAME]) == [Unavailable(("upper",), "injected")]


async def test_read_through_asks_a_batch_tier_by_tier() -> None:
    upper, lower = MemoryStore("upper"), MemoryStore("lower")
    upper.objects[NAME] = DATA
    lower.objects[OTHER] = b"other"
    absent = name.blob("11" * 32)
    store = ReadThroughStore([upper, lower])
    assert await store.get([OTHER, absent, NAME, OTHER]) == [
        Hit(b"other", "lower"),
        Miss(),
        Hit(DATA, "upper"),
        Hit(b"other", "lower"),
    ]


async def test_read_through_writes_to_all_and_names_those_that_were_down() -> None:
    good, small = MemoryStore("good"), MemoryStore("small", largest=1)
    store = ReadThroughStore([small, good, FailingStore(MemoryStore("down"), 1)])
    assert await store.put(NAME, DATA) == Stored(("good",), missed=("down",))
    assert isinstance(await ReadThroughStore([small]).put(NAME, DATA), Refused)
    failing = FailingStore(MemoryStore("down"), 1)
    assert isinstance(await ReadThroughStore([small, failing]).put(NAME, DATA), Unavailable)


async def test_read_through_lists_what_any_tier_holds_and_fails_when_none_answers() -> None:
    upper, lower = MemoryStore("upper"), MemoryStore("lower")
    await upper.put(NAME, DATA)
    await lower.put(NAME, DATA)
    await lower.put(OTHER, b"other")
    failing = FailingStore(upper, 0)
    listed = await ReadThroughStore([failing, lower]).scan("blobs")
    assert not isinstance(listed, Unavailable)
    assert {one.name for one in listed} == {NAME, OTHER}
    assert len(listed) == 2
    failing.times = 1
    assert not isinstance(await ReadThroughStore([failing, lower]).scan("blobs"), Unavailable)
    failing.times = 1
    assert await ReadThroughStore([failing]).scan("blobs") == Unavailable(("upper",), "injected")


async def test_closing_closes_every_tier() -> None:
    tiers = [MemoryStore("upper"), MemoryStore("lower")]
    await ReadThroughStore([MeteredStore(VerifiedStore(tier)) for tier in tiers]).close()
    assert all(tier.closed for tier in tiers)
