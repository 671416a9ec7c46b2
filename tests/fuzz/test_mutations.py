"""Altered graphs and artifacts cause nothing but the project's own errors, and nothing outside the
operators' allow-list is ever called.

The quick profile runs with every test, the slow one does 100,000 mutations. Each is made from its
seed alone, and a failure notes the call that repeats it.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compile_farm.v1 import graph_pb2
from tests.fuzz import seeds, targets
from tests.fuzz.mutate import altered_bytes, altered_message

Mutation = Callable[[random.Random], str]


@functools.cache
def _capture_bytes() -> list[bytes]:
    return [capture.SerializeToString() for capture in seeds.all_captures()]


def altered_capture(rng: random.Random) -> str:
    """The schema, the key and the decoder on a capture with parts changed."""
    captures = seeds.all_captures()
    message = altered_message(rng.choice(captures), rng, captures)
    return targets.check_capture_bytes(message.SerializeToString())


def altered_capture_bytes(rng: random.Random) -> str:
    """The same on bytes that no writer of messages would make."""
    data = altered_bytes(rng.choice(_capture_bytes()), rng, _capture_bytes())
    return targets.check_capture_bytes(data)


def altered_manifest(rng: random.Random) -> str:
    """A manifest with parts changed, and all that binding compiles from it."""
    message = altered_message(seeds.manifest(), rng, seeds.all_captures())
    return targets.check_manifest_bytes(message.SerializeToString())


def altered_artifact(rng: random.Random) -> str:
    """The zip."""
    return targets.check_artifact_bytes(altered_bytes(seeds.artifact(), rng, [seeds.artifact()]))


def altered_request(rng: random.Random) -> str:
    """What the gateway gets, compressed capture and all."""
    request = rng.choice(seeds.all_requests())
    if rng.random() < 0.5:
        return targets.check_request_bytes(altered_bytes(request.SerializeToString(), rng))
    message = altered_message(request, rng)
    return targets.check_request_bytes(message.SerializeToString())


# Each with how many the quick and the slow profile do: 3,100 and 135,000 in all.
MUTATIONS: list[tuple[Mutation, int, int]] = [
    (altered_capture, 500, 25_000),
    (altered_capture_bytes, 600, 20_000),
    (altered_manifest, 500, 15_000),
    (altered_artifact, 800, 40_000),
    (altered_request, 700, 35_000),
]
_QUICK = [pytest.param(one, quick, id=one.__name__) for one, quick, _ in MUTATIONS]
_ALL = [pytest.param(one, every, id=one.__name__) for one, _, every in MUTATIONS]


@pytest.fixture(autouse=True)
def one_core() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(mutation: Mutation, first: int, count: int) -> Counter[str]:
    """How many ended how. A failure names the seed that repeats it."""
    ends: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            ends[mutation(random.Random(seed))] += 1
        except BaseException as error:
            error.add_note(
                f"to repeat: tests.fuzz.test_mutations.{mutation.__name__}(random.Random({seed}))"
            )
            raise
    return ends


# What must be met at least once, else the mutations test nothing.
_ENDS = {
    "altered_capture": {"refused", "decoded"},
    "altered_capture_bytes": {"refused", "decoded"},
    "altered_manifest": {"refused", "made 4"},
    "altered_artifact": {"refused", "verified", "readable"},
    "altered_request": {"refused", "taken", "no message"},
}


@pytest.mark.parametrize(("mutation", "count"), _QUICK)
def test_some_mutations(mutation: Mutation, count: int) -> None:
    assert run(mutation, 0, count).keys() >= _ENDS[mutation.__name__]


@pytest.mark.slow
@pytest.mark.timeout(480)
@pytest.mark.parametrize(("mutation", "count"), _ALL)
def test_a_hundred_thousand_mutations(mutation: Mutation, count: int) -> None:
    assert run(mutation, 1_000_000, count).keys() >= _ENDS[mutation.__name__]


def test_the_slow_profile_does_a_hundred_thousand() -> None:
    assert sum(every for _, _, every in MUTATIONS) >= 100_000


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.sampled_from([one for one, _, _ in MUTATIONS]))
def test_mutations_that_hypothesis_chooses(rng: random.Random, mutation: Mutation) -> None:
    """It makes a failure smaller before it shows it."""
    mutation(rng)


def test_the_parts_that_are_altered_are_valid() -> None:
    for data in _capture_bytes():
        assert targets.check_capture_bytes(data) == "decoded"
    assert targets.check_manifest_bytes(seeds.manifest().SerializeToString()) == "made 4"
    assert targets.check_artifact_bytes(seeds.artifact()) == "verified"
    for request in seeds.all_requests():
        assert targets.check_request_bytes(request.SerializeToString()) == "taken"


def test_the_rich_capture_has_every_kind_of_argument() -> None:
    """A kind that is added to the schema must be altered here too."""
    found: set[str | None] = set()

    def look(argument: graph_pb2.Argument) -> None:
        found.add(argument.WhichOneof("kind"))
        for items in (argument.list.items, argument.tuple.items):
            for item in items:
                look(item)
        for entry in argument.dictionary.items:
            look(entry.value)

    for node in seeds.rich_capture().graph.nodes:
        for argument in (*node.args, *(item.value for item in node.kwargs)):
            look(argument)
    assert found == {f.name for f in graph_pb2.Argument.DESCRIPTOR.oneofs_by_name["kind"].fields}
