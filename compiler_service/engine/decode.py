"""Decode: a Capture from a stranger becomes an FX graph on fake tensors of the target's device.

In: a checked Capture. Out: a GraphModule whose placeholders are all tensors, with fake inputs.
All weights are placeholders, so none of their values can end up in the code. Sizes that AOTInductor
could not find by itself (a Python integer, a symbol that stands only inside an expression) come in
through size carriers: zero-stride tensors whose length is the symbol.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from compile_farm.capture.ops import effect_of, resolve_operator
from compile_farm.errors import InvalidGraphError
from compile_farm.runtime.expressions import evaluate, symbols_of
from compile_farm.v1 import artifact_pb2, graph_pb2
from compiler_service.engine.errors import in_words, unsupported
from compiler_service.engine.expressions import SYMBOLIC, in_graph
from compiler_service.engine.libraries import namespaces_of


@dataclass
class DecodedGraph:
    """What the compiler works on."""

    module: fx.GraphModule
    fakes: list[torch.Tensor]
    mode: FakeTensorMode
    # The backed symbols, by index into Signature.symbols.
    symbols: dict[int, Any]
    compiled_inputs: list[artifact_pb2.CompiledInput] = field(default_factory=list)
    compiled_outputs: list[int] = field(default_factory=list)
    random: bool = False


def decode(capture: graph_pb2.Capture, device: torch.device) -> DecodedGraph:
    """Rebuilds the graph; ``device`` stands for every tensor of its type.

    Raises InvalidGraphError for an operator that is not allowed or does not exist here, EngineError
    for what can't be compiled.
    """
    return _Decoder(capture, device).decode()


def torch_dtype(name: str) -> torch.dtype:
    """schema.check_capture has checked the name against its table."""
    dtype: torch.dtype = getattr(torch, name)
    return dtype


@contextmanager
def _sizes_of(what: str) -> Iterator[None]:
    """Sizes that the schema allows and torch can't compute with: overflows, negative ones, numbers
    that are none over symbols. Raises EngineError."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, ArithmeticError, NotImplementedError) as error:
        raise unsupported(
            f"{what} has sizes that torch can't compute: {in_words(error)}", stage="decode"
        ) from error


def _check_python_call(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """fx writes these down as Python's own operators, which must make an expression."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidGraphError(f"{name} is called with other arguments: {error}") from error
    operands = args[:1] if function is operator.getitem else (*args, *kwargs.values())
    if not any(isinstance(operand, fx.Node) for operand in operands):
        raise InvalidGraphError(f"{name} is called on nothing that the graph computes")


class _Decoder:
    def __init__(self, capture: graph_pb2.Capture, device: torch.device) -> None:
        self._capture = capture
        self._device = device
        self._namespaces = namespaces_of(capture.libraries)
        self._signature = capture.signature
        self._env = ShapeEnv(duck_shape=False, specialize_zero_one=False)
        self._mode = FakeTensorMode(shape_env=self._env, allow_non_fake_inputs=False)
        self._symbols: dict[int, Any] = {}
        self._random = False

    def decode(self) -> DecodedGraph:
        self._check_devices()
        for index, symbol in enumerate(self._signature.symbols):
            if not symbol.unbacked:
                with _sizes_of(f"symbol {index}"):
                    self._symbols[index] = self._create_symbol(index, symbol)
        root, graph = torch.nn.Module(), fx.Graph()
        decoded = DecodedGraph(fx.GraphModule(root, fx.Graph()), [], self._mode, self._symbols)
        values = self._inputs(graph, decoded)
        self._nodes(self._capture.graph, graph, root, values)
        outputs = []
        for index, output in enumerate(self._signature.outputs):
            if output.WhichOneof("kind") == "tensor":
                decoded.compiled_outputs.append(index)
                outputs.append(self._argument(self._capture.graph.outputs[index], values, [], root))
        graph.output(tuple(outputs))
        graph.lint()
        decoded.module = fx.GraphModule(root, graph)
        decoded.random = self._random
        return decoded

    def _check_devices(self) -> None:
        for entry in self._signature.inputs:
            kind = entry.tensor.device_type
            if kind == "cuda" and self._device.type != "cuda":
                raise unsupported(
                    f"the input {entry.name!r} is on cuda, this worker builds for cpu",
                    stage="decode",
                )

    def _torch_device(self, device_type: str) -> torch.device:
        return self._device if device_type == self._device.type else torch.device(device_type)

    def _create_symbol(self, index: int, symbol: graph_pb2.Symbol) -> torch.SymInt:
        # Sizes 0 and 1 broadcast, so a compiler that admits them specialises on them. As
        # torch.export does, compile for 2 and more; verifying runs the ends of the range.
        low = max(symbol.minimum, 2)
        high = symbol.maximum if symbol.HasField("maximum") else None
        if high is not None and high < 2:
            raise unsupported(
                f"a dynamic dimension has the range {symbol.minimum} to {high}",
                remedy="make it static",
                stage="decode",
            )
        hint = min(max(symbol.hint, low), high if high is not None else max(low, 2**31))
        source = ConstantSource(f"symbol_{index}")
        created = self._env.create_symbol(
            hint,
            source=source,
            dynamic_dim=DimDynamic.DYNAMIC,
            constraint_dim=None,
            do_not_specialize_zero_one=True,
        )
        self._env.constrain_symbol_range(
            created, compiler_min=low, compiler_max=high if high is not None else 2**62
        )
        number = self._env.create_symintnode(created, hint=hint, source=source)
        assert isinstance(number, torch.SymInt)
        return number

    def _fake(self, spec: graph_pb2.TensorSpec) -> torch.Tensor:
        with self._mode:
            return torch.empty_strided(
                [evaluate(size, self._symbols, SYMBOLIC) for size in spec.sizes],
                [evaluate(stride, self._symbols, SYMBOLIC) for stride in spec.strides],
                dtype=torch_dtype(spec.dtype),
                device=self._torch_device(spec.device_type),
            )

    def _inputs(self, graph: fx.Graph, decoded: DecodedGraph) -> list[Any]:
        """Placeholders for tensors and carriers; the graph's values for all inputs."""
        values: list[Any] = [None] * len(self._signature.inputs)
        homes: dict[int, tuple[fx.Node, int]] = {}
        for index, entry in enumerate(self._signature.inputs):
            if entry.WhichOneof("kind") != "tensor":
                continue
            values[index] = node = graph.placeholder(f"input_{index}")
            with _sizes_of(f"the input {entry.name!r}"):
                decoded.fakes.append(self._fake(entry.tensor))
            decoded.compiled_inputs.append(artifact_pb2.CompiledInput(input=index))
            for dimension, size in enumerate(entry.tensor.sizes):
                if size.WhichOneof("kind") == "symbol":
                    homes.setdefault(size.symbol, (node, dimension))
        for index, symbol in self._symbols.items():
            if index not in homes:
                homes[index] = (graph.placeholder(f"carrier_{index}"), 0)
                with self._mode:
                    decoded.fakes.append(torch.empty_strided((symbol,), (0,), dtype=torch.uint8))
                decoded.compiled_inputs.append(artifact_pb2.CompiledInput(size_carrier=index))
        used = self._used_symbols()
        sizes = {
            index: graph.call_function(torch.ops.aten.sym_size.int, home)
            for index, home in homes.items()
            if index in used
        }
        for index, entry in enumerate(self._signature.inputs):
            if entry.WhichOneof("kind") == "scalar":
                with _sizes_of(f"the input {entry.name!r}"):
                    values[index] = evaluate(entry.scalar, sizes, in_graph(graph))
        return values

    def _used_symbols(self) -> set[int]:
        return set().union(
            *(
                symbols_of(entry.scalar)
                for entry in self._signature.inputs
                if entry.WhichOneof("kind") == "scalar"
            )
        )

    def _nodes(
        self, message: graph_pb2.Graph, graph: fx.Graph, root: torch.nn.Module, values: list[Any]
    ) -> None:
        subgraphs: list[fx.Node | None] = [None] * len(message.subgraphs)
        for index, subgraph in enumerate(message.subgraphs):
            name = f"subgraph_{index}"
            setattr(root, name, self._subgraph(subgraph))
            subgraphs[index] = graph.get_attr(name)
        for node in message.nodes:
            target = resolve_operator(node.op, self._namespaces)
            self._random |= node.effect == graph_pb2.EFFECT_RANDOM
            args = tuple(self._argument(item, values, subgraphs, root) for item in node.args)
            kwargs = {
                item.name: self._argument(item.value, values, subgraphs, root)
                for item in node.kwargs
            }
            if node.op.startswith("python::"):
                _check_python_call(node.op, target, args, kwargs)
            # The key knows a write by this field alone: a graph that hides one would have the key
            # of another graph, and put a wrong artifact under it.
            if (effect := effect_of(target, args, kwargs)) != node.effect:
                raise InvalidGraphError(
                    f"{node.op} is said to have {graph_pb2.Effect.Name(node.effect)}, and has "
                    f"{graph_pb2.Effect.Name(effect)}"
                )
            values.append(graph.call_function(target, args, kwargs))

    def _subgraph(self, message: graph_pb2.Graph) -> fx.GraphModule:
        root, graph = torch.nn.Module(), fx.Graph()
        values: list[Any] = [
            graph.placeholder(f"input_{index}") for index in range(message.input_count)
        ]
        self._nodes(message, graph, root, values)
        outputs = [self._argument(item, values, [], root) for item in message.outputs]
        graph.output(outputs[0] if message.single_output else tuple(outputs))
        return fx.GraphModule(root, graph)

    def _argument(
        self,
        argument: graph_pb2.Argument,
        values: list[Any],
        subgraphs: list[fx.Node | None],
        root: torch.nn.Module,
    ) -> Any:
        kind = argument.WhichOneof("kind")
        match kind:
            case "none":
                return None
            case "value":
                return values[argument.value]
            case "boolean" | "integer" | "real" | "text":
                return getattr(argument, kind)
            case "complex":
                return complex(argument.complex.real, argument.complex.imaginary)
            case "dtype":
                return torch_dtype(argument.dtype)
            case "device_type":
                return self._torch_device(argument.device_type)
            case "layout":
                return torch.strided
            case "memory_format":
                return getattr(torch, argument.memory_format)
            case "list":
                return [self._argument(i, values, subgraphs, root) for i in argument.list.items]
            case "tuple":
                items = argument.tuple.items
                return tuple(self._argument(i, values, subgraphs, root) for i in items)
            case "dictionary":
                return {
                    item.name: self._argument(item.value, values, subgraphs, root)
                    for item in argument.dictionary.items
                }
            case "subgraph":
                return subgraphs[argument.subgraph]
            case "operator":
                return resolve_operator(argument.operator, self._namespaces)
            case "expression":
                with _sizes_of("an argument"):
                    number = evaluate(argument.expression, self._symbols, SYMBOLIC)
                if isinstance(number, int):
                    return number
                raise unsupported("a symbolic size is written out in the graph", stage="decode")
            case _:
                raise InvalidGraphError(f"an argument of kind {kind} can't be decoded")
