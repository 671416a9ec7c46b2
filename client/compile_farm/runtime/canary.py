"""The canary: an artifact's first calls also run eager, and a difference ends its use here.

In: what runs compiled, what runs eager, and how many calls to watch. Out: the compiled results;
from the first difference on eager's, with inputs and buffers written to as eager would have. Both
runs draw the same random numbers. The bound is what the worker measured on random inputs, with room
for those of a host: see ``Canary.allowed``.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from compile_farm.errors import CompileFarmError
from compile_farm.runtime.numbers import (
    bits,
    copy_as_it_lies,
    is_inexact,
    largest_error,
    relative_error,
    rounding,
    same_kind,
    wide,
)
from compile_farm.runtime.subclasses import is_subclass, plain_parts, rebuilt
from compile_farm.runtime.weights import Slot
from compile_farm.v1 import artifact_pb2

log = logging.getLogger(__name__)

# A host's inputs and weights are no random ones: sums cancel that did not there.
_ROOM = 4.0
# A single element may be so many times further off than all of them by norm.
_ONE_ELEMENT = 8.0

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Canary:
    """Watches the first ``calls`` calls; safe to use from several threads, which wait then."""

    def __init__(
        self,
        manifest: artifact_pb2.Manifest,
        calls: int,
        eager: Callable[..., Any],
        slots: Callable[[], list[Slot]] = list,
        written: Iterable[int] | None = None,
        quarantine: Callable[[str], None] | None = None,
    ) -> None:
        """
        Args:
            eager: takes a call's arguments and runs the model.
            slots: where the weights are that the model writes to; eager gets copies in their place.
            written: positions of the arguments that the model may write to; None: all. Eager gets
                copies of them.
            quarantine: told what was found, once; what it raises is logged.
        """
        if calls < 0:
            raise CompileFarmError(f"verify_on_load is {calls}", remedy="give 0 or more calls")
        self.left = calls
        self.difference: str | None = None
        self._runs = manifest.verification.runs
        self._device = manifest.target.WhichOneof("hardware")
        self._eager = eager
        self._slots = slots
        self._written = None if written is None else frozenset(written)
        self._quarantine = quarantine
        self._lock = threading.Lock()

    def allowed(self, dtype: torch.dtype) -> float:
        """The largest relative error between the two.

        Each may be as far from the exact result as it was when the worker compared them, and no
        bound goes below the dtype's own rounding; all of it four times.
        """
        measured = max((run.bound + run.eager_error for run in self._runs), default=0.0)
        return _ROOM * max(measured, rounding(dtype))

    def call(self, compiled: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
        """The result of a call that is to be watched, or eager's."""
        if self.difference is None and self.left > 0:
            with self._lock:
                if self.difference is None and self.left > 0:
                    result = self._watch(compiled, args, kwargs)
                    self.left -= 1
                    return result
        if self.difference is not None:
            return self._run_eager(args, kwargs)
        return compiled(*args, **kwargs)

    def _watch(self, compiled: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
        given, slots = (args, dict(kwargs)), self._slots()
        seed = _RandomState(self._device == "cuda")
        try:
            # Of a write both the state before it and eager's after it are needed.
            before, copies = self._copied(given), self._copied(given)
            slots_before = [copy_as_it_lies(home[name]) for home, name in slots]
            expected, held = self._eager_on_copies(copies, slots)
        except torch.OutOfMemoryError:
            log.warning("no memory to run eager beside the artifact: this call was not verified")
            seed.restore()
            return compiled(*args, **kwargs)
        seed.restore()
        result = compiled(*args, **kwargs)
        found = self._compare(
            (result, given, [home[name] for home, name in slots]), (expected, copies, held)
        )
        if found is None:
            return result
        seed.restore()
        for now, then in zip(_tensors(given), _tensors(before), strict=True):
            _restore(now, then)
        for (home, name), then in zip(slots, slots_before, strict=True):
            _restore(home[name], then)
        self._give_up(found)
        return self._run_eager(args, kwargs)

    def _copied(self, given: tuple[Any, dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
        if self._written is None:
            copied: tuple[Any, dict[str, Any]] = tree_map_only(torch.Tensor, _copy, given)
            return copied
        args, kwargs = given
        return tuple(
            _copy(value) if index in self._written and isinstance(value, torch.Tensor) else value
            for index, value in enumerate(args)
        ), kwargs

    def _run_eager(self, args: Any, kwargs: Mapping[str, Any]) -> Any:
        with torch.no_grad():
            return self._eager(*args, **kwargs)

    def _eager_on_copies(
        self, given: tuple[Any, dict[str, Any]], slots: Sequence[Slot]
    ) -> tuple[Any, list[Any]]:
        """Eager's result, and the written weights as it left them; the real ones stay."""
        originals = [home[name] for home, name in slots]
        for (home, name), original in zip(slots, originals, strict=True):
            home[name] = copy_as_it_lies(original)
        try:
            result = self._run_eager(*given)
            return result, [home[name] for home, name in slots]
        finally:
            for (home, name), original in zip(slots, originals, strict=True):
                home[name] = original

    def _compare(self, mine: tuple[Any, Any, Any], theirs: tuple[Any, Any, Any]) -> str | None:
        for what, one, other in zip(("result", "argument", "buffer"), mine, theirs, strict=True):
            ours, eagers = list(_leaves(one)), list(_leaves(other))
            if len(ours) != len(eagers):
                return f"{len(ours)} values in the {what}, eager has {len(eagers)}"
            for index, pair in enumerate(zip(ours, eagers, strict=True)):
                if (found := self._difference(*pair)) is not None:
                    return f"{what} {index}: {found}"
        return None

    def _difference(self, mine: Any, theirs: Any) -> str | None:
        if not isinstance(mine, torch.Tensor) or not isinstance(theirs, torch.Tensor):
            # Objects of other kinds are the model's own and don't come from compiled code.
            same = type(mine) is type(theirs) and (mine == theirs or not isinstance(mine, _PLAIN))
            return None if same else f"{mine!r}, eager has {theirs!r}"
        if mine is theirs:
            return None
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return (
                f"{tuple(mine.shape)} {mine.dtype}, eager has {tuple(theirs.shape)} {theirs.dtype}"
            )
        if not is_inexact(mine):
            wrong = int((mine != theirs).sum())
            return f"{wrong} of {mine.numel()} integers differ" if wrong else None
        one, other = wide(mine), wide(theirs)
        if not same_kind(one, other):
            return "NaN or infinity where eager has none, or the reverse"
        finite = torch.isfinite(other)
        one, other = one[finite], other[finite]
        allowed = self.allowed(mine.dtype)
        error, largest = relative_error(one, other), largest_error(one, other)
        if error <= allowed and largest <= _ONE_ELEMENT * allowed:
            return None
        return f"relative error {error:.3g}, largest element {largest:.3g}; allowed {allowed:.3g}"

    def _give_up(self, found: str) -> None:
        self.difference = found
        log.error("the artifact differs from eager and is not used any more: %s", found)
        if self._quarantine is not None:
            try:
                self._quarantine(f"differs from eager on a host: {found}")
            except CompileFarmError as error:
                log.error("the farm could not be told of it: %s", error)


class _RandomState:
    """The generators as they stand now."""

    def __init__(self, cuda: bool) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state() if cuda else None

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state(self._cuda)


def _restore(now: torch.Tensor, then: torch.Tensor) -> None:
    # Most were not written to; and one with shared elements can't be written to at once.
    if now is not then and not torch.equal(bits(now), bits(then)):
        with torch.no_grad():
            now.copy_(then)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in _leaves(value) if isinstance(leaf, torch.Tensor)]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return rebuilt(tensor, copy_as_it_lies)


def _leaves(value: Any) -> Iterator[Any]:
    if is_subclass(value):
        yield from (part for _, part in plain_parts("", value))
    elif isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name))
    else:
        yield value
