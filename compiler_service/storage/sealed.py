"""Records that check themselves: bytes under a name, which a tier can't alter or swap unseen.

In: a name and a payload. Out: what to keep; and from what a tier kept the payload again, or None
for anything that ``seal`` did not write under that very name.
"""

from __future__ import annotations

import hashlib

from compiler_service.storage.name import Name

_MAGIC = b"compile-farm record v1\n"
_DIGEST_BYTES = 32


def seal(name: Name, payload: bytes) -> bytes:
    """The bytes to keep under ``name``."""
    return _MAGIC + _digest(name, payload) + payload


def unseal(name: Name, data: bytes) -> bytes | None:
    """The payload; None unless ``seal`` wrote exactly these bytes for this name."""
    head = len(_MAGIC) + _DIGEST_BYTES
    payload = data[head:]
    if data[:head] != _MAGIC + _digest(name, payload):
        return None
    return payload


def _digest(name: Name, payload: bytes) -> bytes:
    return hashlib.sha256(f"{name}\n".encode() + payload).digest()
