"""What asking a store can end in: values, not exceptions, so that an outage can't look like a miss."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hit:
    """The bytes, and the name of the tier that had them."""

    data: bytes
    tier: str


@dataclass(frozen=True, slots=True)
class Miss:
    """Every tier answered, and none has it."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """These tiers did not answer, and no other tier has it: it may or may not be there."""

    tiers: tuple[str, ...]
    reason: str


Outcome = Hit | Miss | Unavailable
