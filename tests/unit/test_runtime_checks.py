"""The compiled check of inputs: what it lets through, what it names, on signatures made by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from compile_farm.errors import CorruptArtifactError, InputMismatchError
from compile_farm.runtime.checks import CheckCompiler, strides_fit
from compile_farm.runtime.explain import input_mismatch
from compile_farm.runtime.numbers import copy_as_it_lies
from compile_farm.v1 import artifact_pb2, graph_pb2
from tests.captures import expr, tensor, user_input

CPU = torch.device("cpu")
S0, S1 = "s0", "s1"


def operation(operator: graph_pb2.Operator, *operands: Any) -> graph_pb2.Expr:
    parts = [part if isinstance(part, graph_pb2.Expr) else expr(part) for part in operands]
    return graph_pb2.Expr(operation=graph_pb2.Operation(operator=operator, operands=parts))


def add(*operands: Any) -> graph_pb2.Expr:
    return operation(graph_pb2.OPERATOR_ADD, *operands)


def multiply(*operands: Any) -> graph_pb2.Expr:
    return operation(graph_pb2.OPERATOR_MULTIPLY, *operands)


def symbol(low: int = 1, high: int | None = 64) -> graph_pb2.Symbol:
    return graph_pb2.Symbol(minimum=low, maximum=high, hint=low)


def one_dimensional(size: graph_pb2.Expr) -> graph_pb2.TensorSpec:
    return graph_pb2.TensorSpec(dtype="float32", device_type="cpu", sizes=[size], strides=[expr(1)])


class Check:
    """All inputs of a signature are checked, and go to the compiled code in their order."""

    def __init__(
        self, inputs: list[graph_pb2.Input], symbols: list[graph_pb2.Symbol], *carriers: int
    ) -> None:
        self.signature = graph_pb2.Signature(inputs=inputs, symbols=symbols)
        order = [
            artifact_pb2.CompiledInput(input=index)
            for index, entry in enumerate(inputs)
            if entry.WhichOneof("kind") == "tensor"
        ] + [artifact_pb2.CompiledInput(size_carrier=index) for index in carriers]
        compiler = CheckCompiler(self.signature, order, range(len(inputs)), [], CPU)
        self._prepare = compiler.compile()
        self._known = compiler.known_symbols

    def __call__(self, *values: Any) -> tuple[list[torch.Tensor], dict[int, int]]:
        prepared = self._prepare(values, ())
        if prepared is None:
            raise input_mismatch(self.signature, dict(enumerate(values)), CPU)
        tensors, symbols = prepared
        return tensors, dict(zip(self._known, symbols, strict=True))


@pytest.fixture
def batch() -> Check:
    """x of (s0, 8), s0 from 1 to 64."""
    return Check([user_input(tensor(S0, 8, strides=(8, 1)), "x")], [symbol()])


def scalar(value: graph_pb2.Expr, name: str) -> graph_pb2.Input:
    return graph_pb2.Input(name=name, role=graph_pb2.ROLE_USER_INPUT, scalar=value)


def test_what_fits_comes_through_as_it_is(batch: Check) -> None:
    for size in (1, 2, 64):
        x = torch.zeros(size, 8)
        tensors, symbols = batch(x)
        assert tensors[0] is x
        assert symbols == {0: size}
    parameter = torch.nn.Parameter(torch.zeros(3, 8))
    assert batch(parameter)[0][0] is parameter


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.zeros(65, 8), "size of dimension 0 is 65, the artifact takes 1 to 64"),
        (lambda: torch.zeros(0, 8), "size of dimension 0 is 0, the artifact takes 1 to 64"),
        (lambda: torch.zeros(3, 9), "has size 9 in dimension 1, the artifact takes 8"),
        (lambda: torch.zeros(3), "has 1 dimensions, the artifact takes 2"),
        (lambda: torch.zeros(3, 8, 1), "has 3 dimensions"),
        (lambda: torch.zeros(3, 8).double(), "is torch.float64, the artifact takes torch.float32"),
        (lambda: torch.zeros(8, 3).T, r"strides \(1, 3\), the artifact takes \(8, 1\)"),
        (lambda: torch.zeros(1, 8).expand(3, 8), r"strides \(0, 1\)"),
        (lambda: torch.zeros(3, 8, device="meta"), "is on meta"),
        (lambda: torch.zeros(3, 8).to_sparse(), "layout torch.sparse_coo"),
        (lambda: torch.zeros(3, 8).as_subclass(Subclass), "is a Subclass, a subclass of Tensor"),
        (lambda: torch.zeros(3, 8, dtype=torch.complex64).conj().imag, "lazy conjugate|strides"),
        (lambda: torch._neg_view(torch.zeros(3, 8)), "lazy conjugate or negative"),
        (lambda: [[0.0] * 8] * 3, "is a list, the artifact takes a tensor"),
        (lambda: None, "is a NoneType"),
    ],
)
def test_what_does_not_fit_is_named(batch: Check, make: Any, words: str) -> None:
    with pytest.raises(InputMismatchError, match=words) as caught:
        batch(make())
    assert "argument 'x'" in caught.value.message


def test_strides_of_single_elements_and_of_nothing_do_not_matter(batch: Check) -> None:
    odd = torch.zeros(8, 2).T[:1]
    assert odd.shape == (1, 8)
    with pytest.raises(InputMismatchError, match="strides"):
        batch(odd)  # the dimension of 8 has stride 2
    batch(torch.zeros(8).as_strided((1, 8), (77, 1)))
    empty = Check([user_input(tensor(0, 8), "x")], [])
    empty(torch.zeros(8, 0).T)
    assert strides_fit(torch.zeros(8, 0).T, (3, 3))


def test_a_symbol_must_be_the_same_everywhere() -> None:
    check = Check([user_input(tensor(S0), "ids"), user_input(tensor(S0), "mask")], [symbol()])
    check(torch.zeros(5), torch.zeros(5))
    with pytest.raises(InputMismatchError, match=r"'mask': size of dimension 0 is 4.*must be 5"):
        check(torch.zeros(5), torch.zeros(4))


def test_linear_sizes_are_solved_and_must_divide() -> None:
    size = add(multiply(16, S0), 2)
    check = Check([user_input(one_dimensional(size), "x")], [symbol(1, 4)])
    assert check(torch.zeros(34))[1] == {0: 2}
    with pytest.raises(
        InputMismatchError, match="is 35, the artifact takes multiples of 16 plus 2"
    ):
        check(torch.zeros(35))
    with pytest.raises(InputMismatchError, match="is 82, the artifact takes 18 to 66"):
        check(torch.zeros(82))


def test_sizes_of_two_symbols_wait_for_one_that_says_more() -> None:
    """The first input alone determines nothing; the second comes later and does."""
    first = user_input(one_dimensional(add(S0, multiply(2, S1))), "joined")
    check = Check([first, user_input(tensor(S1), "part")], [symbol(0, 99), symbol(0, 99)])
    assert check(torch.zeros(10), torch.zeros(3))[1] == {0: 4, 1: 3}
    with pytest.raises(InputMismatchError, match="joined"):
        check(torch.zeros(5), torch.zeros(3))  # s0 would be -1


def test_a_product_of_symbols_is_compared() -> None:
    inputs = [
        user_input(tensor(S0), "rows"),
        user_input(tensor(S1), "columns"),
        user_input(one_dimensional(multiply(S0, S1)), "flat"),
    ]
    check = Check(inputs, [symbol(), symbol()])
    check(torch.zeros(3), torch.zeros(4), torch.zeros(12))
    with pytest.raises(InputMismatchError, match=r"'flat': size of dimension 0 is 13.*must be 12"):
        check(torch.zeros(3), torch.zeros(4), torch.zeros(13))


@pytest.mark.parametrize(
    ("operator", "operands", "expected"),
    [
        (graph_pb2.OPERATOR_FLOOR_DIVIDE, (S0, 2), 3),
        (graph_pb2.OPERATOR_MODULO, (S0, 4), 3),
        (graph_pb2.OPERATOR_MINIMUM, (S0, 5), 5),
        (graph_pb2.OPERATOR_MAXIMUM, (S0, 9), 9),
        (graph_pb2.OPERATOR_POWER, (S0, 2), 49),
    ],
)
def test_every_operator_is_computed_as_in_python(
    operator: graph_pb2.Operator, operands: tuple[Any, ...], expected: int
) -> None:
    derived = one_dimensional(operation(operator, *operands))
    check = Check([user_input(tensor(S0), "x"), user_input(derived, "y")], [symbol()])
    check(torch.zeros(7), torch.zeros(expected))
    with pytest.raises(InputMismatchError, match=f"must be {expected}"):
        check(torch.zeros(7), torch.zeros(expected + 1))


def test_a_division_by_zero_is_a_mismatch() -> None:
    derived = one_dimensional(operation(graph_pb2.OPERATOR_FLOOR_DIVIDE, 8, S0))
    check = Check([user_input(tensor(S0), "x"), user_input(derived, "y")], [symbol(0)])
    with pytest.raises(InputMismatchError, match="divides by zero"):
        check(torch.zeros(0), torch.zeros(8))


def test_integers_are_integers() -> None:
    check = Check([scalar(expr(S0), "n"), scalar(add(S0, 1), "next")], [symbol(-5, 9)], 0)
    tensors, symbols = check(4, 5)
    assert symbols == {0: 4}
    assert (tensors[0].shape, tensors[0].stride(), tensors[0].dtype) == ((4,), (0,), torch.uint8)
    for wrong, words in (
        ((True, 2), "'n' is a bool"),
        ((4.0, 5), "'n' is a float"),
        ((torch.tensor(4), 5), "'n' is a Tensor"),
        ((10, 11), "'n' is 10, the artifact takes -5 to 9"),
        ((4, 6), "'next' is 6.*must be 5"),
    ):
        with pytest.raises(InputMismatchError, match=words):
            check(*wrong)
    with pytest.raises(InputMismatchError):
        check(-1, 0)  # inside its range, but no size can carry it


def test_a_symbol_may_follow_from_a_stride_alone() -> None:
    spec = tensor(4, strides=(S0,))
    check = Check([user_input(spec, "x")], [symbol()], 0)
    assert check(torch.zeros(12)[::3])[1] == {0: 3}


def test_an_open_symbol_is_refused_before_any_call() -> None:
    with pytest.raises(CorruptArtifactError, match="symbol 1 follows from no input"):
        Check([user_input(tensor(S0), "x")], [symbol(), symbol()], 1)


def test_names_of_a_manifest_never_become_code() -> None:
    name = "x'; raise SystemExit #"
    check = Check([user_input(tensor(2), name)], [])
    check(torch.zeros(2))
    with pytest.raises(InputMismatchError):
        check(torch.zeros(3))


def test_torch_func_is_refused(batch: Check) -> None:
    with pytest.raises(InputMismatchError, match=r"torch\.func"):
        torch.func.vmap(lambda x: batch(x)[0][0])(torch.zeros(5, 3, 8))


def test_an_aligned_copy_keeps_values_and_strides() -> None:
    base = torch.arange(40.0)
    for view in (base[1:].as_strided((3, 4), (8, 2)), base[1:2].expand(5)):
        copy = copy_as_it_lies(view)
        assert copy.data_ptr() % 16 == 0
        assert copy.stride() == view.stride()
        assert torch.equal(copy, view)
        assert copy.data_ptr() != view.data_ptr()
