"""What the index says of a key: small JSON that checks itself.

In: bytes that a tier kept. Out: an IndexEntry, or None for anything that ``encode`` did not write.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from compile_farm.artifact import is_hex_digest


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """``key`` has the artifact ``digest`` of ``size`` bytes, published at ``created`` (Unix time).

    ``tier`` is where the artifact lies: the first tier, in the order of reading, that has it.
    ``missed`` names the tiers that did not take it when it was published; empty for one looked up.
    ``quarantined`` says what a host found wrong with it: no host gets it then.
    """

    key: str
    digest: str
    size: int
    created: int
    tier: str = ""
    missed: tuple[str, ...] = ()
    quarantined: str = ""


def encode(entry: IndexEntry) -> bytes:
    """The bytes to keep; where it was found is not among them."""
    fields = {
        "key": entry.key,
        "digest": entry.digest,
        "size": entry.size,
        "created": entry.created,
        **({"quarantined": entry.quarantined} if entry.quarantined else {}),
    }
    # A flipped digit would make another valid entry, so the entry carries its own digest.
    check = hashlib.sha256(json.dumps(fields).encode()).hexdigest()
    return json.dumps({**fields, "check": check}).encode()


def decode(data: bytes) -> IndexEntry | None:
    """None unless ``encode`` wrote exactly these bytes."""
    try:
        fields = json.loads(data)
        entry = IndexEntry(
            key=fields["key"],
            digest=fields["digest"],
            size=fields["size"],
            created=fields["created"],
            quarantined=fields.get("quarantined", ""),
        )
    # RecursionError: brackets nested deeper than the parser goes.
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not (
        isinstance(entry.key, str)
        and isinstance(entry.digest, str)
        and is_hex_digest(entry.key)
        and is_hex_digest(entry.digest)
        and type(entry.size) is int
        and type(entry.created) is int
        and isinstance(entry.quarantined, str)
        and entry.size >= 0
    ):
        return None
    return entry if encode(entry) == data else None
