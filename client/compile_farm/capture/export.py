"""Ahead of time: a model and example arguments become a Capture, through torch.export.

In: an ``nn.Module`` and the arguments of one call. Out: a Capture whose weights are inputs bound by
their qualified names, and whose calling convention says how ``forward`` is called and what it
returns. Outputs that share memory with an input are recorded as views of it rather than compiled.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree as pytree

from compile_farm.capture.apart import apart, untied
from compile_farm.capture.encode import EncodedGraph, dtype_name, encode_graph, tensor_spec
from compile_farm.capture.expressions import SymbolTable
from compile_farm.capture.hazards import run_on_fakes, source_of
from compile_farm.capture.idle import remove_idle_dropout
from compile_farm.capture.libraries import libraries_of
from compile_farm.capture.smallest import check_smallest
from compile_farm.capture.state import writes_of
from compile_farm.capture.subclasses import record_subclasses, refuse_subclass, retrace
from compile_farm.capture.tensors import tensor_bytes, value_range
from compile_farm.capture.trees import encode_tree, literal
from compile_farm.errors import CaptureError
from compile_farm.runtime.modules import module_states
from compile_farm.runtime.subclasses import is_subclass, plain_parts
from compile_farm.schema import check_capture
from compile_farm.v1 import graph_pb2

_ROLES = {
    InputKind.PARAMETER: graph_pb2.ROLE_PARAMETER,
    InputKind.BUFFER: graph_pb2.ROLE_BUFFER,
    InputKind.CONSTANT_TENSOR: graph_pb2.ROLE_CONSTANT,
    InputKind.USER_INPUT: graph_pb2.ROLE_USER_INPUT,
}


def capture_export(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> graph_pb2.Capture:
    """Captures ``model(*args, **kwargs)`` for inference, with no need of its weights' values.

    Args:
        model: in the mode (eval or train) in which it will run.
        args: example positional arguments; their shapes are fixed unless ``dynamic_shapes`` frees
            them. Python numbers, strings and None are fixed to their values.
        kwargs: example keyword arguments.
        dynamic_shapes: as for ``torch.export.export``.

    Raises:
        CaptureError: the model holds something that can't be captured; nothing was sent.
    """
    if not isinstance(model, torch.nn.Module):
        raise CaptureError(
            f"{type(model).__name__} is no torch.nn.Module",
            remedy="wrap a function into a module's forward",
            reason="value",
        )
    if not isinstance(args, tuple):
        raise CaptureError(
            f"args is a {type(args).__name__}",
            remedy="pass a tuple: (x,) for a single argument",
            reason="value",
        )
    if any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda")):
        raise CaptureError(
            "autocast is on, and torch.export captures the model as if it were off",
            remedy="enter autocast inside forward, or use torch.compile(backend='compile_farm')",
            reason="state",
        )
    kwargs = kwargs or {}
    names = _argument_names(model, args, kwargs)
    for name, value in zip(names, pytree.tree_leaves((args, kwargs)), strict=True):
        refuse_subclass(f"the argument {name!r}", value)
    # As it is now: tracing may change it.
    modules, subclasses = module_states(model), record_subclasses(model)
    program = _export(model, args, kwargs, dynamic_shapes)
    capture = _Conversion(program, model, args, kwargs, modules).capture()
    capture.calling_convention.subclasses.extend(subclasses)
    check_capture(capture)
    return capture


def _export(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    args, kwargs = apart(model, args, kwargs)
    try:
        with torch.no_grad(), untied(model), writes_of(model) as written:
            program = torch.export.export(
                model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False
            )
    except Exception as error:
        # torch.export raises anything from its own UserError to an empty AssertionError.
        text = str(error).strip() or "no message"
        raise CaptureError(
            f"torch.export could not capture {type(model).__name__}: "
            f"{type(error).__name__}: {text[:2000]}",
            remedy="use torch.compile(model, backend='compile_farm'), which breaks the graph there",
            reason="trace",
        ) from error
    if written:
        raise CaptureError(
            f"{type(model).__name__}.forward writes to {written[0]}, which no graph can hold",
            remedy="keep it in a buffer that is written in place, or use torch.compile",
            reason="state",
        )
    remove_idle_dropout(program.graph_module)
    return program


@dataclass
class _Entry:
    """One placeholder of the exported graph."""

    node: torch.fx.Node
    kind: InputKind
    target: str
    fixed: bool
    value: Any


class _Conversion:
    def __init__(
        self,
        program: ExportedProgram,
        model: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        modules: list[graph_pb2.ModuleState],
    ) -> None:
        self._program, self._model, self._modules = program, model, modules
        self._args, self._kwargs = args, kwargs
        self._symbols = SymbolTable(program.range_constraints)
        self._graph_module: torch.fx.GraphModule = program.graph_module
        self._entries = self._placeholders()
        self._made = {entry.target for entry in self._entries if _is_made(entry.node)}
        # The plain tensors inside weights that are tensor subclasses, by the names of their inputs.
        self._inner: dict[str, torch.Tensor] = {}
        if any(is_subclass(entry.value) for entry in self._entries):
            self._take_apart()

    def capture(self) -> graph_pb2.Capture:
        skip = frozenset(entry.node.name for entry in self._entries if entry.fixed)
        # Sizes of the inputs first: their symbols get the low numbers.
        inputs, leaves = self._inputs()
        encoded = encode_graph(self._graph_module, self._symbols, skip=skip)
        for index in encoded.mutated:
            if inputs[index].name in self._inner:
                raise CaptureError(
                    f"forward writes to {inputs[index].name}, which lies inside a tensor subclass",
                    remedy="keep what is written to in a plain buffer, or use torch.compile",
                    reason="state",
                )
            inputs[index].mutated = True
        for name, tensor in encoded.constants:
            inputs.append(self._constant(name, tensor))
        outputs, result = self._outputs(encoded, inputs)
        convention = self._convention(leaves, result)
        return graph_pb2.Capture(
            graph=encoded.graph,
            signature=graph_pb2.Signature(
                symbols=self._symbols.symbols, inputs=inputs, outputs=outputs
            ),
            calling_convention=convention,
            libraries=libraries_of(encoded.graph),
        )

    def _placeholders(self) -> list[_Entry]:
        specs = self._program.graph_signature.input_specs
        nodes = [node for node in self._program.graph.nodes if node.op == "placeholder"]
        entries = []
        for node, spec in zip(nodes, specs, strict=True):
            if spec.kind not in _ROLES:
                raise CaptureError(
                    f"the model takes a {spec.kind.name.lower()} ({spec.target or node.name})",
                    reason="value",
                )
            fixed = isinstance(spec.arg, ConstantArgument)
            value = spec.arg.value if fixed else node.meta.get("val")
            entries.append(_Entry(node, spec.kind, spec.target or "", fixed, value))
        return entries

    def _take_apart(self) -> None:
        """The graph on the plain tensors inside subclasses, and an entry for each of them."""
        for entry in self._entries:
            if is_subclass(entry.value) and entry.kind == InputKind.CONSTANT_TENSOR:
                raise CaptureError(
                    f"the model holds {entry.target}, a {type(entry.value).__name__}, which is a "
                    "subclass of Tensor and neither parameter nor buffer",
                    remedy="register it as a buffer",
                    reason="tensor",
                )
            if is_subclass(entry.value):
                self._inner.update(plain_parts(entry.target, _held(self._model, entry.target)))
        self._graph_module, values = retrace(
            self._graph_module, [entry.value for entry in self._entries]
        )
        nodes = [node for node in self._graph_module.graph.nodes if node.op == "placeholder"]
        parts = [
            (entry, name)
            for entry in self._entries
            for name, _ in plain_parts(entry.target, entry.value)
        ]
        self._entries = [
            _Entry(node, entry.kind, name, entry.fixed, value)
            for (entry, name), node, value in zip(parts, nodes, values, strict=True)
        ]

    def _inputs(self) -> tuple[list[graph_pb2.Input], list[graph_pb2.Leaf]]:
        """The Signature's inputs, and a leaf for each flat user argument."""
        inputs: list[graph_pb2.Input] = []
        leaves: list[graph_pb2.Leaf] = []
        names = iter(_argument_names(self._model, self._args, self._kwargs))
        examples = iter(pytree.tree_leaves((self._args, self._kwargs)))
        for entry in self._entries:
            user = entry.kind == InputKind.USER_INPUT
            name = next(names) if user else entry.target
            example = next(examples) if user else self._inner.get(name)
            if entry.fixed:
                leaves.append(graph_pb2.Leaf(literal=_fixed(entry.value, name)))
                continue
            if user:
                leaves.append(graph_pb2.Leaf(input=len(inputs)))
            message = graph_pb2.Input(name=name, role=_ROLES[entry.kind])
            if isinstance(entry.value, torch.Tensor):
                message.tensor.CopyFrom(tensor_spec(entry.value, self._symbols))
            elif isinstance(entry.value, torch.SymInt):
                message.scalar.CopyFrom(self._symbols.encode(entry.value))
            else:
                raise CaptureError(
                    f"the argument {name!r} is a {type(entry.value).__name__}, which can't be sent",
                    reason="value",
                )
            if entry.kind == InputKind.CONSTANT_TENSOR:
                message = self._constant(entry.target, self._program.constants[entry.target])
                if message.data and entry.target not in self._made:
                    # Its bytes would be fixed, and whoever holds it may write to it.
                    raise CaptureError(
                        "forward reads a tensor that is no argument and no attribute of a module "
                        "(a global, a default argument, an item of a list)",
                        remedy="register it as a buffer, or pass it as an argument",
                        reason="state",
                    )
            elif (seen := value_range(example)) is not None:
                message.value_range.CopyFrom(seen)
            inputs.append(message)
        return inputs, leaves

    def _constant(self, name: str, tensor: torch.Tensor) -> graph_pb2.Input:
        """By name where the model has it, else with its bytes."""
        message = graph_pb2.Input(name=name, role=graph_pb2.ROLE_CONSTANT)
        held = _held(self._model, name)
        if isinstance(held, torch.Tensor) and held.shape == tensor.shape:
            message.tensor.CopyFrom(tensor_spec(held, self._symbols))
            return message
        dense = tensor.detach().contiguous()
        message.tensor.CopyFrom(tensor_spec(dense, self._symbols))
        message.data = tensor_bytes(dense)
        return message

    def _outputs(
        self, encoded: EncodedGraph, inputs: list[graph_pb2.Input]
    ) -> tuple[list[graph_pb2.Output], list[graph_pb2.Leaf]]:
        """The Signature's outputs and a leaf for each flat result; drops aliases from the graph."""
        for spec in self._program.graph_signature.output_specs:
            if spec.kind != OutputKind.USER_OUTPUT:
                raise CaptureError(
                    f"the graph gives a {spec.kind.name.lower()}, not an output", reason="value"
                )
        fakes, mode = self._fakes()
        given = run_on_fakes(self._graph_module, fakes, mode)
        # What was fixed is no input of the Signature; what was lifted is not among the fakes.
        numbers = [index for index, entry in enumerate(self._entries) if not entry.fixed]
        tensors = [fakes[index] for index in numbers]
        outputs: list[graph_pb2.Output] = []
        leaves: list[graph_pb2.Leaf] = []
        kept = []
        for position, (value, fake) in enumerate(zip(encoded.outputs, given, strict=True)):
            source = source_of(fake, tensors)
            if source is not None:
                alias = self._alias(fake, tensors[source], source)
                leaves.append(graph_pb2.Leaf(alias=alias))
                continue
            if not isinstance(value, torch.Tensor | torch.SymInt):
                leaves.append(graph_pb2.Leaf(literal=_fixed(value, f"result {position}")))
                continue
            leaves.append(graph_pb2.Leaf(output=len(outputs)))
            outputs.append(encode_output(value, self._symbols))
            kept.append(encoded.graph.outputs[position])
        check_smallest(
            self._graph_module,
            [entry.value for entry in self._entries],
            self._symbols,
            leaves,
            numbers,
        )
        arguments = [
            graph_pb2.Argument.FromString(kept_one.SerializeToString()) for kept_one in kept
        ]
        del encoded.graph.outputs[:]
        encoded.graph.outputs.extend(arguments)
        encoded.graph.single_output = False
        return outputs, leaves

    def _fakes(self) -> tuple[list[Any], Any]:
        """Fresh fake tensors like the placeholders', each with memory of its own."""
        mode = torch._guards.detect_fake_mode([entry.value for entry in self._entries])
        if mode is None:
            mode = torch._subclasses.FakeTensorMode()
        fakes: list[Any] = []
        with mode:
            for entry in self._entries:
                value = entry.value
                if isinstance(value, torch.Tensor):
                    value = torch.empty_strided(
                        value.shape, value.stride(), dtype=value.dtype, device=value.device
                    )
                fakes.append(value)
        return fakes, mode

    def _alias(self, output: torch.Tensor, base: torch.Tensor, index: int) -> graph_pb2.Alias:
        if output is base:
            return graph_pb2.Alias(input=index, identity=True)
        if output.dtype != base.dtype or output.is_conj() or output.is_neg():
            raise CaptureError(
                "the model returns a view of an input with another dtype, or a lazy conjugate",
                remedy="return a clone() of it",
                reason="memory",
            )
        return graph_pb2.Alias(
            input=index,
            sizes=[self._symbols.encode(size) for size in output.shape],
            strides=[self._symbols.encode(stride) for stride in output.stride()],
            storage_offset=self._symbols.encode(output.storage_offset()),
        )

    def _convention(
        self, leaves: list[graph_pb2.Leaf], result: list[graph_pb2.Leaf]
    ) -> graph_pb2.CallingConvention:
        spec = self._program.call_spec
        remaining: Iterator[graph_pb2.Leaf] = iter(leaves)
        args_spec, kwargs_spec = spec.in_spec.children()
        args = encode_tree(args_spec, remaining)
        # torch.export orders keyword arguments by forward's parameters; the spec says how.
        kwargs = encode_tree(kwargs_spec, remaining)
        parameters = [
            parameter.name
            for parameter in inspect.signature(self._model.forward).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        return graph_pb2.CallingConvention(
            parameters=parameters,
            args=args,
            kwargs=kwargs,
            result=encode_tree(spec.out_spec, iter(result)),
            modules=self._modules,
        )


def _held(model: torch.nn.Module, name: str) -> Any:
    """What the model has under a qualified name; None if it has nothing."""
    held: Any = model
    for part in name.split("."):
        held = getattr(held, part, None)
    return held


def _argument_names(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[str]:
    """A name for each flat user argument: "ids", "batch.mask", "states[1]"."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    positional = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    names = []
    paths: list[Any] = [path for path, _ in pytree.tree_flatten_with_path((args, kwargs))[0]]
    for path in paths:
        where, rest = path[0].idx, path[1:]
        if where == 0:
            index = rest[0].idx
            name = positional[index] if index < len(positional) else f"args[{index}]"
        else:
            name = str(rest[0].key)
        names.append(name + "".join(map(str, rest[1:])))
    return names


def _is_made(node: torch.fx.Node) -> bool:
    """Whether a constant comes from ``torch.tensor(...)`` in forward, which copies it each time."""
    lifts = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift_fresh.default)
    return all(user.target in lifts for user in node.users)


def encode_output(value: Any, symbols: SymbolTable) -> graph_pb2.Output:
    """An output of the graph: a tensor, a number that follows from the inputs' sizes, or None."""
    if isinstance(value, torch.Tensor):
        if value.is_conj() or value.is_neg():
            raise CaptureError(
                "the model returns a lazy conjugate or negative",
                remedy="return x.resolve_conj() or x.resolve_neg()",
                reason="memory",
            )
        return graph_pb2.Output(tensor=tensor_spec(value, symbols))
    if isinstance(value, torch.SymInt):
        expression = symbols.encode(value)
        _refuse_unbacked(expression, symbols)
        return graph_pb2.Output(scalar=expression)
    if value is None:
        return graph_pb2.Output(none=graph_pb2.Nothing())
    if isinstance(value, int) and not isinstance(value, bool):
        return graph_pb2.Output(scalar=graph_pb2.Expr(constant=value))
    raise CaptureError(f"an output of type {type(value).__name__} is not supported", reason="value")


def _refuse_unbacked(expression: graph_pb2.Expr, symbols: SymbolTable) -> None:
    kind = expression.WhichOneof("kind")
    if kind == "symbol" and symbols.symbols[expression.symbol].unbacked:
        raise CaptureError(
            "the model returns a number that depends on a tensor's values",
            remedy="return it as a tensor",
            reason="value",
        )
    for operand in expression.operation.operands if kind == "operation" else ():
        _refuse_unbacked(operand, symbols)


def _fixed(value: Any, name: str) -> graph_pb2.Literal:
    try:
        return literal(value)
    except CaptureError as error:
        raise CaptureError(f"{name}: {error.message}", reason=error.reason) from None


__all__ = ["capture_export", "dtype_name", "encode_output"]
