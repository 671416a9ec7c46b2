"""Every public bug report in tests/cases, by both ways in: equal to eager, or clearly refused.

What may be refused, and where, is listed here; docs/limits.md says why. A case that is on no list
must run through the farm's artifact and be equal in values, strides, aliases and mutations.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import compile_farm
from compile_farm import Farm
from compile_farm.errors import CaptureError, CompileFailedError, InputMismatchError
from tests.cases import Case, all_cases
from tests.comparing import differences
from tests.farms import RunningFarm

CASES = {case.name: case for case in all_cases()}

# Refused before anything runs, with the start of the reason.
REFUSED_BY_SUBMIT = {
    "01_complex_broadcast_add": "Inductor could not compile",
    "05_overlapping_view_inplace": "aten.add_.Tensor writes through a view whose elements overlap",
    "22_cond_sliced_view": "torch.export could not capture",
    "43_flex_attention_captured": "the graph holds",
}
REFUSED_BY_COMPILE = {
    "01_complex_broadcast_add": "Inductor could not compile",
    "05_overlapping_view_inplace": "aten.add_.Tensor writes through a view whose elements overlap",
    "22_cond_sliced_view": "a branch or loop body makes the constant tensor",
}
# Further calls whose shapes or numbers the graph of the first call does not admit: by submit an
# error that names the argument, by compile a further graph that may run eager.
OTHER_CALLS_REFUSED = {"39_python_int_argument": "it was 5 at capture and is fixed"}
PARTLY_EAGER = {"35_dynamic_multiple_of_16", "38_item_makes_size"}


def _calls(case: Case, first: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [first, *case.more_inputs()]


def _check(model: Any, reference: Any, run: Any, args: tuple[Any, ...]) -> None:
    """One call by both ways, arguments and buffers included; the same objects come back."""
    mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
    with torch.no_grad():
        expected = reference(*theirs)
        given = run(*mine)
    state = (dict(model.named_buffers()), dict(reference.named_buffers()))
    assert differences((given, mine, state[0]), (expected, theirs, state[1])) == []
    for argument, original in zip(mine, theirs, strict=True):
        assert (given is argument) == (expected is original)


@pytest.mark.parametrize("name", sorted(CASES))
def test_submit(name: str, farm: Farm) -> None:
    case = CASES[name]
    model, args, dynamic_shapes = case.make()
    reference = copy.deepcopy(model)
    if name in REFUSED_BY_SUBMIT:
        with pytest.raises((CaptureError, CompileFailedError)) as caught:
            farm.submit(model, args, dynamic_shapes=dynamic_shapes).result(280)
        assert str(caught.value).startswith(REFUSED_BY_SUBMIT[name])
        return
    run = farm.submit(model, args, dynamic_shapes=dynamic_shapes).result(280).bind(model)
    first, *others = _calls(case, args)
    _check(model, reference, run, first)
    for call in others:
        if name in OTHER_CALLS_REFUSED:
            with pytest.raises(InputMismatchError, match=OTHER_CALLS_REFUSED[name]):
                run(*call)
        else:
            _check(model, reference, run, call)


# A compile costs five seconds; those of the rest are run with the slow tests.
QUICK = {
    "05_overlapping_view_inplace",
    "12_index_add_on_transposed_input",
    "16_explicit_half_roundtrip",
    "17_bf16_rotate_half",
    "22_cond_sliced_view",
    "26_named_tuple_output",
    "39_python_int_argument",
    "42_train_mode_bn_counters",
    "43_flex_attention_captured",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in sorted(CASES)],
)
def test_compile(name: str, farm_server: RunningFarm) -> None:
    case = CASES[name]
    torch._dynamo.reset()
    model, args, _ = case.make()
    reference = copy.deepcopy(model)
    before = len(compile_farm.compiled_graphs())
    run = torch.compile(
        model,
        backend="compile_farm",
        options={"url": farm_server.address, "on_miss": "wait", "timeout": 280.0},
    )
    for call in _calls(case, args):
        _check(model, reference, run, call)
    graphs = compile_farm.compiled_graphs()[before:]
    assert graphs
    refused = [graph for graph in graphs if graph.state != "ready"]
    if name in REFUSED_BY_COMPILE:
        assert refused[0].reason.startswith(REFUSED_BY_COMPILE[name])
    elif name in PARTLY_EAGER:
        assert graphs[0].state == "ready"
        assert all(graph.reason for graph in refused)
    else:
        assert refused == []
        assert not any(graph.fallbacks for graph in graphs)
