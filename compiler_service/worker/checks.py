"""What a child's manifest must be before the worker signs it.

The sandbox compiled a stranger's graph; if that graph took it over, its manifest could name another
key, so that a client of that key would run it. Here everything that the request fixed is compared,
and what only the worker can know is filled in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from compile_farm.artifact import MANIFEST_NAME, SIGNATURE_NAME
from compile_farm.key import key_components
from compile_farm.schema import parse_capture
from compile_farm.v1 import artifact_pb2
from compiler_service.worker.protocol import JobSpec

_FILES = frozenset({"model.so", "model.json"})


class ManifestError(Exception):
    """The manifest is not of the job that was asked for."""


def checked_manifest(
    manifest: artifact_pb2.Manifest, job: JobSpec, files: Mapping[str, bytes]
) -> artifact_pb2.Manifest:
    """A manifest of this job over these files; raises ManifestError."""
    capture = parse_capture(job.capture)
    if manifest.key != job.key:
        raise ManifestError(f"the key {manifest.key[:16]!r} instead of {job.key[:16]!r}")
    for name, theirs, ours in (
        ("signature", manifest.signature, capture.signature),
        ("calling convention", manifest.calling_convention, capture.calling_convention),
        ("target", manifest.target, job.target),
        ("options", manifest.options, job.options),
    ):
        if theirs != ours:
            raise ManifestError(f"another {name} than was asked for")
    names = [entry.name for entry in manifest.files]
    if "model.so" not in names or not set(names) <= _FILES or len(set(names)) != len(names):
        raise ManifestError(f"the files {sorted(names)}")
    if {MANIFEST_NAME, SIGNATURE_NAME} & set(names):
        raise ManifestError("a file that takes the envelope's name")
    inputs, symbols = len(capture.signature.inputs), len(capture.signature.symbols)
    for item in manifest.compiled_inputs:
        carried = item.WhichOneof("kind") == "size_carrier"
        if (item.size_carrier if carried else item.input) >= (symbols if carried else inputs):
            raise ManifestError("a compiled input that the signature does not have")
    if any(index >= len(capture.signature.outputs) for index in manifest.compiled_outputs):
        raise ManifestError("a compiled output that the signature does not have")
    checked = artifact_pb2.Manifest()
    checked.CopyFrom(manifest)
    checked.components.CopyFrom(key_components(capture, job.target, job.options))
    del checked.files[:]
    for name in sorted(files):
        digest = hashlib.sha256(files[name]).hexdigest()
        checked.files.add(name=name, sha256=digest, size=len(files[name]))
    return checked
