"""Floor division and remainder as eager computes them, to the bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from compiler_service.engine import exact

_SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 7.5, -7.5, 1e10, 2.0**31, 3e4, float("inf"), -float("inf")]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    width = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return torch.where(tensor.isnan(), -1, tensor.view(width))


def _numbers(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    one = torch.cat([torch.tensor([*_SPECIAL, float("nan")]), torch.arange(1, 60) * 0.1]).to(dtype)
    return one[:, None], one[None, :]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_of_two_tensors(dtype: torch.dtype) -> None:
    x, y = _numbers(dtype)
    assert torch.equal(_bits(exact._remainder(x, y)), _bits(torch.remainder(x, y)))
    expected = torch.div(x, y, rounding_mode="floor")
    assert torch.equal(_bits(exact._floor_divide(x, y)), _bits(expected))


def test_where_the_quotient_overflows() -> None:
    x = torch.tensor([88.0, -88.0, 0.5, 1.5, 3e38, 1.0, 2.0, 3.0] * 2)
    y = torch.tensor([1e-40, -1e-40, 1e-40, -1e-40, 0.5, 1e-39, -1e-39, 1e-38] * 2)
    assert torch.equal(_bits(exact._floor_divide(x, y)), _bits(torch.floor_divide(x, y)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("number", [3, 0.1, -2.5, 0.0])
def test_of_a_tensor_and_a_number(dtype: torch.dtype, number: Any) -> None:
    x, _ = _numbers(dtype)
    assert torch.equal(_bits(exact._remainder(x, number)), _bits(x % number))
    assert torch.equal(_bits(exact._floor_divide(x, number)), _bits(x // number))
    assert torch.equal(_bits(exact._remainder(number, x)), _bits(torch.remainder(number, x)))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8])
def test_of_integers(dtype: torch.dtype) -> None:
    numbers = torch.tensor([-128, -7, -1, 1, 2, 3, 7, 127]).to(dtype)
    x, y = numbers[:, None], numbers[None, 1:]
    expected = torch.div(x, y, rounding_mode="trunc")
    assert torch.equal(exact._div_mode(x, y, rounding_mode="trunc"), expected)
    assert torch.equal(exact._fmod(x, y), torch.fmod(x, y))
    assert torch.equal(exact._fmod(x, 3), torch.fmod(x, 3))
    with pytest.raises(RuntimeError, match="ZeroDivision"):
        exact._fmod(x, torch.zeros_like(y))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_index_select_takes_no_index_from_the_end(dtype: torch.dtype) -> None:
    x = torch.randn(4, 5)
    for dim in (0, 1, -1):
        index = torch.tensor([3, 0, 3], dtype=dtype)
        assert torch.equal(exact._index_select(None, x, dim, index), x.index_select(dim, index))
        with pytest.raises(IndexError):
            exact._index_select(None, x, dim, torch.tensor([0, -1], dtype=dtype))
    assert exact._index_select(None, torch.tensor(1.0), 0, torch.tensor([0])) is NotImplemented


def test_the_rest_stays_inductors() -> None:
    x = torch.arange(4)
    assert exact._remainder(x, 3) is NotImplemented
    assert exact._floor_divide(x, 3) is NotImplemented
    assert exact._div_mode(x.float(), 3, rounding_mode="trunc") is NotImplemented
    assert exact._fmod(x.float(), 3) is NotImplemented


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_some_operators_round_once_where_roundings_are_kept(dtype: torch.dtype) -> None:
    glu = exact._RoundedOnce(torch.ops.aten.glu.default, None)
    x = torch.randn(16, 16).to(dtype)
    with exact.config.patch(emulate_precision_casts=True):
        assert torch.equal(glu(x), torch.nn.functional.glu(x))
        assert glu(x.float()) is NotImplemented
    with exact.config.patch(emulate_precision_casts=False):
        assert glu(x) is NotImplemented
