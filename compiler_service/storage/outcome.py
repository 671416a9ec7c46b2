"""What asking a store ends in: values, not exceptions, so that an outage can't look like a miss."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hit:
    """The bytes, and the name of the tier that had them."""

    data: bytes
    tier: str


@dataclass(frozen=True, slots=True)
class Found:
    """It is there, unread; the name of the tier that has it."""

    tier: str


@dataclass(frozen=True, slots=True)
class Miss:
    """Every tier answered, and none has it.

    ``corrupt`` names the tiers that had it truncated or altered and have removed it.
    """

    corrupt: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unavailable:
    """These tiers did not answer, and no other tier has it: it may or may not be there."""

    tiers: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Stored:
    """``tiers`` took it; ``missed`` should have and did not answer."""

    tiers: tuple[str, ...]
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The tiers answered and won't keep it, by their own rule: it is too large for Redis."""

    tiers: tuple[str, ...]
    reason: str


Outcome = Hit | Miss | Unavailable
Presence = Found | Miss | Unavailable
PutOutcome = Stored | Refused | Unavailable


def outage(answer: object) -> Unavailable | None:
    """The outage in a store's answer, whichever method gave it; of a batch, the first."""
    if isinstance(answer, Unavailable):
        return answer
    if isinstance(answer, list):
        return next((one for one in answer if isinstance(one, Unavailable)), None)
    return None
