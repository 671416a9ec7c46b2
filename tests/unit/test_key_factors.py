"""On generated captures: each factor of the capture, the target and the options moves the key.

test_key_graphs.py has what does not; test_key_models.py has real models and other processes.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from compile_farm.key import compute_key, key_components
from compile_farm.schema import check_capture
from compile_farm.v1 import graph_pb2, target_pb2
from tests.captures import add_capture, expr, options, target, tensor, value
from tests.generated import (
    captures,
    insert_input,
    insert_node,
    literals,
    normal_form,
    used_nodes,
)

Capture = graph_pb2.Capture
# Makes two equal captures differ in one thing, after adding that thing to both.
Factor = Callable[[Capture, Capture, st.DataObject], None]

_few = settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def _key(capture: Capture) -> str:
    check_capture(capture)
    return compute_key(capture, target(), options())


def _used(capture: Capture, data: st.DataObject) -> int:
    return data.draw(st.sampled_from(used_nodes(capture.graph)))


def _operator(one: Capture, other: Capture, data: st.DataObject) -> None:
    other.graph.nodes[_used(one, data)].op = "aten::tanh.default"


def _argument(one: Capture, other: Capture, data: st.DataObject) -> None:
    pair = data.draw(st.tuples(literals(()), literals(())))
    index = _used(one, data)
    for capture, literal in zip((one, other), pair, strict=True):
        capture.graph.nodes[index].args.append(literal)
    assume(normal_form(one) != normal_form(other))


def _keyword_argument(one: Capture, other: Capture, data: st.DataObject) -> None:
    index = _used(one, data)
    one.graph.nodes[index].kwargs.add(name="beta").value.integer = 1
    change = data.draw(st.sampled_from([("gamma", 1), ("beta", 2)]))
    other.graph.nodes[index].kwargs.add(name=change[0]).value.integer = change[1]


def _taken_value(one: Capture, other: Capture, data: st.DataObject) -> None:
    graph = other.graph
    argument = graph.nodes[_used(one, data)].args[0]
    argument.value = data.draw(st.integers(0, argument.value))
    assume(normal_form(one) != normal_form(other))


def _dtype(one: Capture, other: Capture, data: st.DataObject) -> None:
    one.signature.inputs[0].tensor.dtype = "float16"


def _dtype_of_a_result(one: Capture, other: Capture, data: st.DataObject) -> None:
    one.signature.outputs[0].tensor.dtype = "float16"


def _device_type(one: Capture, other: Capture, data: st.DataObject) -> None:
    one.signature.inputs[0].tensor.device_type = "cuda"


def _shape(one: Capture, other: Capture, data: st.DataObject) -> None:
    for capture, size in ((one, 2), (other, 3)):
        capture.signature.inputs[0].tensor.sizes.add(constant=size)
        capture.signature.inputs[0].tensor.strides.add(constant=1)


def _stride(one: Capture, other: Capture, data: st.DataObject) -> None:
    for capture, stride in ((one, 1), (other, 3)):
        capture.signature.inputs[0].tensor.sizes.add(constant=2)
        capture.signature.inputs[0].tensor.strides.add(constant=stride)


def _rank(one: Capture, other: Capture, data: st.DataObject) -> None:
    other.signature.inputs[0].tensor.sizes.add(constant=1)
    other.signature.inputs[0].tensor.strides.add(constant=1)


_RANGES = {
    "minimum": (graph_pb2.Symbol(minimum=2), graph_pb2.Symbol(minimum=3)),
    "maximum": (graph_pb2.Symbol(maximum=9), graph_pb2.Symbol(maximum=10)),
    "unbounded": (graph_pb2.Symbol(), graph_pb2.Symbol(maximum=9)),
    "unbacked": (graph_pb2.Symbol(), graph_pb2.Symbol(unbacked=True)),
}


def _two_ranges(one: Capture, other: Capture, which: str) -> int:
    for capture, symbol in zip((one, other), _RANGES[which], strict=True):
        capture.signature.symbols.append(symbol)
    return len(one.signature.symbols) - 1


def _range_of_a_symbol(one: Capture, other: Capture, data: st.DataObject, which: str) -> None:
    number = _two_ranges(one, other, which)
    for capture in (one, other):
        capture.signature.inputs[0].tensor.sizes.add(symbol=number)
        capture.signature.inputs[0].tensor.strides.add(constant=1)


def _range_of_a_symbol_of_no_input(
    one: Capture, other: Capture, data: st.DataObject, which: str
) -> None:
    number = _two_ranges(one, other, which)
    size = graph_pb2.Argument(expression=expr(f"s{number}"))
    for capture in (one, other):
        # A call that nobody uses has it first: the range must be told where it counts.
        insert_node(capture.graph, 0, graph_pb2.Node(op="aten::full.default", args=[size]))
        capture.graph.nodes[used_nodes(capture.graph)[0]].args.append(size)


def _written_input(one: Capture, other: Capture, data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from(list(other.signature.inputs)))
    entry.mutated = not entry.mutated


def _role_and_name(one: Capture, other: Capture, data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        other.signature.inputs[0].name += "d"
    else:
        other.signature.inputs[0].role = graph_pb2.ROLE_BUFFER


def _bytes_of_a_constant(one: Capture, other: Capture, data: st.DataObject) -> None:
    pair = data.draw(
        st.lists(st.binary(min_size=4, max_size=4), min_size=2, max_size=2, unique=True)
    )
    for capture, held in zip((one, other), pair, strict=True):
        entry = graph_pb2.Input(role=graph_pb2.ROLE_CONSTANT, tensor=tensor(1), data=held)
        insert_input(capture, entry)


def _effect(one: Capture, other: Capture, data: st.DataObject, which: str) -> None:
    for capture, effect in zip((one, other), which, strict=True):
        node = capture.graph.nodes.add(op="aten::tanh.default", args=[value(0)])
        node.effect = int(effect)  # type: ignore[assignment]
        capture.graph.outputs[0].value = capture.graph.input_count + len(capture.graph.nodes) - 1


def _order_of_draws(one: Capture, other: Capture, data: st.DataObject) -> None:
    ops = ["aten::rand_like.default", "aten::randn_like.default"]
    for capture, order in ((one, ops), (other, ops[::-1])):
        for op in order:
            capture.graph.nodes.add(op=op, args=[value(0)], effect=graph_pb2.EFFECT_RANDOM)


def _read_and_write(one: Capture, other: Capture, data: st.DataObject) -> None:
    """The same calls, the read before the write and after it."""
    count = one.graph.input_count + len(one.graph.nodes)
    read = graph_pb2.Node(op="aten::tanh.default", args=[value(0)])
    write = graph_pb2.Node(op="aten::neg_.default", args=[value(0)], effect=1)  # type: ignore[arg-type]
    for capture, calls, last in ((one, [read, write], count), (other, [write, read], count + 1)):
        capture.graph.nodes.extend(calls)
        capture.graph.outputs[0].value = last


def _which_of_two_equal_values_is_written(
    one: Capture, other: Capture, data: st.DataObject
) -> None:
    """a, b = zeros(), zeros(): to write to one of them leaves the other alone."""
    first = one.graph.input_count + len(one.graph.nodes)
    for capture, written in ((one, first), (other, first + 1)):
        for _ in range(2):
            capture.graph.nodes.add(op="aten::zeros.default")
        capture.graph.nodes.add(op="aten::fill_.Scalar", args=[value(written)], effect=1)  # type: ignore[arg-type]
        capture.graph.nodes.add(
            op="aten::stack.default",
            args=[value(first), value(first + 1)],
            effect=3,  # type: ignore[arg-type]
        )


def _one_value_or_two_equal_ones(one: Capture, other: Capture, data: st.DataObject) -> None:
    first = one.graph.input_count + len(one.graph.nodes)
    for capture, second in ((one, first), (other, first + 1)):
        for _ in range(2):
            capture.graph.nodes.add(op="aten::zeros.default")
        pair = [value(first), value(second)]
        capture.graph.nodes.add(op="aten::fill_.Tensor", args=pair, effect=1)  # type: ignore[arg-type]


def _order_of_results(one: Capture, other: Capture, data: st.DataObject) -> None:
    first = one.graph.input_count + len(one.graph.nodes)
    for capture, numbers in ((one, (0, first)), (other, (first, 0))):
        capture.graph.nodes.add(op="aten::tanh.default", args=[value(0)])
        for number in numbers:
            capture.graph.outputs.append(value(number))
            capture.signature.outputs.add(tensor=tensor())


def _add_body(capture: Capture, op: str, args: list[graph_pb2.Argument]) -> graph_pb2.Graph:
    body = capture.graph.subgraphs.add(schema_version=1, input_count=1, outputs=[value(1)])
    body.nodes.add(op="aten::sin.default", args=[value(0)])
    args = [*args, graph_pb2.Argument(subgraph=len(capture.graph.subgraphs) - 1), value(0)]
    capture.graph.nodes.add(op=f"higher_order::{op}", args=args, effect=1)  # type: ignore[arg-type]
    return body


def _body_of_a_branch(one: Capture, other: Capture, data: st.DataObject, which: str) -> None:
    bodies = [_add_body(capture, "cond", []) for capture in (one, other)]
    match which:
        case "op":
            bodies[1].nodes[0].op = "aten::cos.default"
        case "single":
            bodies[1].single_output = True
        case "inputs":
            bodies[1].input_count, bodies[1].outputs[0].value = 2, 2
        case _:
            bodies[1].outputs[0].value = 0


def _autocast(one: Capture, other: Capture, data: st.DataObject) -> None:
    kinds = [("bfloat16", True), ("float16", True), ("bfloat16", False)]
    pair = data.draw(st.permutations(kinds))
    for capture, (dtype, enabled) in zip((one, other), pair, strict=False):
        args = [
            graph_pb2.Argument(text="cpu"),
            graph_pb2.Argument(dtype=dtype),
            graph_pb2.Argument(boolean=enabled),
        ]
        _add_body(capture, "wrap_with_autocast", args)


def _library(one: Capture, other: Capture, data: st.DataObject, which: str) -> None:
    for capture in (one, other):
        capture.libraries.add(namespace="yourlib", module="your.ops", version="1.0")
    setattr(other.libraries[-1], which, "2" if which == "version" else "other")


def _modules_state(one: Capture, other: Capture, data: st.DataObject, which: str) -> None:
    for capture in (one, other):
        state = capture.calling_convention.modules.add(path="last", type_name="Dropout")
        state.settings.add(name="p").value.real = 0.5
    state = other.calling_convention.modules[-1]
    match which:
        case "training":
            state.training = True
        case "type":
            state.type_name = "AlphaDropout"
        case "path":
            state.path = "first"
        case "setting":
            state.settings[0].name = "q"
        case _:
            state.settings[0].value.real = 0.25


def _tensor_subclass(one: Capture, other: Capture, data: st.DataObject, which: str) -> None:
    for capture in (one, other):
        held = capture.calling_convention.subclasses.add(path="weight", type_name="here:Packed")
        held.settings.add(name="bits").value.integer = 4
    held = other.calling_convention.subclasses[-1]
    match which:
        case "type":
            held.type_name = "here:Padded"
        case "path":
            held.path = "weights"
        case "setting":
            held.settings[0].name = "bytes"
        case "value":
            held.settings[0].value.integer = 8
        case _:
            # What a module says is no subclass, and the other way round.
            state = other.calling_convention.modules.add(path="weight", type_name="here:Packed")
            state.settings.extend(held.settings)
            del other.calling_convention.subclasses[-1]


def _calling_convention(one: Capture, other: Capture, data: st.DataObject, which: str) -> None:
    for capture in (one, other):
        convention = capture.calling_convention
        convention.parameters.append("last")
        container = convention.result.container
        container.kind = graph_pb2.CONTAINER_KIND_DICT
        del container.children[:]
        container.keys.add(text="logits")
        container.children.add().leaf.output = 0
        container.keys.add(text="flag")
        container.children.add().leaf.literal.integer = 1
    convention = other.calling_convention
    container = convention.result.container
    match which:
        case "parameter":
            convention.parameters[-1] = "least"
        case "key":
            container.keys[0].text = "scores"
        case "order":
            container.keys[0].text, container.keys[1].text = "flag", "logits"
            container.children[0].leaf.literal.integer = 1
            container.children[1].leaf.output = 0
        case "class":
            container.type_name = "collections:OrderedDict"
        case "literal":
            container.children[1].leaf.literal.real = 1.0
        case _:
            container.children[0].leaf.alias.input = 0
            container.children[0].leaf.alias.identity = True


_FACTORS: list[Factor] = [
    _operator, _argument, _keyword_argument, _taken_value, _dtype, _dtype_of_a_result,
    _device_type, _shape, _stride, _rank, _written_input, _role_and_name, _bytes_of_a_constant,
    _order_of_draws, _read_and_write, _which_of_two_equal_values_is_written,
    _one_value_or_two_equal_ones, _order_of_results, _autocast,
]  # fmt: skip
_VARIANTS: dict[Callable[..., None], Sequence[str]] = {
    _effect: ("01", "02", "03", "12", "13", "23"),
    _range_of_a_symbol: tuple(_RANGES),
    _range_of_a_symbol_of_no_input: tuple(_RANGES),
    _body_of_a_branch: ("op", "single", "inputs", "output"),
    _library: ("version", "module", "namespace"),
    _modules_state: ("training", "type", "path", "setting", "value"),
    _tensor_subclass: ("type", "path", "setting", "value", "module"),
    _calling_convention: ("parameter", "key", "order", "class", "literal", "alias"),
}
_CASES = [pytest.param(one, id=one.__name__) for one in _FACTORS] + [
    pytest.param(functools.partial(one, which=which), id=f"{one.__name__}-{which}")
    for one, variants in _VARIANTS.items()
    for which in variants
]


@pytest.mark.parametrize("factor", _CASES)
@_few
@given(one=captures(), data=st.data())
def test_a_factor_of_the_capture_moves_the_key(
    factor: Factor, one: Capture, data: st.DataObject
) -> None:
    other = copy.deepcopy(one)
    factor(one, other, data)
    assert _key(one) != _key(other)


def test_arguments_that_look_alike_differ() -> None:
    argument = graph_pb2.Argument
    one = argument(integer=1)
    kinds = [
        argument(none=graph_pb2.Nothing()), argument(text="none"), argument(text=""),
        one, argument(real=1.0), argument(boolean=True), argument(text="1"),
        argument(complex=graph_pb2.Complex(real=1.0)), argument(expression=expr(1)),
        argument(list=graph_pb2.ArgumentList(items=[one])),
        argument(tuple=graph_pb2.ArgumentList(items=[one])),
        argument(list=graph_pb2.ArgumentList()), argument(tuple=graph_pb2.ArgumentList()),
        argument(dictionary=graph_pb2.ArgumentDictionary()),
        argument(integer=0), argument(real=0.0), argument(real=-0.0), argument(boolean=False),
        argument(real=math.nan), argument(text="nan"), argument(value=0),
        argument(text="float32"), argument(dtype="float32"),
        argument(text="cpu"), argument(device_type="cpu"),
        argument(text="strided"), argument(layout="strided"),
        argument(text="channels_last"), argument(memory_format="channels_last"),
        argument(text="aten::sin.default"), argument(operator="aten::sin.default"),
    ]  # fmt: skip
    keys = set()
    for kind in kinds:
        capture = add_capture()
        capture.graph.nodes[0].args.append(kind)
        keys.add(_key(capture))
    assert len(keys) == len(kinds)


_TOOLCHAIN = ("torch", "torch_git", "triton", "cuda_runtime", "platform")


@st.composite
def _targets(draw: st.DrawFn) -> target_pb2.Target:
    words = st.text("2.+cu13", max_size=4)
    toolchain = target_pb2.Toolchain(**{name: draw(words) for name in _TOOLCHAIN})
    if draw(st.booleans()):
        return target_pb2.Target(cpu=target_pb2.CpuHardware(isa=draw(words)), toolchain=toolchain)
    cuda = target_pb2.CudaHardware(arch=draw(words), device_name=draw(words))
    return target_pb2.Target(cuda=cuda, toolchain=toolchain)


_EFFORTS = (target_pb2.EFFORT_FAST, target_pb2.EFFORT_TUNED)
_NUMERICS = (target_pb2.NUMERICS_STRICT, target_pb2.NUMERICS_FAST)
_OPTIONS = st.builds(
    target_pb2.Options, effort=st.sampled_from(_EFFORTS), numerics=st.sampled_from(_NUMERICS)
)


@settings(max_examples=30, deadline=None)
@given(one=_targets(), other=_targets(), asked=_OPTIONS)
def test_every_field_of_the_target_moves_the_key(
    one: target_pb2.Target, other: target_pb2.Target, asked: target_pb2.Options
) -> None:
    """Another target altogether, and the same one but for a single field."""

    def key(each: target_pb2.Target) -> str:
        return compute_key(_SMALL, each, asked)

    assert (key(one) == key(other)) == (one == other)
    kind = one.WhichOneof("hardware") or ""
    hardware = {"cpu": ["isa"], "cuda": ["arch", "device_name"]}[kind]
    for name in (*_TOOLCHAIN, *hardware):
        changed = copy.deepcopy(one)
        held: Any = getattr(changed, kind)
        if name in _TOOLCHAIN:
            held = changed.toolchain
        setattr(held, name, getattr(held, name) + "x")
        assert key(changed) != key(one)


def test_every_option_moves_the_key() -> None:
    every = [options(effort=e, numerics=n) for e in _EFFORTS for n in _NUMERICS]
    assert len({compute_key(_SMALL, target(), one) for one in every}) == 4


_SMALL = graph_pb2.Capture(graph=graph_pb2.Graph(schema_version=1))


def test_the_schema_has_no_field_that_these_tests_do_not_know() -> None:
    """A new field must enter the key, or be listed in docs/keys.md as one that doesn't."""
    known = {
        "Capture": "graph signature calling_convention libraries",
        "Graph": "schema_version input_count nodes outputs single_output subgraphs",
        "Node": "op args kwargs effect",
        "NamedArgument": "name value",
        "Argument": "none boolean integer real complex text value dtype device_type layout "
        "memory_format list tuple dictionary subgraph operator expression",
        "Expr": "constant symbol operation",
        "Operation": "operator operands",
        "Symbol": "minimum maximum hint unbacked",
        "Signature": "symbols inputs outputs",
        "Input": "name role tensor scalar mutated data value_range",
        "Output": "tensor scalar none",
        "TensorSpec": "dtype device_type sizes strides",
        "CallingConvention": "parameters args kwargs result modules subclasses",
        "Subclass": "path type_name settings",
        "Tree": "leaf container",
        "Leaf": "input output literal alias",
        "Literal": "none boolean integer real text",
        "Alias": "input sizes strides storage_offset identity dtype",
        "Container": "kind type_name keys children",
        "ModuleState": "path type_name training settings",
        "Setting": "name value",
        "Library": "namespace module version",
    }
    here = {
        name: " ".join(
            field.name for field in graph_pb2.DESCRIPTOR.message_types_by_name[name].fields
        )
        for name in known
    }
    assert here == known
    fields = [field.name for field in target_pb2.Toolchain.DESCRIPTOR.fields]
    assert fields == list(_TOOLCHAIN)
    assert [field.name for field in target_pb2.Options.DESCRIPTOR.fields] == ["effort", "numerics"]


@_few
@given(capture=captures())
def test_a_component_hangs_on_its_own_part_alone(capture: Capture) -> None:
    one = key_components(capture, target(), options())
    other = copy.deepcopy(capture)
    other.calling_convention.parameters.append("last")
    two = key_components(other, target(torch="other"), options())
    assert (one.graph, one.signature, one.options) == (two.graph, two.signature, two.options)
    assert one.target != two.target
    assert one.calling_convention != two.calling_convention
