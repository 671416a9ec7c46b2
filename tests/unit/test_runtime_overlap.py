"""Which tensors share memory: exactly, also where their intervals cross and no element meets."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_farm.runtime.overlap import WriteWatch, first_shared, shares_memory


def test_views_of_one_tensor_meet_or_do_not() -> None:
    base = torch.zeros(4, 6)
    assert shares_memory(base, base)
    assert shares_memory(base, base[2:, 3:])
    assert not shares_memory(base[:2], base[2:])
    assert not shares_memory(base, torch.zeros(4, 6))
    # Their intervals cross, and no element is in both.
    assert not shares_memory(base[:, :3], base[:, 3:])
    assert shares_memory(base[:, :4], base[:, 3:])
    assert not shares_memory(base[:, ::2], base[:, 1::2])


def test_empty_tensors_share_nothing() -> None:
    base = torch.zeros(4)
    assert not shares_memory(base, base[:0])


def test_other_dtypes_of_the_same_memory_count() -> None:
    base = torch.zeros(4, dtype=torch.float64)
    assert shares_memory(base, base.view(torch.uint8)[31:])
    assert shares_memory(base[::2], base.view(torch.uint8)[7:8])
    assert not shares_memory(base[::2], base.view(torch.uint8)[8:16])


def test_two_storages_over_one_memory_count() -> None:
    numpy = pytest.importorskip("numpy")
    memory = numpy.zeros(8, dtype=numpy.float32)
    assert shares_memory(torch.from_numpy(memory), torch.from_numpy(memory[4:]))
    assert not shares_memory(torch.from_numpy(memory[:4]), torch.from_numpy(memory[4:]))


_layouts = st.tuples(
    st.integers(0, 12),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 7)), min_size=0, max_size=3),
)


@settings(max_examples=300, deadline=None)
@given(_layouts, _layouts)
def test_it_agrees_with_a_list_of_all_elements(
    one: tuple[int, list[tuple[int, int]]], other: tuple[int, list[tuple[int, int]]]
) -> None:
    base = torch.arange(100)
    views = [
        base.as_strided([size for size, _ in dims], [stride for _, stride in dims], offset)
        for offset, dims in (one, other)
    ]
    elements = [set(view.flatten().tolist()) for view in views]
    assert shares_memory(*views) == bool(elements[0] & elements[1])


def test_a_watch_finds_the_input_that_a_write_reaches() -> None:
    cache, other = torch.zeros(8), torch.zeros(8)
    watch = WriteWatch([False, True], [cache, other], [True, False])
    x, state = torch.zeros(4), torch.zeros(4)
    assert watch.needed
    assert watch.conflict([x, state]) is None
    assert watch.conflict([cache[2:4], state]) == 0  # a buffer that is written to
    assert watch.conflict([other, state]) is None  # a weight that nobody writes to
    assert watch.conflict([x, other[1:]]) == 1  # an input that is written to, and a weight
    assert watch.conflict([x, x]) == 1  # the very same tensor twice
    assert watch.conflict([3, state]) is None


def test_a_watch_without_writes_is_not_needed() -> None:
    assert not WriteWatch([False], [torch.zeros(2)], [False]).needed


def test_the_first_shared_pair_has_the_written_one_first() -> None:
    base = torch.zeros(10)
    tensors = [torch.zeros(3), base[4:], base[:6]]
    assert first_shared(tensors, [False, False, True]) == (2, 1)
    assert first_shared(tensors, [False, True, False]) == (1, 2)
    assert first_shared(tensors, [True, False, False]) is None
