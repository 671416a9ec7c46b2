"""The name of an object in a store: a space and 64 hexadecimal digits, checked once, here.

In: keys and digests that came over the network. Out: names that can't leave their folder, their
prefix or their bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from compile_farm.artifact import is_hex_digest
from compiler_service.storage.errors import InvalidNameError

Space = Literal["blobs", "index", "releases", "pins"]


# A reader stops one byte behind these, so that a monstrous object is corrupt and not a full memory.
_LARGEST: dict[Space, int] = {
    "blobs": 1 << 30,
    "index": 4096,
    "releases": 8 << 20,
    "pins": 64 << 10,
}
SPACES = tuple(_LARGEST)


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """``space``: "blobs" by digest, "index" by key, "releases" and "pins" by SHA-256 of what they
    are called; ``digits``: 64, lower case.
    """

    space: Space
    digits: str

    def __post_init__(self) -> None:
        if self.space not in _LARGEST or not is_hex_digest(self.digits):
            raise InvalidNameError(
                f"{self.digits[:80]!r} is no name in {self.space!r}",
                remedy="a key or digest is 64 hexadecimal digits in lower case",
            )

    def __str__(self) -> str:
        return f"{self.space}/{self.digits}"

    @property
    def largest(self) -> int:
        """The most bytes that an object of this space may have."""
        return _LARGEST[self.space]


def blob(digest: str) -> Name:
    """The name of an artifact's bytes. Raises InvalidNameError."""
    return Name("blobs", digest)


def index(key: str) -> Name:
    """The name of a key's index entry. Raises InvalidNameError."""
    return Name("index", key)
