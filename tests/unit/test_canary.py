"""The canary by itself: what counts as a difference, and what is left behind after one."""

from __future__ import annotations

import logging
import threading
from typing import Any, NamedTuple

import pytest
import torch

from compile_farm.errors import CompileFarmError, FarmUnavailableError
from compile_farm.runtime.canary import Canary
from compile_farm.v1 import artifact_pb2


def canary(eager: Any, calls: int = 1, **more: Any) -> Canary:
    return Canary(artifact_pb2.Manifest(), calls, eager, **more)


def watch(compiled: Any, eager: Any, *args: Any) -> tuple[Any, str | None]:
    one = canary(eager)
    return one.call(compiled, args, {}), one.difference


X = torch.linspace(-1.0, 1.0, 64).reshape(8, 8)


class Pair(NamedTuple):
    first: torch.Tensor
    second: Any


EQUAL = [
    (lambda x: x * 2, lambda x: x + x),
    (lambda x: (x, 3, None, "a"), lambda x: (x.clone(), 3, None, "a")),
    (lambda x: {"a": [x.exp()]}, lambda x: {"a": [x.exp() * (1 + 1e-7)]}),
    (lambda x: Pair(x, True), lambda x: Pair(x.clone(), True)),
    (lambda x: x / 0, lambda x: x / 0),
    (lambda x: x[:0], lambda x: x[:0].clone()),
    (lambda x: x.to(torch.complex64), lambda x: x.to(torch.complex64).clone()),
    (lambda x: x > 0, lambda x: x > 0),
]

DIFFERENT = [
    (lambda x: x * 2, lambda x: x * 2 + 1e-3, "relative error"),
    (lambda x: x.relu(), lambda x: torch.nn.functional.gelu(x), "relative error"),
    (lambda x: x > 0, lambda x: x >= x[0, 1], "integers differ"),
    (lambda x: x, lambda x: x.double(), "float64"),
    (lambda x: x, lambda x: x.reshape(64), "(64,)"),
    (lambda x: (x, 3), lambda x: (x, 4), "eager has 4"),
    (lambda x: (x, 1), lambda x: (x, True), "eager has True"),
    (lambda x: (x, x), lambda x: (x,), "2 values"),
    (lambda x: x / 0, lambda x: -(x / 0), "NaN or infinity"),
    (lambda x: x.sqrt(), lambda x: x.abs().sqrt(), "NaN or infinity"),
    # One element among many: the norm alone would let it pass.
    (lambda x: x, lambda x: x + 1e-3 * (torch.arange(64).reshape(8, 8) == 9), "largest element"),
]


@pytest.mark.parametrize(("compiled", "eager"), EQUAL)
def test_equal_results_are_the_compiled_ones(compiled: Any, eager: Any) -> None:
    result, difference = watch(compiled, eager, X)
    assert difference is None
    assert type(result) is type(compiled(X))


@pytest.mark.parametrize(("compiled", "eager", "words"), DIFFERENT)
def test_a_difference_is_told_and_eager_answers(compiled: Any, eager: Any, words: str) -> None:
    result, difference = watch(compiled, eager, X)
    assert difference is not None
    assert words in difference
    expected = eager(X)
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


def test_the_workers_own_bound_counts() -> None:
    manifest = artifact_pb2.Manifest()
    manifest.verification.runs.add(bound=1e-2, eager_error=1e-3)
    one = Canary(manifest, 1, lambda x: x * 1.01)
    one.call(lambda x: x, (X,), {})
    assert one.difference is None
    assert one.allowed(torch.float32) == pytest.approx(4.4e-2)


def test_arguments_are_written_to_once() -> None:
    x = X.clone()
    one = canary(lambda x: x.add_(1), calls=3)
    for count in (1.0, 2.0, 3.0, 4.0):
        assert one.call(lambda x: x.add_(1), (x,), {}) is x
        torch.testing.assert_close(x, X + count)
    assert one.difference is None


def test_a_wrong_write_is_seen_and_undone() -> None:
    x = X.clone()

    def wrong(x: torch.Tensor) -> int:
        x.add_(2)
        return 1

    def right(x: torch.Tensor) -> int:
        x.mul_(3)
        return 1

    one = canary(right)
    assert one.call(wrong, (x,), {}) == 1
    assert one.difference is not None
    assert "argument 0" in one.difference
    torch.testing.assert_close(x, X * 3)


def test_buffers_are_written_to_once_and_a_wrong_one_is_undone() -> None:
    model = torch.nn.BatchNorm1d(8).train()
    twin = torch.nn.BatchNorm1d(8).train()
    slots = [(model._buffers, name) for name in ("running_mean", "running_var")]
    home = dict(model.named_buffers())

    def compiled(x: torch.Tensor) -> Any:
        return model(x)

    counted = [(model._buffers, "num_batches_tracked"), *slots]
    one = canary(model, slots=lambda: counted)
    with torch.no_grad():
        one.call(compiled, (X,), {})
        twin(X)
    assert one.difference is None
    for name, buffer in model.named_buffers():
        assert buffer is home[name]
        torch.testing.assert_close(buffer, dict(twin.named_buffers())[name])

    def forgets(x: torch.Tensor) -> Any:
        kept = [buffer.clone() for buffer in model.buffers()]
        result = model(x)
        for buffer, old in zip(model.buffers(), kept, strict=True):
            buffer.copy_(old)
        return result

    other = canary(model, slots=lambda: counted)
    with torch.no_grad():
        other.call(forgets, (X,), {})
        twin(X)
    assert other.difference is not None
    assert "buffer" in other.difference
    for name, buffer in model.named_buffers():
        torch.testing.assert_close(buffer, dict(twin.named_buffers())[name])


def test_both_draw_the_same_random_numbers_and_none_more() -> None:
    torch.manual_seed(7)
    plain = [torch.rand(4) for _ in range(3)]
    torch.manual_seed(7)
    one = canary(lambda: torch.rand(4), calls=2)
    for expected in plain:
        assert torch.equal(one.call(lambda: torch.rand(4), (), {}), expected)
    assert one.difference is None


def test_after_a_difference_eager_runs_and_the_farm_is_told_once() -> None:
    told: list[str] = []
    one = canary(lambda x: x * 2, calls=5, quarantine=told.append)
    calls = []

    def compiled(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return x * 3

    for _ in range(3):
        assert torch.equal(one.call(compiled, (X,), {}), X * 2)
    assert len(calls) == 1
    assert len(told) == 1
    assert "differs from eager on a host" in told[0]


def test_a_farm_that_is_away_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def away(reason: str) -> None:
        raise FarmUnavailableError("it is away")

    one = canary(lambda x: x * 2, quarantine=away)
    assert torch.equal(one.call(lambda x: x, (X,), {}), X * 2)
    assert "it is away" in caplog.text


def test_without_memory_for_eager_the_call_is_let_through(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def no_memory(x: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("no memory")

    with caplog.at_level(logging.WARNING):
        result, difference = watch(lambda x: x * 3, no_memory, X)
    assert difference is None
    assert torch.equal(result, X * 3)
    assert "not verified" in caplog.text


def test_what_eager_raises_is_raised() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        raise IndexError("out of range")

    with pytest.raises(IndexError, match="out of range"):
        watch(lambda x: x, refuses, X)


def test_a_refused_call_does_not_count() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        raise CompileFarmError("not this shape")

    one = canary(lambda x: x)
    with pytest.raises(CompileFarmError):
        one.call(refuses, (X,), {})
    assert (one.left, one.difference) == (1, None)


def test_only_the_arguments_that_may_be_written_to_are_copied() -> None:
    seen: list[tuple[int, int]] = []
    weight, x = X.clone(), X.clone()

    def eager(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        seen.append((weight.data_ptr(), x.data_ptr()))
        return x.add_(weight)

    one = canary(eager, written=[1])
    one.call(lambda weight, x: x.add_(weight), (weight, x), {})
    assert one.difference is None
    assert seen[0][0] == weight.data_ptr()
    assert seen[0][1] != x.data_ptr()


def test_expanded_and_odd_layouts_reach_eager_as_they_lie() -> None:
    views = [torch.arange(4.0).expand(3, 4), X.t(), X[1:, ::2], X[0, 0], torch.empty(0, 3)]
    seen: list[Any] = []
    for view in views:
        one = canary(lambda x: seen.append((x.shape, x.stride())) or 0)
        one.call(lambda x: 0, (view,), {})
        assert one.difference is None
    assert seen == [(view.shape, view.stride()) for view in views]


def test_threads_watch_so_many_calls_and_no_more() -> None:
    counted: list[int] = []
    one = canary(lambda x: counted.append(1) or x, calls=3)
    threads = [threading.Thread(target=one.call, args=(lambda x: x, (X,), {})) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counted) == 3
    assert one.difference is None


def test_a_negative_number_of_calls_is_refused() -> None:
    with pytest.raises(CompileFarmError, match="verify_on_load is -1"):
        canary(lambda x: x, calls=-1)
