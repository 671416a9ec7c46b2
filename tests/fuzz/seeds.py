"""Valid captures and artifacts that mutations start from: each kind of part is in one of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from google.protobuf import text_format

from compile_farm.artifact import digest_of, pack
from compile_farm.v1 import artifact_pb2, compiler_pb2, graph_pb2
from tests import captures
from tests.gateways import request
from tests.loadable import sign


@dataclass
class Record:
    """What the rich capture returns, among others."""

    one: Any = None


# Sizes of all operators, scalars, constants, subgraphs, every kind of argument and of container.
_RICH = """
graph {
  schema_version: 1 input_count: 5
  nodes { op: "aten::sin.default" args { value: 0 } }
  nodes { op: "aten::sum.dim_IntList" args { value: 5 }
          args { list { items { integer: 1 } items { integer: -1 } } } args { boolean: true } }
  nodes { op: "aten::empty.memory_format" args { list { items { value: 3 } items { integer: 4 } } }
          kwargs { name: "dtype" value { dtype: "float32" } }
          kwargs { name: "layout" value { layout: "strided" } }
          kwargs { name: "device" value { device_type: "cpu" } }
          kwargs { name: "pin_memory" value { boolean: false } }
          kwargs { name: "memory_format" value { memory_format: "contiguous_format" } } }
  nodes { op: "aten::rand.default" args { list { items { integer: 4 } } } effect: EFFECT_RANDOM }
  nodes { op: "aten::add_.Tensor" args { value: 1 } args { value: 2 } effect: EFFECT_MUTATES
          kwargs { name: "alpha" value { real: 0.5 } } }
  nodes { op: "aten::gt.Scalar" args { value: 5 } args { real: 0.0 } }
  nodes { op: "higher_order::cond" args { value: 10 } args { subgraph: 0 } args { subgraph: 1 }
          args { tuple { items { value: 5 } items { value: 2 } } } effect: EFFECT_MUTATES }
  nodes { op: "python::getitem" args { value: 11 } args { integer: 0 } }
  nodes { op: "python::mul" args { value: 3 } args { value: 4 } }
  nodes { op: "aten::_assert_scalar.default" args { value: 13 } args { text: "no" }
          effect: EFFECT_ASSERTS }
  nodes { op: "higher_order::auto_functionalized" args { operator: "aten::add_.Tensor" }
          kwargs { name: "self" value { value: 5 } }
          kwargs { name: "other" value { dictionary {
            items { name: "a" value { value: 5 } } items { name: "b" value { none {} } } } } }
          kwargs { name: "more" value { complex { real: 1 imaginary: -2 } } } }
  nodes { op: "aten::view.default" args { value: 0 }
          args { list { items { expression { constant: 2 } } items { integer: -1 } } } }
  outputs { value: 12 } outputs { value: 13 } outputs { none {} } outputs { value: 7 }
  subgraphs { schema_version: 1 input_count: 2
    nodes { op: "aten::add.Tensor" args { value: 0 } args { value: 1 } }
    nodes { op: "higher_order::invoke_subgraph" args { subgraph: 0 } args { text: "inner" }
            args { value: 2 } effect: EFFECT_MUTATES }
    outputs { value: 2 }
    subgraphs { schema_version: 1 input_count: 1
      nodes { op: "aten::cos.default" args { value: 0 } } outputs { value: 1 } single_output: true }
  }
  subgraphs { schema_version: 1 input_count: 2
    nodes { op: "aten::mul.Tensor" args { value: 0 } args { value: 1 } } outputs { value: 2 } }
}
signature {
  symbols { minimum: 1 maximum: 64 hint: 8 }
  symbols { minimum: 0 hint: 5 }
  symbols { minimum: 0 maximum: 100 hint: 2 unbacked: true }
  inputs { name: "x" role: ROLE_USER_INPUT value_range { minimum: 0 maximum: 9 }
    tensor { dtype: "float32" device_type: "cpu" sizes { symbol: 0 } sizes { operation {
      operator: OPERATOR_ADD operands { operation { operator: OPERATOR_FLOOR_DIVIDE
        operands { symbol: 1 } operands { constant: 2 } } } operands { constant: 1 } } }
      strides { operation { operator: OPERATOR_ADD operands { operation {
        operator: OPERATOR_FLOOR_DIVIDE operands { symbol: 1 } operands { constant: 2 } } }
        operands { constant: 1 } } } strides { constant: 1 } } }
  inputs { name: "model.weight" role: ROLE_BUFFER mutated: true
    tensor { dtype: "bfloat16" device_type: "cpu" sizes { constant: 4 } strides { constant: 1 } } }
  inputs { name: "table" role: ROLE_CONSTANT data: "\\001\\002\\003\\004\\005\\006\\007\\010"
    tensor { dtype: "int16" device_type: "cpu" sizes { constant: 2 } sizes { constant: 2 }
             strides { constant: 2 } strides { constant: 1 } } }
  inputs { name: "n" role: ROLE_USER_INPUT scalar { symbol: 1 } }
  inputs { name: "m" role: ROLE_USER_INPUT scalar { operation { operator: OPERATOR_MAXIMUM
    operands { operation { operator: OPERATOR_POWER operands { symbol: 0 }
      operands { constant: 2 } } }
    operands { operation { operator: OPERATOR_MINIMUM operands { symbol: 1 }
      operands { constant: 9 }
      operands { operation { operator: OPERATOR_MODULO operands { symbol: 0 }
                             operands { constant: 3 } } } } } } } }
  outputs { tensor { dtype: "float32" device_type: "cpu"
    sizes { operation { operator: OPERATOR_MULTIPLY operands { symbol: 0 }
      operands { constant: 4 } } }
    strides { constant: 1 } } }
  outputs { scalar { operation { operator: OPERATOR_MULTIPLY operands { symbol: 1 }
                                 operands { symbol: 0 } } } }
  outputs { none {} }
  outputs { tensor { dtype: "float32" device_type: "cpu" sizes { constant: 0 } sizes { symbol: 0 }
                     strides { symbol: 0 } strides { constant: 1 } } }
}
calling_convention {
  parameters: "x" parameters: "n" parameters: "m"
  args { container { kind: CONTAINER_KIND_TUPLE
    children { leaf { input: 0 } }
    children { container { kind: CONTAINER_KIND_LIST children { leaf { input: 3 } } } }
    children { container { kind: CONTAINER_KIND_NAMED_TUPLE type_name: "tests.loadable:Pair"
      children { leaf { literal { real: 2.5 } } } children { leaf { literal { none {} } } } } } } }
  kwargs { container { kind: CONTAINER_KIND_DICT keys { text: "m" } children { container {
    kind: CONTAINER_KIND_DICT type_name: "collections:OrderedDict"
    keys { integer: 1 } keys { boolean: false } keys { text: "z" } keys { real: 0.5 }
    children { leaf { input: 4 } } children { leaf { literal { boolean: true } } }
    children { leaf { literal { text: "mode" } } }
    children { leaf { literal { integer: 7 } } } } } } }
  result { container { kind: CONTAINER_KIND_TUPLE
    children { leaf { output: 0 } } children { leaf { output: 1 } }
    children { leaf { alias { input: 0 identity: true } } }
    children { leaf { alias { input: 0 sizes { symbol: 0 } strides { constant: 2 }
                              storage_offset { constant: 1 } dtype: "int32" } } }
    children { container { kind: CONTAINER_KIND_RETURN_TYPE type_name: "torch.return_types:max"
      children { leaf { output: 0 } } children { leaf { output: 3 } } } }
    children { container { kind: CONTAINER_KIND_RECORD type_name: "tests.fuzz.seeds:Record"
      keys { text: "one" } children { leaf { literal { none {} } } } } } } }
  modules { type_name: "Model" training: true settings { name: "eps" value { real: 1e-5 } } }
  modules { path: "weight" type_name: "Linear" settings { name: "bias" value { boolean: true } }
            settings { name: "n" value { integer: 3 } } settings { name: "p" value { none {} } } }
}
"""


@functools.cache
def rich_capture() -> graph_pb2.Capture:
    """One with every part of the schema; it decodes, though nothing could run it."""
    return text_format.Parse(_RICH, graph_pb2.Capture())


@functools.cache
def all_captures() -> tuple[graph_pb2.Capture, ...]:
    """The rich one more often, since it has most to alter."""
    rich = rich_capture()
    return (
        captures.add_capture(), captures.diamond_capture(), captures.dynamic_capture(),
        captures.dynamic_capture(0, None), captures.chain_capture(12), rich, rich, rich, rich,
    )  # fmt: skip


FILES = {"model.so": b"\x7fELF" + bytes(range(256)) * 4, "model.json": b"{}"}


@functools.cache
def manifest() -> artifact_pb2.Manifest:
    """Of an artifact of the rich capture, signed by the tests' key."""
    capture = rich_capture()
    made = artifact_pb2.Manifest(
        schema_version=1,
        key="ab" * 32,
        signature=capture.signature,
        calling_convention=capture.calling_convention,
        target=captures.target(),
        options=captures.options(),
        compiled_outputs=[0, 3],
        builder="fuzz",
        created=1,
    )
    for index in range(3):
        made.compiled_inputs.add(input=index)
    made.compiled_inputs.add(size_carrier=1)
    made.libraries.add(namespace="torchvision", module="torchvision.ops", version="0.1")
    made.verification.runs.add(symbols=[1, 2], error=0.5)
    made.graph_summary.operators["aten::sin.default"] = 1
    made.report.kernels.add(name="k", ops=["sin"])
    for name, data in FILES.items():
        made.files.add(name=name, sha256=digest_of(data), size=len(data))
    return made


@functools.cache
def artifact() -> bytes:
    """The zip of ``manifest``."""
    return pack(manifest(), FILES, sign)


@functools.cache
def all_requests() -> tuple[compiler_pb2.CompileRequest, ...]:
    """Valid requests to compile."""
    return (request(), request(rich_capture()))
