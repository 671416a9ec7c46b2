"""What a child hands over must be before the worker signs it.

The sandbox compiled a stranger's graph; if that graph took it over, its manifest could name another
key, so that a client of that key would run it, and its files could be links to the worker's own.
Here everything that the request fixed is compared, and what only the worker can know is filled in.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping

from compile_farm.errors import CompileFarmError
from compile_farm.key import key_components, key_of
from compile_farm.schema import parse_capture
from compile_farm.summary import summarize
from compile_farm.v1 import artifact_pb2
from compiler_service.worker.protocol import JobSpec

_SHARED_OBJECT = "model.so"
_FILES = frozenset({_SHARED_OBJECT, "model.json"})
# Without weights, a few MB are usual.
MAX_FILE_BYTES = 1024**3


class ManifestError(Exception):
    """The manifest, or a file, is not of the job that was asked for."""


def read_files(manifest: artifact_pb2.Manifest, folder: int) -> dict[str, bytes]:
    """The files that the manifest lists, from the folder with this descriptor.

    Only plain files with the names that an artifact has: no links, in the folder as it was opened
    before the child could put another in its place. Raises ManifestError, OSError.
    """
    names = [entry.name for entry in manifest.files]
    if _SHARED_OBJECT not in names or not set(names) <= _FILES or len(set(names)) != len(names):
        raise ManifestError(f"the files {sorted(name[:40] for name in names[:10])}")
    return {name: _read_file(name, folder) for name in names}


def checked_manifest(
    manifest: artifact_pb2.Manifest, job: JobSpec, files: Mapping[str, bytes]
) -> artifact_pb2.Manifest:
    """A manifest of this job over these files; raises ManifestError."""
    try:
        capture = parse_capture(job.capture)
        components = key_components(capture, job.target, job.options)
    except CompileFarmError as error:
        raise ManifestError(f"an artifact of what is no graph: {error}") from error
    if key_of(components) != job.key:
        raise ManifestError(f"the key {job.key[:16]!r} is not the capture's")
    if manifest.key != job.key:
        raise ManifestError(f"the key {manifest.key[:16]!r} instead of {job.key[:16]!r}")
    for name, theirs, ours in (
        ("signature", manifest.signature, capture.signature),
        ("calling convention", manifest.calling_convention, capture.calling_convention),
        ("target", manifest.target, job.target),
        ("options", manifest.options, job.options),
        ("list of libraries", list(manifest.libraries), list(capture.libraries)),
    ):
        if theirs != ours:
            raise ManifestError(f"another {name} than was asked for")
    checked = artifact_pb2.Manifest()
    checked.CopyFrom(manifest)
    checked.DiscardUnknownFields()  # type: ignore[attr-defined]
    checked.components.CopyFrom(components)
    checked.graph_summary.CopyFrom(summarize(capture.graph))
    del checked.files[:]
    for name in sorted(files):
        digest = hashlib.sha256(files[name]).hexdigest()
        checked.files.add(name=name, sha256=digest, size=len(files[name]))
    return checked


def _read_file(name: str, folder: int) -> bytes:
    # Not blocking: opening a pipe would wait for its other end.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise ManifestError(f"the file {name!r} can't be opened: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise ManifestError(f"{name!r} is no plain file of its own")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_FILE_BYTES:
        raise ManifestError(f"{name!r} has over {MAX_FILE_BYTES} bytes")
    return data
