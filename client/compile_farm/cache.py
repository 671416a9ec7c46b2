"""The local cache: artifacts by digest, unpacked, so that every process of a host maps one file.

    DIR/artifacts/<digest>/   manifest.pb, signature.pb, model.so, ...
    DIR/keys/<key>            the digest that the key last had
    DIR/locks/<digest>        held by the process that fetches it

Entries are written beside and renamed into place, so a reader sees a whole one or none. They are
native code: the folder must belong to this user alone, and each file's digest is checked again
before it is mapped.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compile_farm.artifact import (
    MANIFEST_NAME,
    SIGNATURE_NAME,
    UnpackedArtifact,
    check_files,
    is_hex_digest,
    parse_manifest,
    parse_signature,
)
from compile_farm.errors import CompileFarmError, CorruptArtifactError
from compile_farm.files import write_whole
from compile_farm.v1 import artifact_pb2

ENVIRONMENT = "COMPILE_FARM_CACHE"


class CachedArtifact:
    """One entry: its folder, and the parts that were checked when it was read."""

    def __init__(
        self,
        folder: Path,
        digest: str,
        manifest: artifact_pb2.Manifest,
        manifest_bytes: bytes,
        signature: artifact_pb2.ManifestSignature,
    ) -> None:
        self.folder = folder
        self.digest = digest
        self.manifest = manifest
        self.manifest_bytes = manifest_bytes
        self.signature = signature

    @property
    def shared_object(self) -> Path:
        """The compiled code."""
        return self.folder / "model.so"


class LocalCache:
    """Artifacts on this host's disk, shared by its processes."""

    def __init__(self, folder: Path | str | None = None) -> None:
        """``folder``: without it COMPILE_FARM_CACHE, then ~/.cache/compile-farm.

        Raises CompileFarmError if others than this user could write there.
        """
        chosen = folder or os.environ.get(ENVIRONMENT) or "~/.cache/compile-farm"
        self.folder = Path(chosen).expanduser()
        self._artifacts = self.folder / "artifacts"
        self._keys = self.folder / "keys"
        self._quarantined = self.folder / "quarantined"
        self._locks = self.folder / "locks"
        for path in (self.folder, self._artifacts, self._keys):
            _make_private(path)

    def get(self, digest: str) -> CachedArtifact | None:
        """The entry with every digest checked; None if there is none. A corrupt one is removed."""
        folder = self._entry(digest)
        if not folder.is_dir():
            return None
        try:
            return self._read(folder, digest)
        except (OSError, CorruptArtifactError):
            self.remove(digest)
            return None

    def put(self, artifact: UnpackedArtifact) -> CachedArtifact:
        """Stores the parts; raises CompileFarmError if the disk does not take them."""
        folder = self._entry(artifact.digest)
        try:
            temporary = Path(tempfile.mkdtemp(prefix="new-", dir=self._artifacts))
            try:
                files = {
                    MANIFEST_NAME: artifact.manifest_bytes,
                    SIGNATURE_NAME: artifact.signature.SerializeToString(),
                    **artifact.files,
                }
                for name, data in files.items():
                    (temporary / name).write_bytes(data)
                os.rename(temporary, folder)
            except OSError:
                shutil.rmtree(temporary, ignore_errors=True)
                if not folder.is_dir():  # else another process was faster
                    raise
        except OSError as error:
            raise CompileFarmError(
                f"the local cache {self.folder} can't be written: {error}",
                remedy=f"free some space, or set {ENVIRONMENT} to another folder",
            ) from error
        stored = self.get(artifact.digest)
        if stored is None:
            raise CorruptArtifactError(f"the local cache {self.folder} lost what was written to it")
        self.remember(artifact.manifest.key, artifact.digest)
        return stored

    @contextmanager
    def alone(self, digest: str) -> Iterator[None]:
        """Inside, no other process or thread of this host is: eight ranks fetch an artifact once.

        Where the folder can't be written to, nobody waits.
        """
        try:
            _make_private(self._locks)
            lock = os.open(self._locks / self._entry(digest).name, os.O_RDWR | os.O_CREAT, 0o600)
        except (OSError, CompileFarmError):
            yield
            return
        try:
            # Released by the system when the process ends, however it ends.
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def remember(self, key: str, digest: str) -> None:
        """Notes which artifact a key has, for when the farm can't be asked."""
        if not is_hex_digest(key):
            return
        try:
            write_whole(self._keys / key, digest.encode())
        except OSError:
            return  # it is only a convenience

    def recall(self, key: str) -> str | None:
        """The digest that the key last had on this host."""
        try:
            digest = (self._keys / key).read_text() if is_hex_digest(key) else ""
        except OSError:
            return None
        return digest if is_hex_digest(digest) else None

    def remove(self, digest: str) -> None:
        """Forgets an entry."""
        shutil.rmtree(self._entry(digest), ignore_errors=True)

    def quarantine(self, digest: str, reason: str) -> None:
        """Lets no process of this host have the entry again; where the disk lets it be noted."""
        self.remove(digest)
        try:
            _make_private(self._quarantined)
            (self._quarantined / digest).write_text(reason)
        except (OSError, CompileFarmError):
            return  # the farm knows as well

    def quarantined(self, digest: str) -> str | None:
        """Why the artifact is in quarantine on this host; None if it is not."""
        try:
            return (self._quarantined / digest).read_text() if is_hex_digest(digest) else None
        except OSError:
            return None

    def _entry(self, digest: str) -> Path:
        if not is_hex_digest(digest):
            raise CorruptArtifactError(f"{digest[:80]!r} is no artifact's digest")
        return self._artifacts / digest

    @staticmethod
    def _read(folder: Path, digest: str) -> CachedArtifact:
        manifest_bytes = (folder / MANIFEST_NAME).read_bytes()
        manifest = parse_manifest(manifest_bytes)
        files = {
            path.name: path.read_bytes()
            for path in folder.iterdir()
            if path.name not in (MANIFEST_NAME, SIGNATURE_NAME)
        }
        check_files(manifest, files)
        signature = parse_signature((folder / SIGNATURE_NAME).read_bytes())
        return CachedArtifact(folder, digest, manifest, manifest_bytes, signature)


def _make_private(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise CompileFarmError(
            f"the local cache {path} can't be made: {error}",
            remedy=f"set {ENVIRONMENT} to a folder that you can write to",
        ) from error
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CompileFarmError(
            f"the local cache {path} can be written by others, who could put code there",
            remedy=f"chmod 700 {path}, or set {ENVIRONMENT} to a folder of your own",
        )
