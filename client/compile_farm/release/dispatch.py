"""One entry point of a loaded release: to each call the artifact that takes it.

In: artifacts bound to one model, and what runs eager. Out: a callable. The signature of a call
(shapes, strides, dtypes, devices, fixed values) decides; which artifact took one like it is
remembered, and each artifact checks its inputs itself before anything runs. What none of them takes
runs eager, or is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from compile_farm.errors import BindError, InputMismatchError
from compile_farm.runtime.bind import BoundModel, WatchedModel
from compile_farm.v1 import graph_pb2

log = logging.getLogger(__name__)

Bound = BoundModel | WatchedModel

# Of signatures of calls, how many are remembered; a server of every length meets thousands.
_MOST_KNOWN = 4096


class EntryPoint:
    """Safe to call from several threads.

    Attributes:
        name: of the method.
        fallbacks: calls that no artifact took and that ran eager.
    """

    # Dynamo must call this and not look into it.
    _torchdynamo_disable = True

    def __init__(
        self,
        name: str,
        bound: Sequence[tuple[Bound, str]],
        eager: Callable[..., Any],
        *,
        raises: bool,
    ) -> None:
        """``bound`` with each artifact's digest; ``raises``: what none takes is an error."""
        self.name = name
        self.fallbacks = 0
        self._eager = eager
        self._raises = raises
        # What is made for one size comes before what takes a range.
        self._bound = sorted(bound, key=lambda pair: _freedom(pair[0].manifest.signature))
        self._known: dict[Any, Bound] = {}
        self._only = self._bound[0][0] if len(self._bound) == 1 else None

    @property
    def digests(self) -> list[str]:
        """Of the artifacts that it runs."""
        return [digest for _, digest in self._bound]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the model's method; InputMismatchError or BindError only where it ``raises``."""
        chosen = self._only
        if chosen is None:
            key = (_kind(args), _kind(kwargs))
            chosen = self._known.get(key)
            if chosen is None:
                return self._search(key, args, kwargs)
        try:
            return chosen(*args, **kwargs)
        except (InputMismatchError, BindError) as error:
            # Checked before anything ran, so another one can still answer.
            if self._only is None:
                return self._search(key, args, kwargs)
            return self._none_took(error, args, kwargs)

    def drop(self, digest: str, reason: str) -> None:
        """Runs this artifact no more."""
        log.warning("%s: the artifact %s is not run any more: %s", self.name, digest[:16], reason)
        self._bound = [pair for pair in self._bound if pair[1] != digest]
        self._only = None
        self._known = {}

    def _search(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        first: InputMismatchError | BindError | None = None
        for bound, _ in self._bound:
            try:
                result = bound(*args, **kwargs)
            except (InputMismatchError, BindError) as error:
                first = first or error
                continue
            if len(self._known) >= _MOST_KNOWN:
                self._known = {}
            self._known[key] = bound
            return result
        return self._none_took(first, args, kwargs)

    def _none_took(
        self,
        error: InputMismatchError | BindError | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if self._raises and self._bound:
            if error is not None and len(self._bound) == 1:
                raise error
            raise InputMismatchError(
                f"none of the {len(self._bound)} artifacts for {self.name} takes this call; the "
                f"first says: {error}",
                remedy="publish a release with this signature",
            )
        self.fallbacks += 1
        if self.fallbacks == 1 and self._bound:
            log.warning("%s: a call ran eager: %s", self.name, error)
        return self._eager(*args, **kwargs)


def _freedom(signature: graph_pb2.Signature) -> tuple[int, int]:
    """Symbols, and how far the widest reaches."""
    reach = [
        symbol.maximum - symbol.minimum if symbol.HasField("maximum") else 1 << 62
        for symbol in signature.symbols
    ]
    return len(reach), max(reach, default=0)


def _kind(value: Any) -> Any:
    """What of an argument may decide which artifact takes it; hashable."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value.layout
        return value.shape, value.stride(), value.dtype, value.device
    if isinstance(value, tuple | list):
        return type(value), *map(_kind, value)
    if isinstance(value, dict):
        return tuple((name, _kind(item)) for name, item in value.items())
    if isinstance(value, bool | int | float | str | None):
        return type(value), value
    return type(value)
