"""The artifact's format: a zip of a signed manifest and the files that it lists.

In: a manifest, files and a signing function, or bytes from a store. Out: the zip (the same bytes
for the same content: fixed timestamps, sorted names), or its parts with every size and digest
checked, else CorruptArtifactError. Nothing here maps or runs anything, and nothing needs torch.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from compile_farm.errors import CorruptArtifactError, InvalidGraphError
from compile_farm.schema import check_interface, check_libraries
from compile_farm.v1 import artifact_pb2

SCHEMA_VERSION = 1
MANIFEST_NAME = "manifest.pb"
SIGNATURE_NAME = "signature.pb"
SHARED_OBJECT_NAME = "model.so"

# Far above what a graph without weights comes to (a few MB), far below what hurts a host.
MAX_ARTIFACT_BYTES = 512 * 2**20
MAX_UNPACKED_BYTES = 2 * 2**30
MAX_FILES = 4096

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
_ENVELOPE = frozenset({MANIFEST_NAME, SIGNATURE_NAME})
# Zip's earliest date: when it was packed must not move the digest.
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)

# What zipfile raises for bytes that are no zip, by kind of damage.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    ValueError,
)

M = TypeVar("M", bound=Message)
Verifier = Callable[[bytes, artifact_pb2.ManifestSignature], None]


@dataclass(frozen=True, slots=True)
class UnpackedArtifact:
    """An artifact's parts; ``manifest_bytes`` are what the signature covers.

    ``digest`` is that of the whole zip.
    """

    digest: str
    manifest: artifact_pb2.Manifest
    manifest_bytes: bytes
    signature: artifact_pb2.ManifestSignature
    files: dict[str, bytes]


def digest_of(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def is_hex_digest(text: str) -> bool:
    """Whether ``text`` has the form of a digest or a key: 64 hexadecimal digits in lower case."""
    return _DIGEST.fullmatch(text) is not None


def pack(
    manifest: artifact_pb2.Manifest,
    files: Mapping[str, bytes],
    sign: Callable[[bytes], artifact_pb2.ManifestSignature],
) -> bytes:
    """The zip. ``manifest.files`` must list exactly ``files``, with their digests and sizes.

    Raises CorruptArtifactError where they differ.
    """
    manifest_bytes = manifest.SerializeToString(deterministic=True)
    parse_manifest(manifest_bytes)
    check_files(manifest, files)
    signature = sign(manifest_bytes).SerializeToString(deterministic=True)
    entries = {MANIFEST_NAME: manifest_bytes, SIGNATURE_NAME: signature, **files}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, _TIMESTAMP)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            info.create_system = 3
            archive.writestr(info, entries[name], compresslevel=9)
    data = buffer.getvalue()
    if len(data) > MAX_ARTIFACT_BYTES:
        raise CorruptArtifactError(f"the artifact has {len(data)} bytes, over {MAX_ARTIFACT_BYTES}")
    return data


def unpack(data: bytes, verify: Verifier | None = None) -> UnpackedArtifact:
    """Takes the zip apart and checks every name, size and digest.

    Args:
        data: the whole zip.
        verify: called with the manifest's bytes and its signature before anything else is
            decompressed; TrustStore.verify, for instance.

    Raises CorruptArtifactError, and whatever ``verify`` raises.
    """
    if len(data) > MAX_ARTIFACT_BYTES:
        raise CorruptArtifactError(f"the artifact has {len(data)} bytes, over {MAX_ARTIFACT_BYTES}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = _entries(archive)
            manifest_bytes = _read(archive, entries, MANIFEST_NAME)
            signature = parse_signature(_read(archive, entries, SIGNATURE_NAME))
            if verify is not None:
                verify(manifest_bytes, signature)
            manifest = parse_manifest(manifest_bytes)
            files = {
                name: _read(archive, entries, name) for name in entries if name not in _ENVELOPE
            }
    except _UNREADABLE as error:
        raise CorruptArtifactError(f"the artifact is no readable zip: {error}") from error
    check_files(manifest, files)
    return UnpackedArtifact(digest_of(data), manifest, manifest_bytes, signature, files)


def manifest_of(data: bytes) -> artifact_pb2.Manifest:
    """The manifest alone, its signature and the files unread: to be looked at, never to be run.

    Raises CorruptArtifactError.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return parse_manifest(_read(archive, _entries(archive), MANIFEST_NAME))
    except _UNREADABLE as error:
        raise CorruptArtifactError(f"the artifact is no readable zip: {error}") from error


def parse_signature(data: bytes) -> artifact_pb2.ManifestSignature:
    """Reads signature.pb; raises CorruptArtifactError."""
    return _parse(artifact_pb2.ManifestSignature(), data, "the signature")


def parse_manifest(data: bytes) -> artifact_pb2.Manifest:
    """Reads manifest.pb and checks every reference in it; raises CorruptArtifactError."""
    manifest = _parse(artifact_pb2.Manifest(), data, "the manifest")
    if manifest.schema_version != SCHEMA_VERSION:
        raise CorruptArtifactError(
            f"manifest schema version {manifest.schema_version} is not known",
            remedy=f"this version reads {SCHEMA_VERSION}; use a client as new as the farm",
        )
    try:
        check_interface(manifest.signature, manifest.calling_convention)
        check_libraries(manifest.libraries)
    except InvalidGraphError as error:
        raise CorruptArtifactError(f"the manifest: {error.message}") from error
    _check_positions(manifest)
    names = [entry.name for entry in manifest.files]
    if SHARED_OBJECT_NAME not in names:
        raise CorruptArtifactError(f"the manifest lists no {SHARED_OBJECT_NAME}")
    if len(set(names)) != len(names) or len(names) > MAX_FILES:
        raise CorruptArtifactError(f"the manifest lists a file twice, or over {MAX_FILES} files")
    for name in names:
        _check_name(name)
    return manifest


def check_files(manifest: artifact_pb2.Manifest, files: Mapping[str, bytes]) -> None:
    """Raises CorruptArtifactError unless ``files`` are exactly those that the manifest lists."""
    listed = {entry.name: entry for entry in manifest.files}
    if set(listed) != set(files):
        missing, extra = sorted(set(listed) - set(files)), sorted(set(files) - set(listed))
        raise CorruptArtifactError(
            f"the files are not those of the manifest: missing {missing}, not listed {extra}"
        )
    for name, entry in listed.items():
        data = files[name]
        if len(data) != entry.size or digest_of(data) != entry.sha256:
            raise CorruptArtifactError(f"{name} is not what the manifest says: altered or cut off")


def _parse(message: M, data: bytes, what: str) -> M:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptArtifactError(f"{what} is no valid protobuf message: {error}") from error
    return message


def _check_positions(manifest: artifact_pb2.Manifest) -> None:
    """What the compiled code takes and gives must exist in the signature, each output once."""
    signature = manifest.signature
    tensors = [entry.WhichOneof("kind") == "tensor" for entry in signature.inputs]
    for entry in manifest.compiled_inputs:
        kind = entry.WhichOneof("kind")
        if kind == "input" and entry.input < len(tensors) and tensors[entry.input]:
            continue
        if kind == "size_carrier" and entry.size_carrier < len(signature.symbols):
            continue
        raise CorruptArtifactError("the manifest's compiled inputs don't fit its signature")
    given = [
        index
        for index, entry in enumerate(signature.outputs)
        if entry.WhichOneof("kind") == "tensor"
    ]
    if sorted(manifest.compiled_outputs) != given:
        raise CorruptArtifactError("the manifest's compiled outputs don't fit its signature")


def _check_name(name: str) -> None:
    if not _FILE_NAME.fullmatch(name) or name in _ENVELOPE:
        raise CorruptArtifactError(f"{name[:80]!r} is not allowed as a file's name")


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MAX_FILES + len(_ENVELOPE):
        raise CorruptArtifactError(f"the artifact has over {MAX_FILES} files")
    entries: dict[str, zipfile.ZipInfo] = {}
    total = 0
    for info in infos:
        if info.filename in entries:
            raise CorruptArtifactError(f"the artifact has {info.filename!r} twice")
        if info.filename not in _ENVELOPE:
            _check_name(info.filename)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise CorruptArtifactError(f"{info.filename} is compressed in an unknown way")
        if info.flag_bits & 0x1:
            raise CorruptArtifactError(f"{info.filename} is encrypted")
        total += info.file_size
        entries[info.filename] = info
    if total > MAX_UNPACKED_BYTES:
        raise CorruptArtifactError(f"the artifact unpacks to {total} bytes")
    return entries


def _read(archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], name: str) -> bytes:
    if name not in entries:
        raise CorruptArtifactError(f"the artifact has no {name}")
    # Never more than the directory promised, whatever the compressed stream holds.
    with archive.open(entries[name]) as stream:
        data = stream.read(entries[name].file_size + 1)
    if len(data) != entries[name].file_size:
        raise CorruptArtifactError(f"{name} has {len(data)} bytes, not {entries[name].file_size}")
    return data
