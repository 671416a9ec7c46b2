"""An FX graph on fake tensors becomes a Graph message and its Signature.

In: a GraphModule at ATen level, whose placeholders carry ``meta["val"]``. Out: the Graph, and what
the Signature needs. The walk is flat: a chain of thousands of nodes needs no recursion.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

from compile_farm.capture.expressions import SymbolTable
from compile_farm.capture.ops import effect_of, operator_name, written_arguments
from compile_farm.errors import CaptureError
from compile_farm.schema import DTYPE_BYTES, MAX_INTEGER, MEMORY_FORMATS, SCHEMA_VERSION
from compile_farm.v1 import graph_pb2


@dataclass
class EncodedGraph:
    """The graph, and what was met on the way."""

    graph: graph_pb2.Graph
    # Tensors that the graph held as attributes, in the order of the inputs they became, after the
    # placeholders: (name of the attribute, tensor).
    constants: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    # Indices of inputs that some call writes to.
    mutated: set[int] = field(default_factory=set)
    outputs: list[Any] = field(default_factory=list)


def dtype_name(dtype: torch.dtype) -> str:
    """The wire's name; raises CaptureError for a dtype that the schema doesn't have."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise CaptureError(f"the dtype {name} is not supported", reason="tensor")
    return name


def tensor_spec(tensor: torch.Tensor, symbols: SymbolTable) -> graph_pb2.TensorSpec:
    """dtype, device type, sizes and strides of a fake or real tensor."""
    if tensor.layout != torch.strided:
        raise CaptureError(f"a tensor of layout {tensor.layout} is not supported", reason="tensor")
    if tensor.is_quantized:
        raise CaptureError(
            "a quantized tensor (torch.quantize_per_tensor) is not supported", reason="tensor"
        )
    if tensor.device.type not in ("cpu", "cuda"):
        raise CaptureError(f"a tensor on device {tensor.device} is not supported", reason="tensor")
    return graph_pb2.TensorSpec(
        dtype=dtype_name(tensor.dtype),
        device_type=tensor.device.type,
        sizes=[symbols.encode(size) for size in tensor.shape],
        strides=[symbols.encode(stride) for stride in tensor.stride()],
    )


def encode_graph(
    module: fx.GraphModule, symbols: SymbolTable, *, skip: frozenset[str] = frozenset()
) -> EncodedGraph:
    """Encodes ``module``; placeholders named in ``skip`` (unused, fixed values) are left out.

    Raises CaptureError for anything that the schema doesn't have.
    """
    return _Encoder(module, symbols, skip, outermost=True).encode()


class _Encoder:
    def __init__(
        self, module: fx.GraphModule, symbols: SymbolTable, skip: frozenset[str], outermost: bool
    ) -> None:
        self._module = module
        self._symbols = symbols
        self._skip = skip
        self._outermost = outermost
        self._values: dict[fx.Node, int] = {}
        self._subgraphs: dict[str, int] = {}
        self._result = EncodedGraph(graph_pb2.Graph(schema_version=SCHEMA_VERSION))

    def encode(self) -> EncodedGraph:
        graph, nodes = self._result.graph, list(self._module.graph.nodes)
        for node in nodes:
            if node.op == "placeholder" and node.name not in self._skip:
                self._values[node] = len(self._values)
        self._lift_constants(nodes)
        graph.input_count = len(self._values)
        inputs = dict(self._values)
        count = len(inputs)
        for node in nodes:
            if node.op == "call_function":
                graph.nodes.append(self._call(node, inputs))
                self._values[node] = count
                count += 1
            elif node.op == "output":
                self._output(node)
            elif node.op not in ("placeholder", "get_attr"):
                raise CaptureError(
                    f"a graph node of kind {node.op} ({node.name}) is not supported", reason="trace"
                )
        return self._result

    def _lift_constants(self, nodes: list[fx.Node]) -> None:
        """Tensors held by the graph become inputs, so that no value is compiled into the code."""
        lifted: dict[str, int] = {}
        for node in nodes:
            if node.op != "get_attr":
                continue
            name = str(node.target)
            held = _attribute(self._module, name)
            if isinstance(held, fx.GraphModule):
                if name not in self._subgraphs:
                    encoder = _Encoder(held, self._symbols, frozenset(), outermost=False)
                    self._subgraphs[name] = len(self._subgraphs)
                    self._result.graph.subgraphs.append(encoder.encode().graph)
            elif isinstance(held, torch.Tensor):
                if not self._outermost:
                    raise CaptureError(
                        f"a branch or loop body makes the constant tensor {name}",
                        remedy="make it outside and pass it in",
                        reason="operator",
                    )
                if name not in lifted:
                    lifted[name] = len(self._values)
                    self._result.constants.append((name, held))
                self._values[node] = lifted[name]
            else:
                raise CaptureError(
                    f"the graph holds {name}, a {type(held).__name__}, which can't be sent",
                    reason="operator",
                )

    def _call(self, node: fx.Node, inputs: dict[fx.Node, int]) -> graph_pb2.Node:
        target = node.target
        message = graph_pb2.Node(
            op=operator_name(target), effect=effect_of(target, node.args, node.kwargs)
        )
        try:
            message.args.extend(self._argument(value) for value in node.args)
            for name, value in node.kwargs.items():
                message.kwargs.add(name=name).value.CopyFrom(self._argument(value))
        except CaptureError as error:
            raise CaptureError(
                f"{message.op}: {error.message}", remedy=error.remedy, reason=error.reason
            ) from None
        if self._outermost and isinstance(target, OpOverload):
            for written in written_arguments(target, node.args, node.kwargs):
                base = _base(written) if isinstance(written, fx.Node) else None
                if base in inputs:
                    self._result.mutated.add(inputs[base])
        return message

    def _output(self, node: fx.Node) -> None:
        returned = node.args[0]
        single = not isinstance(returned, list | tuple)
        self._result.graph.single_output = single
        values = [returned] if single else list(returned)  # type: ignore[arg-type]
        self._result.graph.outputs.extend(self._argument(value) for value in values)
        self._result.outputs = [
            value.meta.get("val") if isinstance(value, fx.Node) else value for value in values
        ]

    def _argument(self, value: Any) -> graph_pb2.Argument:
        argument = graph_pb2.Argument()
        if isinstance(value, fx.Node):
            if value in self._values:
                argument.value = self._values[value]
            elif value.op == "get_attr":
                argument.subgraph = self._subgraphs[str(value.target)]
            else:
                raise CaptureError(
                    f"the graph uses {value.name}, a fixed argument, as a value", reason="value"
                )
        elif value is None:
            argument.none.SetInParent()
        elif isinstance(value, bool):
            argument.boolean = value
        elif isinstance(value, int):
            if abs(value) >= 2 * MAX_INTEGER and value != -(2**63):
                raise CaptureError(f"the number {value} is out of range", reason="value")
            argument.integer = value
        elif isinstance(value, float):
            argument.real = value
        elif isinstance(value, complex):
            argument.complex.real, argument.complex.imaginary = value.real, value.imag
        elif isinstance(value, str):
            argument.text = value
        elif isinstance(value, torch.dtype):
            argument.dtype = dtype_name(value)
        elif isinstance(value, torch.device):
            argument.device_type = value.type
        elif isinstance(value, torch.layout):
            if value != torch.strided:
                raise CaptureError(f"the layout {value} is not supported", reason="tensor")
            argument.layout = "strided"
        elif isinstance(value, torch.memory_format):
            name = str(value).removeprefix("torch.")
            if name not in MEMORY_FORMATS:
                raise CaptureError(f"the memory format {name} is not supported", reason="tensor")
            argument.memory_format = name
        elif isinstance(value, list | tuple):
            items = [self._argument(item) for item in value]
            (argument.list if isinstance(value, list) else argument.tuple).SetInParent()
            (argument.list if isinstance(value, list) else argument.tuple).items.extend(items)
        elif isinstance(value, dict):
            argument.dictionary.SetInParent()
            for key, item in value.items():
                if not isinstance(key, str):
                    raise CaptureError("a dictionary with keys that are no strings", reason="value")
                argument.dictionary.items.add(name=key).value.CopyFrom(self._argument(item))
        elif isinstance(value, OpOverload | HigherOrderOperator):
            argument.operator = operator_name(value)
        elif isinstance(value, torch.SymInt):
            argument.expression.CopyFrom(self._symbols.encode(value))
        else:
            raise CaptureError(
                f"an argument of type {type(value).__name__} can't be sent", reason="value"
            )
        return argument


def _attribute(module: fx.GraphModule, name: str) -> Any:
    held: Any = module
    for part in name.split("."):
        held = getattr(held, part)
    return held


def _base(node: fx.Node) -> fx.Node:
    """Follows views back to what they are views of, as far as schemas tell."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], fx.Node):
        target = node.target
        if isinstance(target, OpOverload):
            parameters = target._schema.arguments
            if not parameters or parameters[0].alias_info is None:
                break
        elif target is not operator.getitem:  # one of several views
            break
        node = node.args[0]
    return node
