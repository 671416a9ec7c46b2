"""Every public bug report in tests/cases, by both ways in: equal to eager, or clearly refused.

What may be refused, and where, is listed here; docs/limits.md says why. A case that is on no list
must run through the farm's artifact and be equal in values, strides, aliases and mutations.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch

import compile_farm
from compile_farm import Farm
from compile_farm.errors import BindError, CaptureError, CompileFailedError, InputMismatchError
from tests.cases import Case, all_cases
from tests.comparing import differences
from tests.farms import RunningFarm

CASES = {case.name: case for case in all_cases()}

# Refused before anything runs, with the start of the reason.
REFUSED_BY_SUBMIT = {
    "01_complex_broadcast_add": "Inductor could not compile",
    "65_python_counter": "M.forward writes to the attribute 'calls'",
    "66_writes_into_argument_dict": "M.forward writes to a container among its arguments",
    "81_overlapping_input_written": "aten.add_.Tensor writes through a view whose elements overlap",
    "82_diagonal_and_rows_written": "aten.add_.Tensor writes to memory that it also reads",
    "83_input_transposed_in_place": "Inductor could not compile",
    "84_data_of_an_input_replaced": "M.forward writes to the .data of a tensor",
    "95_dynamic_arithmetic": "torch.export could not capture",
    "94_dynamic_size_one": "result 0 is another view of the inputs where a size is 1",
    "105_buffer_given_another_tensor": "M.forward writes to the buffer 'total', by giving it",
    "106_reads_where_it_writes": "aten.add_.Tensor writes to memory that it also reads",
    "107_tensor_in_a_list": "forward reads a tensor that is no argument and no attribute",
    "05_overlapping_view_inplace": "aten.add_.Tensor writes through a view whose elements overlap",
    "22_cond_sliced_view": "torch.export could not capture",
    "43_flex_attention_captured": "the graph holds",
}
REFUSED_BY_COMPILE = {
    "01_complex_broadcast_add": "Inductor could not compile",
    "61_views_of_one_base_written": "two inputs of the graph share memory",
    "81_overlapping_input_written": "the compiled code differs from eager",
    "82_diagonal_and_rows_written": "aten.add_.Tensor writes to memory that it also reads",
    "84_data_of_an_input_replaced": "Inductor could not compile",
    "106_reads_where_it_writes": "aten.add_.Tensor writes to memory that it also reads",
    "05_overlapping_view_inplace": "aten.add_.Tensor writes through a view whose elements overlap",
    "22_cond_sliced_view": "a branch or loop body makes the constant tensor",
}
# Captured and compiled, and then no fit for this very model.
REFUSED_BY_BIND = {"98_module_used_twice": r"the model writes to two\."}
# Further calls whose shapes or numbers the graph of the first call does not admit: by submit an
# error that names the argument, by compile a further graph that may run eager.
OTHER_CALLS_REFUSED = {
    "39_python_int_argument": "it was 5 at capture and is fixed",
    "64_dict_in_other_order": "a dict with the keys .* in this order",
    "92_layout_differs_at_call": "has strides",
    "99_mode_changed_after_bind": r"changed between train\(\) and eval\(\)",
    "100_setting_changed_after_bind": "the model has other values in weights",
    "102_one_layer_trains": "the module 1 has another training=True, it was False",
    "103_function_replaced": "the model has another act=",
    "104_bias_given_later": "the module 0 has another bias",
    "108_eps_changed": "the module 0 has another eps=0.5, it was 1e-05",
}
# One of the calls, by submit: eager takes it, and the bound model says what it can't take.
SOME_CALLS_REFUSED = {
    "61_views_of_one_base_written": "shares memory with another tensor",
    "97_defaults_and_keywords": "was not given at capture",
}
PARTLY_EAGER = {
    "35_dynamic_multiple_of_16",
    "38_item_makes_size",
    "92_layout_differs_at_call",
    "95_dynamic_arithmetic",
}


def _calls(case: Case, first: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [first, *case.more_inputs()]


def _check(model: Any, reference: Any, run: Any, args: tuple[Any, ...]) -> None:
    """One call by both ways, arguments and buffers included; the same objects come back.

    Where eager raises, so must the other; both draw from the same seed.
    """
    mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
    with torch.no_grad():
        torch.manual_seed(0)
        try:
            expected = reference(*theirs)
        except (RuntimeError, IndexError):
            with pytest.raises(RuntimeError):
                run(*mine)
            return
        torch.manual_seed(0)
        given = run(*mine)
    state = (dict(model.named_buffers()), dict(reference.named_buffers()))
    assert differences((given, mine, state[0]), (expected, theirs, state[1])) == []
    for argument, original in zip(mine, theirs, strict=True):
        assert (given is argument) == (expected is original)


def _change(case: Case, *models: Any) -> None:
    """What the case does to its model between the first call and the next."""
    change = getattr(case.module, "change", None)
    for model in models if change else ():
        with torch.no_grad():
            change(model)


# Of the cases from 60 on, those whose answer was once silently wrong.
# One of each kind; all the others are slow, and there are eighty.
QUICK_SUBMIT = {
    "01_complex_broadcast_add",
    "05_overlapping_view_inplace",
    "08_weight_odd_strides",
    "12_index_add_on_transposed_input",
    "17_bf16_rotate_half",
    "22_cond_sliced_view",
    "25_scan_rnn",
    "26_named_tuple_output",
    "29_tied_embedding_two_names",
    "35_dynamic_multiple_of_16",
    "39_python_int_argument",
    "41_resnet_block_bn",
    "43_flex_attention_captured",
    "47_misaligned_input",
    "55_autocast_region",
    "60_same_tensor_twice",
    "62_tied_then_untied",
    "65_python_counter",
    "69_float_floor_division",
    "76_index_out_of_bounds",
    "99_mode_changed_after_bind",
    "105_buffer_given_another_tensor",
    "107_tensor_in_a_list",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK_SUBMIT else pytest.mark.slow)
        for name in sorted(CASES)
    ],
)
def test_submit(name: str, farm: Farm) -> None:
    case = CASES[name]
    model, args, dynamic_shapes = case.make()
    reference = copy.deepcopy(model)
    if name in REFUSED_BY_SUBMIT:
        with pytest.raises((CaptureError, CompileFailedError)) as caught:
            farm.submit(model, args, dynamic_shapes=dynamic_shapes).result(280)
        assert str(caught.value).startswith(REFUSED_BY_SUBMIT[name])
        return
    artifact = farm.submit(model, args, dynamic_shapes=dynamic_shapes).result(280)
    if name in REFUSED_BY_BIND:
        with pytest.raises(BindError, match=REFUSED_BY_BIND[name]):
            artifact.bind(model)
        return
    run = artifact.bind(model)
    refused = 0
    for number, call in enumerate(_calls(case, args)):
        if number == 1:
            _change(case, model, reference)
        if number and name in OTHER_CALLS_REFUSED:
            with pytest.raises((InputMismatchError, BindError), match=OTHER_CALLS_REFUSED[name]):
                run(*call)
            continue
        try:
            _check(model, reference, run, call)
        except InputMismatchError as error:
            if not re.search(SOME_CALLS_REFUSED.get(name, "$^"), str(error)):
                raise
            refused += 1
    assert bool(refused) == (name in SOME_CALLS_REFUSED)


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
    for number, call in enumerate(_calls(case, args)):
        if number == 1:
            _change(case, model, reference)
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
