"""Just in time: the graph that Dynamo hands to a backend becomes a Capture.

In: Dynamo's graph and its example inputs. Out: a Capture of the ATen graph, and a callable that
keeps AOTAutograd's own wrapper around whatever will run that graph: it restores aliases, None
outputs, tensor subclasses and mutated inputs as eager has them. No decomposition happens here: the
worker's compiler decides, so that attention stays attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.exc import RestartAnalysis, exceptions_allowed_to_be_fallback
from torch._functorch.aot_autograd import aot_module_simplified
from torch.utils._python_dispatch import _disable_current_modes

from compile_farm.capture.encode import encode_graph, tensor_spec
from compile_farm.capture.export import encode_output
from compile_farm.capture.expressions import SymbolTable
from compile_farm.capture.hazards import may_overlap, run_on_fakes
from compile_farm.capture.idle import remove_idle_dropout
from compile_farm.capture.libraries import libraries_of
from compile_farm.capture.subclasses import parts_of
from compile_farm.capture.tensors import value_range
from compile_farm.errors import CaptureError
from compile_farm.schema import check_capture
from compile_farm.v1 import graph_pb2

# Runs the ATen graph: takes its inputs in order, gives its outputs.
GraphRunner = Callable[[list[Any]], Sequence[Any]]


class AotCapture:
    """One graph: what to send, how to run it eagerly, and where to put what was compiled."""

    def __init__(self, module: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        """Raises CaptureError for what can't be captured; nothing was run.

        What Dynamo answers by breaking the graph (a size that hangs on a value, an operator that
        can't be traced) is raised as it is: the parts come again one by one. So is what makes it
        trace again, with a float that changes between calls as a constant.
        """
        self.capture = graph_pb2.Capture()
        # Set once the artifact is there; until then, and for a call that it refuses, the caller
        # runs Dynamo's graph: this one is functional, and inputs that share memory would differ.
        self.runner: GraphRunner | None = None
        # Which arguments a call may write to: all but the parameters that the graph leaves alone.
        self.written = list(range(len(example_inputs)))
        self._traced = False
        self._constants: list[torch.Tensor] = []
        given = list(example_inputs)
        _check_inference(given)
        remove_idle_dropout(module)
        if may_overlap(module):
            _check_writes(module, given)
        # AOTAutograd's graph takes the plain tensors inside subclasses.
        parts, roles = parts_of(given), _roles(module, given)
        self._arguments = [index for index, _ in parts]
        self._examples = [part for _, part in parts]
        self._roles = [roles[index] for index in self._arguments]
        compiler: Any = self._compiler
        try:
            self.run_wrapped: Callable[..., Any] = aot_module_simplified(
                module,
                given,
                fw_compiler=compiler,
                inference_compiler=compiler,
                keep_inference_input_mutations=True,
            )
        except (CaptureError, RestartAnalysis, *exceptions_allowed_to_be_fallback):
            raise
        except Exception as error:
            if isinstance(error.__cause__, CaptureError):
                raise error.__cause__ from error
            text = str(error).strip() or "no message"
            raise CaptureError(
                f"AOTAutograd could not trace the graph: {type(error).__name__}: {text[:2000]}",
                reason="trace",
            ) from error
        finally:
            self._examples = []
        if not self._traced:
            raise CaptureError(
                "AOTAutograd gave no inference graph",
                remedy="use torch.no_grad()",
                reason="gradients",
            )

    def _compiler(self, aten: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self._traced = True
        symbols = SymbolTable()
        placeholders = [node for node in aten.graph.nodes if node.op == "placeholder"]
        # Where AOTAutograd merged or dropped inputs, positions say nothing about roles any more.
        aligned = len(placeholders) == len(self._roles) and all(
            map(_is_alike, placeholders, self._examples)
        )
        if not aligned and _share_storage(self._examples):
            # AOTAutograd made one input of them, and no guard keeps later calls to that layout.
            raise CaptureError(
                "two inputs of the graph share memory, and one of them is written to",
                remedy="pass a clone()",
                reason="memory",
            )
        entries = []
        for index, node in enumerate(placeholders):
            role = self._roles[index] if aligned else graph_pb2.ROLE_USER_INPUT
            example = self._examples[index] if aligned else None
            entries.append(_entry(node, role, example, symbols))
        encoded = encode_graph(aten, symbols)
        for index in encoded.mutated:
            entries[index].mutated = True
        if aligned:
            written = {
                self._arguments[index]
                for index, role in enumerate(self._roles)
                if role != graph_pb2.ROLE_PARAMETER or entries[index].mutated
            }
            self.written = sorted(written)
        for _, tensor in encoded.constants:
            # Made while tracing; this process has it, so its bytes need not travel. As an input it
            # is not compiled in, and the key stays the same for another value.
            with _disable_current_modes():
                dense = tensor.detach().contiguous()
            self._constants.append(dense)
            entries.append(
                graph_pb2.Input(
                    role=graph_pb2.ROLE_USER_INPUT,
                    tensor=tensor_spec(dense, symbols),
                    value_range=value_range(dense),
                )
            )
        outputs = [encode_output(value, symbols) for value in encoded.outputs]
        self.capture = graph_pb2.Capture(
            graph=encoded.graph,
            signature=graph_pb2.Signature(symbols=symbols.symbols, inputs=entries, outputs=outputs),
            libraries=libraries_of(encoded.graph),
        )
        check_capture(self.capture)

        def run(inputs: list[Any]) -> Sequence[Any]:
            given = list(inputs)
            inputs.clear()  # boxed: the caller keeps none of them alive
            if self.runner is not None:
                return self.runner([*given, *self._constants])
            outputs: Sequence[Any] = aten(*given)
            return outputs

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


def _is_alike(node: fx.Node, example: Any) -> bool:
    """Whether a placeholder may stand for this input, by what no size can change."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(example, torch.Tensor):
        return isinstance(value, torch.Tensor) == isinstance(example, torch.Tensor)
    return value.dtype == example.dtype and value.dim() == example.dim()


def _entry(
    node: fx.Node, role: graph_pb2.Role, example: Any, symbols: SymbolTable
) -> graph_pb2.Input:
    value = node.meta.get("val")
    entry = graph_pb2.Input(role=role)
    if isinstance(value, torch.Tensor):
        entry.tensor.CopyFrom(tensor_spec(value, symbols))
        if (seen := value_range(example)) is not None:
            entry.value_range.CopyFrom(seen)
    elif isinstance(value, torch.SymInt | int) and not isinstance(value, bool):
        entry.scalar.CopyFrom(symbols.encode(value))
    else:
        raise CaptureError(
            f"a graph input of type {type(value).__name__} can't be sent", reason="value"
        )
    return entry


def _roles(module: fx.GraphModule, examples: Sequence[Any]) -> list[graph_pb2.Role]:
    """Which inputs are weights: Dynamo marks what belongs to the module as static."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    roles = []
    for node, example in zip(placeholders, examples, strict=False):
        if isinstance(example, torch.nn.Parameter):
            roles.append(graph_pb2.ROLE_PARAMETER)
        elif "_dynamo_static_input_type" in (node.meta.get("tensor_dict") or {}):
            roles.append(graph_pb2.ROLE_BUFFER)
        else:
            roles.append(graph_pb2.ROLE_USER_INPUT)
    return roles


def _share_storage(examples: Sequence[Any]) -> bool:
    """Whether two different tensors lie in one storage; Dynamo itself guards a repeated one."""
    tensors = {id(each): each for each in examples if isinstance(each, torch.Tensor)}
    storages = [tensor.untyped_storage()._cdata for tensor in tensors.values()]
    return len(set(storages)) < len(storages)


def _check_inference(examples: Sequence[Any]) -> None:
    if torch.is_grad_enabled() and any(
        isinstance(example, torch.Tensor) and example.requires_grad for example in examples
    ):
        raise CaptureError(
            "the graph needs gradients, and the farm compiles inference only",
            remedy="call the model under torch.no_grad() or torch.inference_mode()",
            reason="gradients",
        )


def _check_writes(module: fx.GraphModule, examples: Sequence[Any]) -> None:
    """Refuses a graph that writes through an overlapping view; see hazards.py."""
    mode = torch._guards.detect_fake_mode(examples) or torch._subclasses.FakeTensorMode(
        shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv()
    )
    fakes = [
        mode.from_tensor(example, static_shapes=True)
        if isinstance(example, torch.Tensor)
        else example
        for example in examples
    ]
    try:
        run_on_fakes(module, fakes, mode)
    except CaptureError:
        raise
    except Exception as error:
        raise CaptureError(
            f"the graph's writes could not be checked: {type(error).__name__}: {error}",
            reason="memory",
        ) from error
