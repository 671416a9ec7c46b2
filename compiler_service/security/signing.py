"""The farm's signing key: Ed25519, in a file that only its owner can read.

In: a path. Out: a key that signs manifests. It stays in the worker's own process and never enters
the sandbox, where graphs from strangers are compiled.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from compile_farm.trust import SIGNATURE_CONTEXT, key_id
from compile_farm.v1 import artifact_pb2

_SEED_BYTES = 32


class SigningKeyError(Exception):
    """The key's file can't be used; the message says why and what to do."""


class SigningKey:
    """Signs manifests; ``public_bytes`` is what clients must trust.

    ``path`` is where it was read from, which sandboxes must not be able to read; None for a key
    that only exists in memory.
    """

    def __init__(self, seed: bytes, path: Path | None = None) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_bytes: bytes = self._key.public_key().public_bytes_raw()
        self.key_id: str = key_id(self.public_bytes)
        self.path = path

    @classmethod
    def load_or_create(cls, path: Path) -> SigningKey:
        """The key in ``path``, made anew if there is none; two processes end up with the same.

        Raises SigningKeyError for a file that is no key, or that others can read.
        """
        try:
            if not path.exists():
                _create(path)
            mode, text = path.stat().st_mode, path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SigningKeyError(f"the signing key {path} can't be read: {error}") from error
        if mode & 0o077:
            raise SigningKeyError(
                f"the signing key {path} can be read by others: run chmod 600 {path}, and replace "
                "the key if somebody may have copied it"
            )
        try:
            seed = bytes.fromhex(text)
        except ValueError:
            seed = b""
        if len(seed) != _SEED_BYTES:
            raise SigningKeyError(
                f"{path} holds no signing key (64 hexadecimal digits): restore it, or move it away "
                "to have a new one made, which clients must then be told to trust"
            )
        return cls(seed, path)

    def sign(
        self, data: bytes, context: bytes = SIGNATURE_CONTEXT
    ) -> artifact_pb2.ManifestSignature:
        """A signature over exactly these bytes: a manifest's, or what ``context`` says."""
        return artifact_pb2.ManifestSignature(
            key_id=self.key_id, ed25519=self._key.sign(context + data)
        )


def _create(path: Path) -> None:
    """Writes a new key beside the path and links it there, unless another process was faster."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix="signing-", dir=path.parent)  # mode 0600
        try:
            with os.fdopen(handle, "w") as file:
                file.write(os.urandom(_SEED_BYTES).hex() + "\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, path)
            except FileExistsError:
                pass
        finally:
            os.unlink(temporary)
        # A key that is gone after a power cut would be replaced by one that no client trusts.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise SigningKeyError(f"the signing key {path} can't be made: {error}") from error
