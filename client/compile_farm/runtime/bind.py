"""Binds an artifact to a model: a callable with ``model.forward``'s signature, without tracing.

In: a loaded artifact and a model whose weights fit it. Out: ``BoundModel``. Weights are used where
the model holds them, never copied: updates in place are seen, buffers are written to, and a
parameter that is replaced or moved is checked again at the next call. Inputs are checked at every
call. It runs as inference: results don't require gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch

from compile_farm.errors import BindError, InputMismatchError
from compile_farm.runtime.arguments import Arguments
from compile_farm.runtime.canary import Canary
from compile_farm.runtime.checks import CheckCompiler
from compile_farm.runtime.explain import input_mismatch, shared_memory
from compile_farm.runtime.loaded import LoadedArtifact, finisher
from compile_farm.runtime.modules import why_another
from compile_farm.runtime.overlap import WriteWatch, first_shared
from compile_farm.runtime.trees import compile_build
from compile_farm.runtime.watch import ModelWatch
from compile_farm.runtime.weights import Slot, find_slots, require_no_other, weight_problem
from compile_farm.v1 import artifact_pb2, graph_pb2

_address = torch.Tensor.data_ptr


@dataclass(frozen=True)
class _Weights:
    """The weights as they were checked last; replaced as a whole when one of them moves."""

    addresses: list[int]
    # The same memory under tensors of our own: nothing else can come to lie at these addresses,
    # and nobody can give them another dtype or size.
    tensors: list[torch.Tensor]
    watch: WriteWatch


class BoundModel:
    """Calls the compiled code with this model's weights.

    Attributes:
        key: the key that the artifact was compiled under.
        manifest: what it says of itself.

    A weight that was changed in place is used as it is now; one that was replaced or moved
    (``model.half()``, ``load_state_dict(..., assign=True)``) is checked again at the next call,
    which raises BindError if it no longer fits. So is a submodule that was replaced. A setting
    that changed (a factor, a mode, a hook) raises InputMismatchError: the code has it as a
    constant.
    Calls from several threads are safe; on one device they wait for each other.
    """

    # Dynamo must call this and not look into it.
    _torchdynamo_disable = True

    def __init__(
        self, loaded: LoadedArtifact, model: torch.nn.Module, method: str = "forward"
    ) -> None:
        """Raises BindError where the model is not what was captured."""
        manifest = loaded.manifest
        if not manifest.calling_convention.HasField("result"):
            raise BindError(
                "this artifact was captured through torch.compile and has no names to bind by",
                remedy="use torch.compile(model, backend='compile_farm'), or farm.submit",
            )
        self.key: str = manifest.key
        self.manifest: artifact_pb2.Manifest = manifest
        self._model = model
        self._training = model.training
        self._signature = manifest.signature
        self._device = _device_of(model, loaded.device_type)
        inputs = list(enumerate(self._signature.inputs))
        self._users = [i for i, entry in inputs if entry.role == graph_pb2.ROLE_USER_INPUT]
        self._weights = [i for i, entry in inputs if entry.role != graph_pb2.ROLE_USER_INPUT]
        self._entries = [self._signature.inputs[index] for index in self._weights]
        self._places = {index: place for place, index in enumerate(self._weights)}
        self._arguments = Arguments(manifest.calling_convention, getattr(model, method))
        self._blank: list[Any] = [None] * len(inputs)
        self._watch: ModelWatch | None = None
        self.rebind()
        compiler = CheckCompiler(
            self._signature, manifest.compiled_inputs, self._users, self._weights, self._device
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

    def rebind(self) -> None:
        """Checks the modules that the model has now, and finds and checks all weights again."""
        if self._watch is not None:
            self._require_unchanged(self._watch)
        watch = ModelWatch(self._model)
        modules = self.manifest.calling_convention.modules
        subclasses = self.manifest.calling_convention.subclasses
        slots = find_slots(self._model, self._entries, subclasses, self._device)
        checked = self._check([held[name] for held, name in slots])
        problem = why_another(modules, self._model)
        if problem is not None:
            raise BindError(
                f"the model is not the one that was captured: {problem}",
                remedy="bind a model of the same code, configuration and mode, or capture this one",
            )
        if modules:
            require_no_other(self._model, self._entries, subclasses)
        self._checked, self._watch = checked, watch
        self._homes = [held for held, _ in slots]
        self._names = [name for _, name in slots]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As ``model.forward``; raises InputMismatchError, before anything ran, if it can't be."""
        if self._model.training is not self._training:
            raise InputMismatchError(
                "the model changed between train() and eval() after it was bound",
                remedy="set it back, or capture it in this mode",
            )
        if torch.is_autocast_enabled(self._device.type):
            raise InputMismatchError(
                "autocast is on, and the model was captured without it",
                remedy="call it outside, or enter autocast inside forward and capture that",
            )
        watch = self._watch
        assert watch is not None
        if not watch.is_as_before():
            self._require_unchanged(watch)
        if not watch.has_same_modules():
            self.rebind()
        inputs = self._blank.copy()
        self._arguments.flatten(args, kwargs, inputs)
        users = [inputs[index] for index in self._users]
        checked = self._checked
        try:
            moved = list(map(_address, map(getitem, self._homes, self._names))) != checked.addresses
        except (KeyError, TypeError, RuntimeError):
            moved = True  # one of them is gone: the check says which
        if moved:
            checked = self._recheck()
        prepared = self._prepare(users, checked.tensors)
        if prepared is None:
            given = dict(zip(self._users, users, strict=True))
            raise input_mismatch(self._signature, given, self._device)
        if checked.watch.needed and (position := checked.watch.conflict(users)) is not None:
            index = self._users[position]
            raise shared_memory(self._signature.inputs[index], index)
        tensors, symbols = prepared
        outputs = self._run(tensors)
        results = outputs if self._finish is None else self._finish(outputs, symbols)
        if self._single is not None:
            return results[self._single]

        def original(index: int) -> Any:
            place = self._places.get(index)
            return inputs[index] if place is None else self._homes[place][self._names[place]]

        return self._build(results, original, dict(zip(self._known, symbols, strict=True)))

    @staticmethod
    def _require_unchanged(watch: ModelWatch) -> None:
        if (what := watch.changed()) is not None:
            raise InputMismatchError(
                f"the model changed after it was bound: {what}",
                remedy="set it back, or capture the model as it is now",
            )

    def written_slots(self) -> list[Slot]:
        """Where the weights are that a call writes to."""
        places = zip(self._entries, self._homes, self._names, strict=True)
        # What lies inside a subclass is refused at capture if it is written to.
        return [
            (home, name) for entry, home, name in places if entry.mutated and isinstance(home, dict)
        ]

    def _recheck(self) -> _Weights:
        found = [held.get(name) for held, name in zip(self._homes, self._names, strict=True)]
        checked = self._check(found)
        self._checked = checked
        return checked

    def _check(self, weights: Sequence[Any]) -> _Weights:
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
        written = [entry.mutated for entry in self._entries]
        if (pair := first_shared(weights, written)) is not None:
            one, other = (self._entries[place].name for place in pair)
            raise BindError(
                f"the model writes to {one}, which shares memory with {other}",
                remedy="give each its own memory",
            )
        users_written = [self._signature.inputs[index].mutated for index in self._users]
        return _Weights(
            list(map(_address, weights)),
            [weight.detach() for weight in weights],
            WriteWatch(users_written, weights, written),
        )


def _device_of(model: torch.nn.Module, device_type: str) -> torch.device:
    """Where the model is; its device index decides on which GPU the code runs."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type == device_type == "cuda":
            return tensor.device
    if device_type == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


class WatchedModel:
    """A BoundModel whose first calls also run eager; see canary.py."""

    _torchdynamo_disable = True

    def __init__(self, bound: BoundModel, canary: Canary) -> None:
        self._bound = bound
        self._canary = canary
        self.key, self.manifest = bound.key, bound.manifest
        self.rebind = bound.rebind

    @property
    def difference(self) -> str | None:
        """What was found to differ from eager, which runs since then; None if nothing was."""
        return self._canary.difference

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As BoundModel's."""
        return self._canary.call(self._bound, args, kwargs)


def bind(
    loaded: LoadedArtifact,
    model: torch.nn.Module,
    verify_on_load: int = 0,
    quarantine: Callable[[str], None] | None = None,
    method: str = "forward",
) -> BoundModel | WatchedModel:
    """``method``: which of the model's was captured. Raises BindError."""
    bound = BoundModel(loaded, model, method)
    if not verify_on_load:
        return bound
    canary = Canary(
        loaded.manifest,
        verify_on_load,
        model if method == "forward" else getattr(model, method),
        slots=bound.written_slots,
        quarantine=quarantine,
    )
    return WatchedModel(bound, canary)
