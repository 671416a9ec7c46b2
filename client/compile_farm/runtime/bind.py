"""Binds an artifact to a model: a callable with ``model.forward``'s signature, without tracing.

In: a loaded artifact and a model whose weights fit it. Out: ``BoundModel``. Weights are used where
the model holds them, never copied: updates in place are seen, buffers are written to, and a
parameter that is replaced or moved is checked again at the next call. Inputs are checked at every
call. It runs as inference: results don't require gradients.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from compile_farm.errors import BindError, InputMismatchError
from compile_farm.runtime.checks import CheckCompiler
from compile_farm.runtime.explain import input_mismatch
from compile_farm.runtime.loaded import LoadedArtifact, finisher
from compile_farm.runtime.trees import (
    Flatten,
    compile_build,
    compile_flatten,
    literal_value,
)
from compile_farm.runtime.weights import find_slots, weight_problem
from compile_farm.v1 import artifact_pb2, graph_pb2

_address = torch.Tensor.data_ptr
_MISSING = object()


class BoundModel:
    """Calls the compiled code with this model's weights.

    Attributes:
        key: the key that the artifact was compiled under.
        manifest: what it says of itself.

    Calls from several threads are safe; on one device they wait for each other.
    """

    def __init__(self, loaded: LoadedArtifact, model: torch.nn.Module) -> None:
        """Raises BindError where the model is not what was captured."""
        manifest = loaded.manifest
        if not manifest.calling_convention.HasField("result"):
            raise BindError(
                "this artifact was captured through torch.compile and has no names to bind by",
                remedy="use torch.compile(model, backend='compile_farm'), or farm.submit",
            )
        self.key: str = manifest.key
        self.manifest: artifact_pb2.Manifest = manifest
        self._loaded = loaded
        self._signature = manifest.signature
        self._device = _device_of(model, loaded.device_type)
        users = [
            index
            for index, entry in enumerate(self._signature.inputs)
            if entry.role == graph_pb2.ROLE_USER_INPUT
        ]
        self._users = users
        self._weights = [i for i in range(len(self._signature.inputs)) if i not in set(users)]
        self._entries = [self._signature.inputs[index] for index in self._weights]
        self._slots = find_slots(model, self._entries, self._device)
        self._arguments = _Arguments(manifest.calling_convention, model)
        self._blank: list[Any] = [None] * len(self._signature.inputs)
        self._addresses: list[int] = []
        self._lock = threading.Lock()
        self._check_weights([held[name] for held, name in self._slots])
        compiler = CheckCompiler(
            self._signature, manifest.compiled_inputs, users, self._weights, self._device
        )
        self._prepare = compiler.compile()
        self._known = compiler.known_symbols
        self._finish = finisher(manifest, self._known)
        result = manifest.calling_convention.result
        self._build = compile_build(result)
        # The commonest result of all: one tensor.
        is_output = result.WhichOneof("kind") == "leaf" and result.leaf.HasField("output")
        self._single = result.leaf.output if is_output else None
        self._run = loaded.runner(self._device).run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As ``model.forward``; raises InputMismatchError, before anything ran, if it can't be."""
        inputs = self._blank.copy()
        self._arguments.flatten(args, kwargs, inputs)
        users = [inputs[index] for index in self._users]
        try:
            weights = [held[name] for held, name in self._slots]
            moved = list(map(_address, weights)) != self._addresses
        except (KeyError, TypeError) as error:
            raise BindError(f"a weight of the bound model is gone: {error}") from error
        if moved:
            self._check_weights(weights)
        prepared = self._prepare(users, weights)
        if prepared is None:
            given = dict(zip(self._users, users, strict=True))
            raise input_mismatch(self._signature, given, weights, self._device)
        tensors, symbols = prepared
        outputs = self._run(tensors)
        results = outputs if self._finish is None else self._finish(outputs, symbols)

        if self._single is not None:
            return results[self._single]

        def original(index: int) -> Any:
            value = inputs[index]
            return weights[self._weights.index(index)] if value is None else value

        return self._build(results, original, dict(zip(self._known, symbols, strict=True)))

    def _check_weights(self, weights: Sequence[Any]) -> None:
        problems = []
        for entry, weight in zip(self._entries, weights, strict=True):
            problem = weight_problem(entry, weight, self._device)
            if problem:
                problems.append(f"{entry.name} {problem}")
        if problems:
            more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
            raise BindError(
                "the model's weights don't fit the artifact: " + "; ".join(problems[:3]) + more,
                remedy="bind a model with the configuration, dtype and device of the capture",
            )
        self._check_writes(weights)
        with self._lock:
            self._addresses = list(map(_address, weights))

    def _check_writes(self, weights: Sequence[torch.Tensor]) -> None:
        """A weight that the code writes to must not be another weight's memory."""
        written = [
            weight
            for entry, weight in zip(self._entries, weights, strict=True)
            if entry.mutated and weight.numel()
        ]
        for weight in written:
            storage = weight.untyped_storage().data_ptr()
            names = [
                entry.name
                for entry, other in zip(self._entries, weights, strict=True)
                if other.untyped_storage().data_ptr() == storage
            ]
            if len(names) > 1:
                raise BindError(
                    f"the model writes to {names[0]}, which shares memory with "
                    f"{', '.join(names[1:])}",
                    remedy="give each its own memory",
                )


class _Arguments:
    """From a call's arguments to the flat inputs."""

    def __init__(self, convention: graph_pb2.CallingConvention, model: torch.nn.Module) -> None:
        args = convention.args.container.children
        kwargs = convention.kwargs.container
        parameters = list(convention.parameters)
        self._positional = len(args)
        names = [
            parameters[index] if index < len(parameters) else f"args[{index}]"
            for index in range(len(args))
        ]
        self._positional_names = names
        self._keywords = [str(literal_value(key)) for key in kwargs.keys]
        self._keyword_set = set(self._keywords)
        trees = [*args, *kwargs.children]
        self._flatten: list[Flatten] = [
            compile_flatten(tree, repr(name))
            for tree, name in zip(trees, [*names, *self._keywords], strict=True)
        ]
        try:
            self._forward: inspect.Signature | None = inspect.signature(model.forward)
        except (TypeError, ValueError):
            self._forward = None

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Any]) -> None:
        """Puts each leaf into its place; raises InputMismatchError."""
        if len(args) != self._positional or kwargs.keys() != self._keyword_set:
            args, kwargs = self._rearrange(args, kwargs)
        for part, value in zip(self._flatten, args, strict=False):
            part(value, inputs)
        for part, name in zip(self._flatten[self._positional :], self._keywords, strict=True):
            part(kwargs[name], inputs)

    def _rearrange(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call as it was captured: positions or keywords, and defaults filled in."""
        if self._forward is None:
            raise InputMismatchError("call it with the arguments of the capture")
        try:
            bound = self._forward.bind(*args, **kwargs)
        except TypeError as error:
            raise InputMismatchError(f"forward() {error}") from error
        bound.apply_defaults()
        flat = self._by_name(bound)
        taken = [*self._positional_names, *self._keywords]
        missing = [name for name in taken if flat.get(name, _MISSING) is _MISSING]
        if missing:
            raise InputMismatchError(f"the argument {missing[0]!r} is missing; captured had it")
        for name, value in flat.items():
            parameter = self._forward.parameters.get(name)
            default = parameter.default if parameter is not None else _MISSING
            if name not in taken and value is not default and not _same(value, default):
                raise InputMismatchError(
                    f"the argument {name!r} was not given at capture",
                    remedy="leave it out, or capture the model with it",
                )
        return (
            tuple(flat[name] for name in self._positional_names),
            {name: flat[name] for name in self._keywords},
        )

    @staticmethod
    def _by_name(bound: inspect.BoundArguments) -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                flat.update(value)
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                flat.update({f"args[{len(flat) + i}]": item for i, item in enumerate(value)})
            else:
                flat[name] = value
        return flat


def _same(value: Any, default: Any) -> bool:
    simple = (bool, int, float, str, type(None))
    return isinstance(value, simple) and type(value) is type(default) and value == default


def _device_of(model: torch.nn.Module, device_type: str) -> torch.device:
    """Where the model is; its device index decides on which GPU the code runs."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type == device_type == "cuda":
            return tensor.device
    if device_type == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def bind(loaded: LoadedArtifact, model: torch.nn.Module) -> Callable[..., Any]:
    """A BoundModel; raises BindError."""
    return BoundModel(loaded, model)
