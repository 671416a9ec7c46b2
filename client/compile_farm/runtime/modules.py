"""What a capture bakes in of a model beside its weights, and whether another model has the same.

In: a model. Out: for each of its modules the class's name, the mode and plain numbers; or in words
what differs. A graph has them as constants (an eps, a slope, dropout or none), so a model that
differs would bind, and answer wrongly.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from compile_farm.runtime.trees import literal_of, literal_value, same_literal
from compile_farm.v1 import graph_pb2

# Longer texts and tuples are no settings of a layer.
_LONGEST = 200
_NUMBERS = (bool, int, float)
# What every module has, and what transformers notes on modules whose weights it has set.
STANDARD = frozenset(vars(torch.nn.Module())) | {"_is_hf_initialized"}

_WITH_MODES = (
    torch.nn.modules.dropout._DropoutNd,
    torch.nn.modules.batchnorm._NormBase,
    torch.nn.RReLU,
    torch.nn.RNNBase,
    torch.nn.MultiheadAttention,
    torch.nn.Transformer,
    torch.nn.TransformerEncoder,
    torch.nn.TransformerEncoderLayer,
    torch.nn.TransformerDecoderLayer,
)


def module_states(model: torch.nn.Module) -> list[graph_pb2.ModuleState]:
    """One for each module, in the order of ``named_modules``."""
    return [
        graph_pb2.ModuleState(
            path=path,
            type_name=type(module).__name__[:_LONGEST],
            training=_trains(module),
            settings=[
                graph_pb2.Setting(name=name, value=literal_of(value))
                for name, value in _settings(module)
            ],
        )
        for path, module in model.named_modules()
    ]


def why_another(states: Sequence[graph_pb2.ModuleState], model: torch.nn.Module) -> str | None:
    """In what the model is not the one of these states; None if it is, or if there are none."""
    if not states:
        return None
    modules = dict(model.named_modules())
    for state in states:
        where = f"the module {state.path}" if state.path else "the model"
        module = modules.pop(state.path, None)
        if module is None:
            return f"{where} ({state.type_name}) is missing"
        if type(module).__name__[:_LONGEST] != state.type_name:
            return f"{where} is a {type(module).__name__}, captured was a {state.type_name}"
        if _trains(module) != state.training:
            now, then = _mode(_trains(module)), _mode(state.training)
            return f"{where} ({state.type_name}) is in {now} mode, captured was {then} mode"
        settings = dict(_settings(module))
        for setting in state.settings:
            then = literal_value(setting.value)
            if setting.name not in settings or not same_literal(settings[setting.name], then):
                now = settings.get(setting.name, "missing")
                return f"{where} ({state.type_name}) has {setting.name}={now}, captured was {then}"
    if modules:
        path, module = next(iter(modules.items()))
        return f"the model has a module {path} ({type(module).__name__}), captured had none"
    return None


def _trains(module: torch.nn.Module) -> bool:
    """Its mode; False for those of torch's layers that do the same in both."""
    return module.training and has_mode(module)


def has_mode(module: torch.nn.Module) -> bool:
    """Whether train and eval may differ: not for most of torch's layers."""
    own = type(module).__module__.startswith("torch.nn.")
    return not own or isinstance(module, _WITH_MODES)


def _mode(training: bool) -> str:
    return "train" if training else "eval"


def _settings(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """Names and values, sorted: a layer's documented ones, and of other classes plain numbers,
    lists of them, and functions (an activation).

    Texts of other classes are left out: paths and names are among them.
    """
    if type(module).__module__.startswith("torch.nn."):
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) and not module.training:
            return
        names: Iterable[str] = set(getattr(module, "__constants__", ()))
        simple: tuple[type, ...] = (bool, int, float, str, type(None), tuple)
    else:
        names = [name for name in module.__dict__ if name not in STANDARD]
        simple = _NUMBERS
    for name in sorted(names):
        value = getattr(module, name, None)
        if simple is _NUMBERS and (text := _as_text(value)) is not None:
            yield name, text
        # Beyond 64 bits it is no size and no flag.
        if type(value) in simple and not (type(value) is int and abs(value) >= 2**62):
            if type(value) is str:
                value = value[:_LONGEST]
            yield name, _shortened(repr(value)) if type(value) is tuple else value


def _as_text(value: Any) -> str | None:
    """A list of numbers, or a function's name; None for anything else."""
    if type(value) in (list, tuple) and all(type(item) in _NUMBERS for item in value):
        return _shortened(repr(value))
    if isinstance(value, types.FunctionType):
        # Without its module, which is __main__ here and another name elsewhere.
        return f"the function {value.__qualname__}"[:_LONGEST]
    if isinstance(value, types.BuiltinFunctionType):
        return f"the function {value.__name__}"[:_LONGEST]
    return None


def _shortened(text: str) -> str:
    """Two long texts that begin alike stay two."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:100]}... (SHA-256 {hashlib.sha256(text.encode()).hexdigest()})"
