"""Whose artifacts this process runs: Ed25519 public keys, and the check of a signature.

In: keys from an option, the environment or, for a farm on loopback only, from that farm at first
use. Out: nothing where a manifest was signed by one of them, else UntrustedArtifactError. An
artifact is native code: a store or a network that can replace one must not be able to run it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from compile_farm.errors import UntrustedArtifactError
from compile_farm.files import write_whole
from compile_farm.v1 import artifact_pb2

# Stands before the manifest in what is signed, so that a signature made for one thing can't be
# shown as another's. The last line of a manifest format is its version.
SIGNATURE_CONTEXT = b"compile-farm manifest v1\n"
KEYS_VARIABLE = "COMPILE_FARM_TRUSTED_KEYS"
PUBLIC_KEY_BYTES = 32

_HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")


def key_id(public_bytes: bytes) -> str:
    """How a raw public key is named: the first 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(public_bytes).hexdigest()[:16]


class TrustStore:
    """The public keys (raw, 32 bytes each) whose artifacts may run; never changed once made."""

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._keys: dict[str, bytes] = {}
        for key in keys:
            if len(key) != PUBLIC_KEY_BYTES:
                raise UntrustedArtifactError(
                    f"a public key has {len(key)} bytes, Ed25519's have {PUBLIC_KEY_BYTES}",
                    remedy="give the raw key in hexadecimal or base64",
                )
            self._keys[key_id(key)] = bytes(key)

    @staticmethod
    def parse(entries: str | Iterable[str]) -> TrustStore:
        """From keys in hexadecimal or base64 or paths of files with them, one or several.

        A string is split at commas. Raises UntrustedArtifactError that names what can't be read.
        """
        if isinstance(entries, str):
            entries = entries.split(",")
        return TrustStore(key for entry in entries if entry.strip() for key in _keys_of(entry))

    @staticmethod
    def from_environment() -> TrustStore:
        """What COMPILE_FARM_TRUSTED_KEYS says; empty where it is not set."""
        return TrustStore.parse(os.environ.get(KEYS_VARIABLE, ""))

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The raw keys."""
        return tuple(self._keys.values())

    def verify(
        self,
        signed: bytes,
        signature: artifact_pb2.ManifestSignature,
        context: bytes = SIGNATURE_CONTEXT,
        what: str = "artifact",
    ) -> None:
        """Returns if a trusted key signed these bytes as ``context`` says.

        Raises UntrustedArtifactError, whose words call them ``what``.
        """
        known = self._keys.get(signature.key_id)
        if known is None:
            trusted = ", ".join(self._keys) or "none"
            raise UntrustedArtifactError(
                f"the {what} was signed by the key {signature.key_id[:16]!r}, which is not "
                f"trusted here (trusted: {trusted})",
                remedy=f"add the farm's public key to {KEYS_VARIABLE} if it is yours",
            )
        # Costs tens of milliseconds to import, so only where something is verified.
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(known).verify(signature.ed25519, context + signed)
        except InvalidSignature:
            raise UntrustedArtifactError(
                f"the signature by the key {signature.key_id} does not fit the {what}",
                remedy="it was altered after it was signed: don't use it, and make it again",
            ) from None


class FirstUse:
    """Remembers the keys that farms on loopback showed at first use, one file per address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def recall(self, address: str) -> TrustStore:
        """The keys trusted at first use; empty where there was none."""
        try:
            return TrustStore.parse(self._file(address).read_text().split())
        except FileNotFoundError:
            return TrustStore()

    def accept(self, address: str, keys: Iterable[bytes]) -> TrustStore:
        """Trusts ``keys`` if this address is new here, else only if they are the same as then.

        Raises UntrustedArtifactError where they changed.
        """
        shown, known = TrustStore(keys), self.recall(address)
        if not known:
            self._write(address, shown)
            return shown
        if set(shown.keys) - set(known.keys):
            raise UntrustedArtifactError(
                f"the farm at {address} signs with another key than when this host first used it "
                f"({', '.join(map(key_id, shown.keys))}, not {', '.join(map(key_id, known.keys))})",
                remedy=f"if it was set up anew, remove {self._file(address)}",
            )
        return known

    def _file(self, address: str) -> Path:
        return self._folder / re.sub(r"[^0-9A-Za-z.\-]", "_", address)

    def _write(self, address: str, store: TrustStore) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = "".join(f"{key.hex()}\n" for key in store.keys)
        write_whole(self._file(address), text.encode())


def _keys_of(entry: str) -> Iterator[bytes]:
    entry = entry.strip()
    if (key := _decode(entry)) is not None:
        yield key
        return
    path = Path(entry).expanduser()
    try:
        words = path.read_text().split()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UntrustedArtifactError(
            f"{entry!r} is neither a public key in hexadecimal or base64 nor a readable file",
            remedy=f"{KEYS_VARIABLE} takes keys or paths, separated by commas",
        ) from error
    for word in words:
        if (key := _decode(word)) is None:
            raise UntrustedArtifactError(f"{path} holds {word[:80]!r}, which is no public key")
        yield key


def _decode(text: str) -> bytes | None:
    if _HEX_KEY.fullmatch(text):
        return bytes.fromhex(text)
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == PUBLIC_KEY_BYTES else None
