"""Why two keys differ, in words, and which artifact is nearest."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import pytest

from compile_farm.difference import Difference, Side
from compile_farm.explain import differences, explanation
from compile_farm.summary import summarize
from compile_farm.v1 import artifact_pb2, graph_pb2, target_pb2
from tests.captures import (
    add_capture,
    capture_of,
    chain_capture,
    diamond_capture,
    dynamic_capture,
    options,
    target,
    tensor,
    user_input,
    value,
)

Change = Callable[[graph_pb2.Capture], None]


def side(
    capture: graph_pb2.Capture,
    built: target_pb2.Target | None = None,
    asked: target_pb2.Options | None = None,
) -> Side:
    return Side.of_capture(capture, built or target(), asked or options())


def manifest(
    capture: graph_pb2.Capture,
    built: target_pb2.Target | None = None,
    asked: target_pb2.Options | None = None,
    created: int = 1,
) -> artifact_pb2.Manifest:
    found = side(capture, built, asked)
    return artifact_pb2.Manifest(
        key=found.key,
        components=found.components,
        signature=found.signature,
        calling_convention=found.calling_convention,
        target=found.target,
        options=found.options,
        graph_summary=found.graph_summary,
        created=created,
    )


def between(here: graph_pb2.Capture, there: graph_pb2.Capture) -> list[Difference]:
    return differences(side(here), side(there))


def only(found: Sequence[Difference], component: str) -> Difference:
    """The single difference, which must be of this component."""
    assert [one.component for one in found] == [component], found
    return found[0]


def changed(change: Change, capture: graph_pb2.Capture | None = None) -> list[Difference]:
    """The plain capture here, a changed one there."""
    here = capture or add_capture()
    there = copy.deepcopy(here)
    change(there)
    return between(here, there)


def test_one_key_has_no_differences() -> None:
    assert between(add_capture(), add_capture()) == []
    found = explanation(side(add_capture()), side(add_capture()))
    assert "one and the same key" in str(found)


def test_hints_and_value_ranges_are_no_differences() -> None:
    def change(capture: graph_pb2.Capture) -> None:
        capture.signature.symbols[0].hint = 63
        capture.signature.inputs[0].value_range.maximum = 7

    assert changed(change, dynamic_capture()) == []


# Target


def cuda(name: str = "NVIDIA H200", arch: str = "sm_90") -> target_pb2.Target:
    toolchain = target().toolchain
    hardware = target_pb2.CudaHardware(arch=arch, device_name=name)
    return target_pb2.Target(cuda=hardware, toolchain=toolchain)


@pytest.mark.parametrize(
    ("here", "there", "field", "words", "matters"),
    [
        (target(), target(torch="2.13.0+cu130"), "toolchain.torch",
         "torch is 2.13.0+cpu here, 2.13.0+cu130 there: another build", True),
        (target(), target(torch="2.14.0"), "toolchain.torch", "another version", True),
        (target(), target(torch_git="abc"), "toolchain.torch_git", "two builds of one", True),
        (target(), target(triton="3.5"), "toolchain.triton",
         "Triton is none here, 3.5 there", True),
        (target(), target(cuda_runtime="13.0"), "toolchain.cuda_runtime", "CUDA runtime", True),
        (target(), target(platform="linux-aarch64"), "toolchain.platform", "platform", True),
        (target(), target(isa="x86-64-v4"), "cpu.isa", "may lack its instructions", True),
        (target(isa="x86-64-v4"), target(), "cpu.isa", "so it runs here too", False),
        (target(isa="x86-64-v4"), target(isa="riscv"), "cpu.isa", "may lack", True),
        (cuda(), target(), "hardware", "built for cuda here, cpu there", True),
        (cuda(), cuda("NVIDIA H100"), "cuda.device_name",
         "the GPU is NVIDIA H200 here, NVIDIA H100 there: tuned kernels are per card", True),
        (cuda(), cuda(arch="sm_100"), "cuda.arch", "sm_90 here, sm_100 there", True),
    ],
)  # fmt: skip
def test_targets(
    here: target_pb2.Target, there: target_pb2.Target, field: str, words: str, matters: bool
) -> None:
    found = only(differences(side(add_capture(), here), side(add_capture(), there)), "target")
    assert found.field == field
    assert words in found.words
    assert found.matters is matters


# Options


@pytest.mark.parametrize(
    ("here", "there", "words", "matters"),
    [
        (options(), options(effort=target_pb2.EFFORT_TUNED),
         "the effort is fast here, tuned there", False),
        (options(effort=target_pb2.EFFORT_TUNED), options(), "only defaults were tried", True),
        (options(), options(numerics=target_pb2.NUMERICS_FAST), "may round where", True),
        (options(numerics=target_pb2.NUMERICS_FAST), options(), "rounds as eager does", False),
    ],
)  # fmt: skip
def test_options(
    here: target_pb2.Options, there: target_pb2.Options, words: str, matters: bool
) -> None:
    pair = side(add_capture(), asked=here), side(add_capture(), asked=there)
    found = only(differences(*pair), "options")
    assert words in found.words
    assert found.matters is matters


def test_an_effort_from_a_newer_client_is_told_by_its_number() -> None:
    newer = options(effort=9)  # type: ignore[arg-type]
    found = differences(side(add_capture()), side(add_capture(), asked=newer))
    assert "fast here, 9 there" in only(found, "options").words


# Signature


def _dtype(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[1].tensor.dtype = "bfloat16"


def _device(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[1].tensor.device_type = "cuda"


def _stride(capture: graph_pb2.Capture) -> None:
    del capture.signature.inputs[1].tensor.strides[:]
    capture.signature.inputs[1].tensor.strides.extend(tensor(4, 4, strides=(1, 4)).strides)


def _one_stride(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[1].tensor.strides[0].constant = 64


def _size(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[1].tensor.CopyFrom(tensor(8, 4))


def _rank(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[1].tensor.CopyFrom(tensor(4))


def _mutated(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[1].mutated = True


def _role(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[1].role = graph_pb2.ROLE_BUFFER


def _renamed(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[1].name = "z"


def _scalar(capture: graph_pb2.Capture) -> None:
    capture.signature.inputs[1].scalar.constant = 3


def _more_outputs(capture: graph_pb2.Capture) -> None:
    capture.signature.outputs.add().none.SetInParent()


def _output_dtype(capture: graph_pb2.Capture) -> None:
    capture.signature.outputs[0].tensor.dtype = "float64"


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (_dtype, "inputs[1].tensor.dtype", "input 1 (y): float32 against bfloat16"),
        (_device, "inputs[1].tensor.device_type", "input 1 (y): on cpu against cuda"),
        (_stride, "inputs[1].tensor.strides",
         "input 1 (y): strides: (4, 1) against (1, 4): not contiguous there"),
        (_one_stride, "inputs[1].tensor.strides[0]",
         "input 1 (y): stride of dimension 0: 4 against 64: not contiguous there"),
        (_size, "inputs[1].tensor.sizes[0]", "input 1 (y): size of dimension 0: 4 against 8"),
        (_rank, "inputs[1].tensor.sizes", "dimensions: 2 against 1"),
        (_mutated, "inputs[1].mutated", "only read against written to"),
        (_role, "inputs[1].role", "its role is input against buffer"),
        (_scalar, "inputs[1]", "a tensor against a number"),
        (_more_outputs, "outputs", "the number of outputs: 1 against 2"),
        (_output_dtype, "outputs[0].tensor.dtype", "output 0: float32 against float64"),
    ],
)  # fmt: skip
def test_signatures(change: Change, field: str, words: str) -> None:
    found = only(changed(change), "signature")
    assert found.field == field
    assert words in found.words
    assert found.matters


def test_an_input_of_another_name_is_one_less_and_one_more() -> None:
    found = [one.words for one in changed(_renamed)]
    assert found == [
        "input 1 (y): taken here, not there",
        "input 1 (z): not taken here, taken there",
    ]


def test_inputs_in_another_order() -> None:
    def change(capture: graph_pb2.Capture) -> None:
        inputs = list(capture.signature.inputs)
        del capture.signature.inputs[:]
        capture.signature.inputs.extend(reversed(inputs))

    assert "the same names" in only(changed(change), "signature").words


def test_the_layout_of_images_is_called_by_its_name() -> None:
    def images(*strides: int) -> graph_pb2.Capture:
        spec = tensor(2, 3, 8, 8, strides=strides)
        node = graph_pb2.Node(op="aten::relu.default", args=[value(0)])
        return capture_of([user_input(spec, "x")], [node], [1], [tensor(2, 3, 8, 8)])

    found = between(images(192, 64, 8, 1), images(192, 1, 24, 3))
    assert "channels last there" in only(found, "signature").words


def test_the_stride_of_a_dimension_of_size_1_does_not_matter() -> None:
    def one_row(stride: int) -> graph_pb2.Capture:
        spec = tensor(1, 4, strides=(stride, 1))
        node = graph_pb2.Node(op="aten::relu.default", args=[value(0)])
        return capture_of([user_input(spec, "x")], [node], [1], [tensor(1, 4)])

    found = only(between(one_row(4), one_row(9)), "signature")
    assert not found.matters
    assert "clone()" in found.words


def _fixed(rows: int) -> graph_pb2.Capture:
    spec = tensor(rows, 4)
    node = graph_pb2.Node(op="aten::relu.default", args=[value(0)])
    return capture_of([user_input(spec, "x")], [node], [1], [spec])


@pytest.mark.parametrize(
    ("here", "there", "words", "matters"),
    [
        (_fixed(8), dynamic_capture(1, 64),
         "fixed to 8 here, may be 1 to 64 there: submit with dynamic_shapes", False),
        (_fixed(80), dynamic_capture(1, 64), "fixed to 80 here, may be 1 to 64 there", True),
        (_fixed(80), dynamic_capture(1, None), "may be 1 and more there", False),
        (dynamic_capture(1, 64), _fixed(8), "may be 1 to 64 here, fixed to 8 there", True),
        (dynamic_capture(2, 32), dynamic_capture(1, 64), "2 to 32 against 1 to 64", False),
        (dynamic_capture(1, 128), dynamic_capture(1, 64), "1 to 128 against 1 to 64", True),
        (dynamic_capture(1, None), dynamic_capture(1, 64), "1 and more against 1 to 64", True),
    ],
)  # fmt: skip
def test_ranges(
    here: graph_pb2.Capture, there: graph_pb2.Capture, words: str, matters: bool
) -> None:
    found = [one for one in between(here, there) if one.field.startswith("inputs")]
    assert len(found) == 1
    assert words in found[0].words
    assert found[0].matters is matters


def test_a_dimension_tied_to_another_is_told() -> None:
    def two(*names: str) -> graph_pb2.Capture:
        symbols = [graph_pb2.Symbol(minimum=1, maximum=9) for _ in range(2)]
        specs = [tensor(name, strides=(1,)) for name in names]
        inputs = [user_input(spec, name) for spec, name in zip(specs, "xy", strict=True)]
        node = graph_pb2.Node(op="aten::relu.default", args=[value(0)])
        return capture_of(inputs, [node], [2], [specs[0]], symbols)

    found = only(between(two("s0", "s1"), two("s0", "s0")), "signature")
    assert "s1 against s0: it is tied to another dimension" in found.words


def test_numbers_of_symbols_do_not_count() -> None:
    """What differs is the dtype, and nothing is said of sizes that merely have other numbers."""
    here, there = dynamic_capture(), dynamic_capture()
    there.signature.symbols.insert(0, graph_pb2.Symbol(minimum=3))
    for spec in (there.signature.inputs[0].tensor, there.signature.outputs[0].tensor):
        spec.sizes[0].symbol = 1
    there.signature.inputs[0].tensor.dtype = "float64"
    assert [one.field for one in between(here, there)] == ["inputs[0].tensor.dtype"]


def _many_weights(dtype: str, sizes: Callable[[int], int] = lambda _: 4) -> graph_pb2.Capture:
    weights = [
        graph_pb2.Input(
            name=f"layer.{number}", role=graph_pb2.ROLE_PARAMETER, tensor=tensor(sizes(number))
        )
        for number in range(20)
    ]
    for weight in weights:
        weight.tensor.dtype = dtype
    node = graph_pb2.Node(op="aten::relu.default", args=[value(0)])
    return capture_of(weights, [node], [20], [tensor(4)])


def test_what_all_weights_have_in_common_is_one_line() -> None:
    found = only(between(_many_weights("bfloat16"), _many_weights("float32")), "signature")
    assert found.words == "20 weights (layer.0, ...): bfloat16 against float32"


def test_of_many_different_ones_the_first_few_are_listed() -> None:
    there = _many_weights("float32", lambda number: 5 + number)
    found = between(_many_weights("float32"), there)
    assert len(found) == 4
    assert found[0].words == "weight layer.0: size of dimension 0: 4 against 5"
    assert "17 more weights differ in size of dimension 0" in found[-1].words


def test_constants_that_travel() -> None:
    def constant(data: bytes) -> graph_pb2.Capture:
        capture = _fixed(4)
        entry = graph_pb2.Input(name="c", role=graph_pb2.ROLE_CONSTANT, tensor=tensor(1), data=data)
        capture.signature.inputs.append(entry)
        return capture

    found = only(between(constant(bytes(4)), constant(b"abcd")), "signature")
    assert found.words.startswith("constant c: 4 bytes against 4 bytes: other values")


# Calling convention


def _convention(scale: float, *results: str, training: bool = False) -> graph_pb2.Capture:
    capture = _fixed(4)
    convention = capture.calling_convention
    convention.parameters.extend(["x", "scale"])
    arguments = convention.args.container
    arguments.kind = graph_pb2.CONTAINER_KIND_TUPLE
    arguments.children.add().leaf.input = 0
    arguments.children.add().leaf.literal.real = scale
    result = convention.result.container
    result.kind = graph_pb2.CONTAINER_KIND_DICT
    for name in results:
        result.keys.add(text=name)
        result.children.add().leaf.output = 0
    return capture


def test_fixed_arguments_and_names_of_results() -> None:
    found = between(_convention(2.0, "y"), _convention(3.0, "y"))
    words = "argument scale is fixed to 2.0 here, to 3.0 there"
    assert only(found, "calling_convention").words == words
    found = between(_convention(2.0, "y"), _convention(2.0, "z"))
    assert only(found, "calling_convention").words == "the result: 'y' here, 'z' there"


def test_parameters_and_containers() -> None:
    def change(capture: graph_pb2.Capture) -> None:
        capture.calling_convention.parameters[1] = "factor"
        capture.calling_convention.result.container.kind = graph_pb2.CONTAINER_KIND_RECORD
        capture.calling_convention.result.container.type_name = "mine:Output"

    found = [one.words for one in changed(change, _convention(2.0, "y"))]
    assert found[0] == "forward takes (x, scale) here, (x, factor) there"
    assert found[1] == "the result: a dict of 1 here, a record mine:Output of 1 there"


def test_leaves_of_another_kind() -> None:
    def change(capture: graph_pb2.Capture) -> None:
        alias = capture.calling_convention.result.container.children[0].leaf.alias
        alias.input, alias.identity = 0, True

    found = only(changed(change, _convention(2.0, "y")), "calling_convention")
    assert found.words == "the result['y']: output 0 here, input 0 itself there"


def test_the_two_ways_to_capture_are_told_apart() -> None:
    found = only(between(_convention(2.0, "y"), _fixed(4)), "calling_convention")
    assert "captured by submit here, by torch.compile there" in found.words


# Graph


def test_operators() -> None:
    def change(capture: graph_pb2.Capture) -> None:
        capture.graph.nodes[0].op = "aten::exp.default"

    found = only(changed(change, diamond_capture()), "graph")
    assert found.words == "aten.sin once here, aten.exp once there"
    found = only(between(chain_capture(12), chain_capture(2)), "graph")
    assert found.words == "aten.sin 12 times here, twice there"


def test_the_most_different_operators_come_first_and_few_are_listed() -> None:
    def chain(counts: Sequence[int]) -> graph_pb2.Capture:
        ops = [f"aten::op{number}.default" for number, count in enumerate(counts)
               for _ in range(count)]  # fmt: skip
        nodes = [graph_pb2.Node(op=op, args=[value(i)]) for i, op in enumerate(ops)]
        return capture_of([user_input(tensor(4))], nodes, [len(ops)], [tensor(4)])

    found = between(chain([1] * 9), chain(range(2, 11)))
    assert found[0].words == "aten.op8 once here, 10 times there"
    assert len(found) == 7
    assert found[-1].words == "3 more operators differ; 9 calls in all here, 54 calls there"


def test_the_same_operators_otherwise() -> None:
    def change(capture: graph_pb2.Capture) -> None:
        capture.graph.nodes[2].args[0].value = 2

    found = only(changed(change, diamond_capture()), "graph")
    assert "the same operators, with other arguments or in another order" in found.words

    def resize(capture: graph_pb2.Capture) -> None:
        change(capture)
        capture.signature.inputs[0].tensor.CopyFrom(tensor(5, 4))

    assert "may follow from the signature" in changed(resize, diamond_capture())[-1].words


def test_effects_and_subgraphs() -> None:
    def change(capture: graph_pb2.Capture) -> None:
        capture.graph.nodes[0].effect = graph_pb2.EFFECT_RANDOM

    found = only(changed(change, diamond_capture()), "graph")
    assert found.words == "0 writes, draws and assertions here, 1 there"


def test_libraries() -> None:
    def of(version: str) -> graph_pb2.Capture:
        capture = add_capture()
        capture.libraries.add(namespace="mine", module="mine.ops", version=version)
        return capture

    words = [one.words for one in between(of("1"), of("2"))]
    assert words == ["mine:: comes from mine.ops 1 here, mine.ops 2 there"]


def test_a_manifest_without_a_summary() -> None:
    here, there = manifest(add_capture()), manifest(diamond_capture())
    there.ClearField("graph_summary")
    there.signature.CopyFrom(here.signature)
    there.components.signature = here.components.signature
    found = differences(Side.of_manifest(here), Side.of_manifest(there))
    assert "one side has no summary" in only(found, "graph").words


def test_summaries_count_subgraphs() -> None:
    capture = diamond_capture()
    capture.graph.subgraphs.append(chain_capture(3).graph)
    capture.graph.subgraphs[0].nodes[0].effect = graph_pb2.EFFECT_MUTATES
    summary = summarize(capture.graph)
    assert (summary.nodes, summary.effects, summary.subgraphs) == (6, 1, 1)
    assert summary.operators["aten::sin.default"] == 4


def test_a_summary_does_not_enter_the_key() -> None:
    one, other = manifest(add_capture()), manifest(add_capture())
    other.graph_summary.nodes = 99
    assert differences(Side.of_manifest(one), Side.of_manifest(other)) == []
