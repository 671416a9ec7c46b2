"""Which artifact is nearest to a request, and what an explanation says of the two."""

from __future__ import annotations

from collections.abc import Sequence

from compile_farm.difference import Side
from compile_farm.explain import COMPONENTS, Explanation, differences, explanation, rank
from compile_farm.summary import likeness, summarize
from compile_farm.v1 import artifact_pb2, graph_pb2, target_pb2
from tests.captures import add_capture, chain_capture, options, target
from tests.unit.test_explain import manifest, side


def best(
    request: graph_pb2.Capture, candidates: Sequence[artifact_pb2.Manifest]
) -> artifact_pb2.Manifest:
    here = side(request)
    # Whatever the order in which they come.
    (first,) = rank(here.components, here.graph_summary, candidates, 1)
    assert rank(here.components, here.graph_summary, candidates[::-1], 1) == [first]
    return first


def test_the_same_target_comes_first() -> None:
    alike = manifest(add_capture(dtype="float64"), target(torch="2.14.0"), created=9)
    here = manifest(chain_capture(5))
    assert best(add_capture(), [alike, here]) == here


def test_then_the_most_equal_components() -> None:
    one = manifest(add_capture(dtype="float64"))
    two = manifest(add_capture(dtype="float64"), asked=options(effort=target_pb2.EFFORT_TUNED))
    assert best(add_capture(), [two, one]) == one


def test_then_the_most_alike_operators_then_the_newest() -> None:
    near, far = manifest(chain_capture(9)), manifest(chain_capture(2), created=5)
    assert best(chain_capture(10), [near, far]) == near
    older, newer = manifest(chain_capture(9), created=1), manifest(chain_capture(9), created=2)
    assert best(chain_capture(10), [older, newer]) == newer


def test_no_more_than_asked_for() -> None:
    here = side(add_capture())
    many = [manifest(chain_capture(length)) for length in range(1, 9)]
    assert len(rank(here.components, here.graph_summary, many, 3)) == 3
    assert rank(here.components, here.graph_summary, [], 3) == []


def test_likeness_is_1_for_the_same_and_0_for_nothing_in_common() -> None:
    one, other = summarize(chain_capture(3).graph), summarize(add_capture().graph)
    assert likeness(one, one) == 1
    assert likeness(one, other) == 0
    assert likeness(artifact_pb2.GraphSummary(), artifact_pb2.GraphSummary()) == 0
    assert dict(one.operators) == {"aten::sin.default": 3}


def test_an_explanation_says_what_is_the_same_too() -> None:
    text = str(explanation(side(add_capture()), side(add_capture(dtype="float64"))))
    assert "signature: input 0 (x): float32 against float64" in text
    assert "the same: target, options, calling convention, graph" in text


def test_nothing_to_compare_with() -> None:
    here = side(add_capture())
    assert "nothing to compare" in str(Explanation(here, None))
    assert "could not be read" in str(Explanation(here, None, more=True))
    assert "under this very key" in str(Explanation(here, None, hit=True))
    assert "in quarantine: wrong" in str(Explanation(here, None, quarantined="wrong"))


def test_another_version_of_the_key_is_told_first() -> None:
    there = manifest(add_capture())
    there.key = "ab" * 32
    there.components.version += 1
    for name in COMPONENTS:
        setattr(there.components, name, "cd" * 32)
    found = differences(side(add_capture()), Side.of_manifest(there))
    assert found[0].component == "version"
    assert "compile again" in found[0].words
