"""What the storage room raises; an outage that still leaves an answer is a value (outcome.py).

StoreError
├── InvalidNameError    a key or digest that is not 64 hexadecimal digits
├── StoreUrlError       a ``--store`` URL that can't be read, or a folder that can't be used
├── PublishError        no tier took the artifact
└── NoTierError         no tier answers, so there is nothing to list
"""

from __future__ import annotations


class StoreError(Exception):
    """Base of all; ``remedy`` is one sentence, ``retryable`` whether the same call may succeed."""

    retryable = False

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class InvalidNameError(StoreError, ValueError):
    """A key, digest or page token that nothing in a store can have."""


class StoreUrlError(StoreError, ValueError):
    """A store's URL that names nothing usable; says which forms are accepted."""


class PublishError(StoreError):
    """No tier took the artifact, or none took its index entry; it can't be found later."""

    retryable = True


class NoTierError(StoreError):
    """No tier answers."""

    retryable = True
