"""Capture through a torch.compile backend: AOTAutograd's wrapper stays, the graph goes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

import compile_farm
from compile_farm import backend
from compile_farm.capture.aot import AotCapture
from compile_farm.errors import CaptureError, InputMismatchError
from compile_farm.key import compute_key
from compile_farm.v1 import graph_pb2
from tests.captures import options, target


class Recorder:
    """A backend that keeps what it captured; the graph runs eagerly, or through ``runner``."""

    def __init__(self) -> None:
        self.captured: list[AotCapture] = []

    def __call__(self, module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        self.captured.append(AotCapture(module, examples))
        return self.captured[-1].run_wrapped

    @property
    def capture(self) -> graph_pb2.Capture:
        return self.captured[-1].capture


@pytest.fixture
def recorder() -> Any:
    torch._dynamo.reset()
    with torch.no_grad():
        yield Recorder()
    torch._dynamo.reset()


def test_roles_of_weights_are_known(recorder: Recorder) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    torch.compile(model, backend=recorder)(torch.randn(3, 4))
    roles = sorted(entry.role for entry in recorder.capture.signature.inputs)
    assert roles == sorted(
        [graph_pb2.ROLE_PARAMETER] * 4 + [graph_pb2.ROLE_BUFFER] * 2 + [graph_pb2.ROLE_USER_INPUT]
    )
    assert all(not entry.name for entry in recorder.capture.signature.inputs)


def test_attention_stays_one_operator(recorder: Recorder) -> None:
    attention = torch.compile(nn.functional.scaled_dot_product_attention, backend=recorder)
    attention(*(torch.randn(1, 2, 8, 16) for _ in range(3)))
    assert any("attention" in node.op for node in recorder.capture.graph.nodes)


def test_two_processes_worth_of_tracing_give_one_key(recorder: Recorder) -> None:
    keys = set()
    for _ in range(2):
        torch._dynamo.reset()
        torch.compile(nn.Linear(4, 4), backend=recorder)(torch.randn(3, 4))
        keys.add(compute_key(recorder.capture, target(), options()))
    assert len(keys) == 1


def test_autocast_gives_another_key(recorder: Recorder) -> None:
    def cast(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ w

    keys = set()
    for function in (cast, lambda x, w: x @ w):
        torch.compile(function, backend=recorder)(torch.randn(4, 4), torch.randn(4, 4))
        keys.add(compute_key(recorder.capture, target(), options()))
    assert len(keys) == 2


def test_python_integers_are_scalar_inputs_when_dynamic(recorder: Recorder) -> None:
    compiled = torch.compile(lambda x, n: x * n, backend=recorder, dynamic=True)
    assert torch.equal(compiled(torch.ones(3), 5), torch.full((3,), 5.0))
    assert torch.equal(compiled(torch.ones(3), 7), torch.full((3,), 7.0))
    kinds = [entry.WhichOneof("kind") for entry in recorder.capture.signature.inputs]
    assert "scalar" in kinds


def test_mutated_inputs_are_marked_and_mutated(recorder: Recorder) -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    x = torch.ones(3)
    assert torch.equal(torch.compile(write, backend=recorder)(x), torch.full((3,), 3.0))
    assert torch.equal(x, torch.full((3,), 2.0))
    assert recorder.capture.signature.inputs[0].mutated


def test_the_runner_takes_over_and_a_mismatch_comes_out(recorder: Recorder) -> None:
    compiled = torch.compile(lambda x: x + 1, backend=recorder)
    compiled(torch.zeros(2))
    captured = recorder.captured[-1]
    captured.runner = lambda inputs: [inputs[0] + 100]
    assert torch.equal(compiled(torch.zeros(2)), torch.full((2,), 100.0))

    def refuses(inputs: list[Any]) -> list[Any]:
        raise InputMismatchError("does not fit")

    captured.runner = refuses
    with pytest.raises(InputMismatchError):
        compiled(torch.zeros(2))


def test_constants_become_inputs_and_do_not_move_the_key(recorder: Recorder) -> None:
    keys = set()
    for numbers in ([1.0, 2.0], [3.0, 4.0]):
        made = torch.tensor(numbers)

        def add(x: torch.Tensor, made: torch.Tensor = made) -> torch.Tensor:
            return x + made

        assert torch.equal(torch.compile(add, backend=recorder)(torch.zeros(2)), made)
        keys.add(compute_key(recorder.capture, target(), options()))
    assert len(keys) == 1


def test_training_is_refused() -> None:
    torch._dynamo.reset()
    problems: list[CaptureError] = []

    def backend(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        try:
            AotCapture(module, examples)
        except CaptureError as error:
            problems.append(error)
        return module.forward

    torch.compile(nn.Linear(2, 2), backend=backend)(torch.ones(1, 2))
    assert "gradients" in problems[0].message
    assert "no_grad" in problems[0].remedy


def test_an_overlapping_write_is_refused(recorder: Recorder) -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        return x.clone().as_strided((2, 2), (1, 1)).add_(1)

    with pytest.raises(Exception, match="overlap"):
        torch.compile(write, backend=recorder)(torch.randn(4))


def test_a_call_that_reads_what_it_writes_is_refused(recorder: Recorder) -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[1:] += y[:-1]
        return y

    with pytest.raises(Exception, match="also reads through another view"):
        torch.compile(write, backend=recorder)(torch.randn(4))


def test_a_float_that_changes_between_calls_is_captured(recorder: Recorder) -> None:
    """Dynamo makes an input of it, finds that it can't be a tensor, and traces again."""
    norm = nn.BatchNorm1d(3).train().requires_grad_(False)
    run = torch.compile(norm, backend=recorder)
    for eps in (1e-5, 0.5, 0.25):
        norm.eps = eps
        assert run(torch.randn(5, 3)).shape == (5, 3)
    assert len(recorder.captured) == 3


def test_a_graph_that_is_traced_again_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(*_: Any) -> None:
        raise torch._dynamo.exc.TensorifyScalarRestartAnalysis

    monkeypatch.setattr(backend._Backend, "compile", again)
    before = len(compile_farm.compiled_graphs())
    with pytest.raises(torch._dynamo.exc.TensorifyScalarRestartAnalysis):
        backend.compile_farm(torch.fx.symbolic_trace(nn.ReLU()), [torch.ones(1)])
    assert len(compile_farm.compiled_graphs()) == before


def test_inputs_that_share_memory_where_one_is_written_are_refused(recorder: Recorder) -> None:
    """AOTAutograd makes one input of them, and nothing would tell a later call that has two."""

    def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    base = torch.randn(3, 3)
    with pytest.raises(Exception, match="two inputs of the graph share memory"):
        torch.compile(write, backend=recorder)(base, base.t())
    torch._dynamo.reset()
    torch.compile(write, backend=recorder)(base, base.clone().t())
    torch._dynamo.reset()
    torch.compile(lambda x, y: x + y, backend=recorder)(base, base.t())


def test_idle_dropout_is_its_argument(recorder: Recorder) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = x * 3
            y = self.drop(h)
            y += 1
            return h

    x = torch.randn(4)
    given = torch.compile(Model().eval(), backend=recorder)(x)
    assert torch.equal(given, x * 3 + 1)


def test_a_chain_of_thousands_needs_no_recursion(recorder: Recorder) -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2000):
            x = x.sin()
        return x

    torch.compile(chain, backend=recorder)(torch.ones(2))
    assert len(recorder.capture.graph.nodes) == 2000


def test_where_dynamo_would_break_the_graph_it_may(recorder: Recorder) -> None:
    """Refused as a whole all of it would run eager; Dynamo hands over what lies around."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    number = graph.call_function(torch.ops.aten._local_scalar_dense.default, (x,))
    graph.output((graph.call_function(torch.ops.aten.mul.Scalar, (x, number)),))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    before = len(compile_farm.compiled_graphs())
    for compile_it in (AotCapture, backend.compile_farm):
        with pytest.raises(torch._subclasses.fake_tensor.DataDependentOutputException):
            compile_it(module, [torch.randn(1)])  # type: ignore[operator]
    assert len(compile_farm.compiled_graphs()) == before
