"""From the arguments of a call to the flat inputs of the Signature.

In: positional and keyword arguments in any mix that ``model.forward`` takes. Out: each tensor and
number in its place, or InputMismatchError that names what is missing, superfluous or of another
structure. Fixed arguments must be equal to what was captured, given or by default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from compile_farm.errors import InputMismatchError
from compile_farm.runtime.trees import Flatten, compile_flatten, literal_value, same_literal
from compile_farm.v1 import graph_pb2

_MISSING = object()


class Arguments:
    """Compiled once for an artifact and the method of the model that it is bound to."""

    def __init__(
        self, convention: graph_pb2.CallingConvention, forward: Callable[..., Any]
    ) -> None:
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
            self._forward: inspect.Signature | None = inspect.signature(forward)
        except (TypeError, ValueError):
            self._forward = None
        named = self._forward.parameters if self._forward is not None else {}
        # What ``**kwargs`` takes; forward may go through it in order.
        self._open = [name for name in self._keywords if name not in named]

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Any]) -> None:
        """Puts each leaf into its place; raises InputMismatchError."""
        if len(args) != self._positional or kwargs.keys() != self._keyword_set:
            args, kwargs = self._rearrange(args, kwargs)
        if len(self._open) > 1 and (order := [name for name in kwargs if name in self._open]) != (
            self._open
        ):
            raise InputMismatchError(
                f"the keyword arguments come in the order {order}, at capture it was {self._open}"
            )
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
    return isinstance(value, simple) and same_literal(value, default)
