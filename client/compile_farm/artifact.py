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
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from compile_farm.errors import CorruptArtifactError, InvalidGraphError
from compile_farm.schema import check_interface, check_libraries
from compile_farm.v1 import artifact_pb2
from compile_farm.wire import TooManyPartsError, check_parts

SCHEMA_VERSION = 1
MANIFEST_NAME = "manifest.pb"
SIGNATURE_NAME = "signature.pb"
SHARED_OBJECT_NAME = "model.so"

# Far above what a graph without weights comes to (a few MB), far below what hurts a host.
MAX_ARTIFACT_BYTES = 512 * 2**20
MAX_UNPACKED_BYTES = 2 * 2**30
MAX_FILES = 4096
# The manifest is decompressed before its signature can be verified. Constants travel in it.
MAX_MANIFEST_BYTES = 128 * 2**20
MAX_SIGNATURE_BYTES = 4096

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
_LARGEST = {MANIFEST_NAME: MAX_MANIFEST_BYTES, SIGNATURE_NAME: MAX_SIGNATURE_BYTES}
_ENVELOPE = frozenset(_LARGEST)
# Zip's earliest date: when it was packed must not move the digest.
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)

# The zip's last record, which says where its directory lies, and the mark of a larger one before.
_END = struct.Struct("<4s4H2LH")
_END_MARK, _LARGE_END_MARK, _LARGE_END_BYTES = b"PK\x05\x06", b"PK\x06\x07", 20
# Of an entry in the directory, with a name as long as we allow.
_MAX_ENTRY_BYTES = 512

# What zipfile raises for bytes that are no zip, by kind of damage.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
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
    _check_directory(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = _entries(archive)
            manifest_bytes = _read(archive, entries, MANIFEST_NAME)
            signature = parse_signature(_read(archive, entries, SIGNATURE_NAME))
            if verify is not None:
                verify(manifest_bytes, signature)
            manifest = parse_manifest(manifest_bytes)
            _check_promises(manifest, entries)
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
    _check_directory(data)
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
    if len(data) > MAX_MANIFEST_BYTES:
        raise CorruptArtifactError(f"the manifest has {len(data)} bytes, over {MAX_MANIFEST_BYTES}")
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
        raise _other_files(set(listed), set(files))
    for name, entry in listed.items():
        data = files[name]
        if len(data) != entry.size or digest_of(data) != entry.sha256:
            raise CorruptArtifactError(f"{name} is not what the manifest says: altered or cut off")


def _other_files(listed: Set[str], found: Set[str]) -> CorruptArtifactError:
    missing, extra = sorted(listed - found)[:10], sorted(found - listed)[:10]
    return CorruptArtifactError(
        f"the files are not those of the manifest: missing {missing}, not listed {extra}"
    )


def _parse(message: M, data: bytes, what: str) -> M:
    try:
        check_parts(data, message.DESCRIPTOR)
        message.ParseFromString(data)
    except TooManyPartsError as error:
        raise CorruptArtifactError(f"{what} is too large: {error}") from error
    except DecodeError as error:
        raise CorruptArtifactError(f"{what} is no valid protobuf message: {error}") from error
    return message


def _check_positions(manifest: artifact_pb2.Manifest) -> None:
    """What the compiled code takes and gives must exist in the signature, each output once."""
    signature = manifest.signature
    if len(manifest.compiled_inputs) > len(signature.inputs) + len(signature.symbols):
        raise CorruptArtifactError("the manifest has more compiled inputs than its signature has")
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


def _check_directory(data: bytes) -> None:
    """Refuses what zipfile would read at length before anyone could look: it makes an object for
    each entry of the directory, however many there are."""
    if len(data) > MAX_ARTIFACT_BYTES:
        raise CorruptArtifactError(f"the artifact has {len(data)} bytes, over {MAX_ARTIFACT_BYTES}")
    begin = len(data) - _END.size
    if begin < 0 or not data.startswith(_END_MARK, begin):
        raise CorruptArtifactError("the artifact is no readable zip: cut off, or with a comment")
    _, _, _, _, count, size, _, comment = _END.unpack_from(data, begin)
    if comment or data.startswith(_LARGE_END_MARK, max(begin - _LARGE_END_BYTES, 0)):
        raise CorruptArtifactError("the artifact is a zip with a comment, or of the large kind")
    most = MAX_FILES + len(_ENVELOPE)
    if count > most or size > most * _MAX_ENTRY_BYTES:
        raise CorruptArtifactError(f"the artifact has over {MAX_FILES} files")


def _check_promises(
    manifest: artifact_pb2.Manifest, entries: Mapping[str, zipfile.ZipInfo]
) -> None:
    """Nothing is decompressed that the manifest, whose signature was verified, does not list."""
    listed = {entry.name: entry.size for entry in manifest.files}
    if set(listed) != entries.keys() - _ENVELOPE:
        raise _other_files(set(listed), entries.keys() - _ENVELOPE)
    for name, size in listed.items():
        if entries[name].file_size != size:
            raise CorruptArtifactError(f"{name} is not what the manifest says: altered or cut off")


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MAX_FILES + len(_ENVELOPE):
        raise CorruptArtifactError(f"the artifact has over {MAX_FILES} files")
    entries: dict[str, zipfile.ZipInfo] = {}
    total = 0
    for info in infos:
        if info.filename in entries:
            raise CorruptArtifactError(f"the artifact has {info.filename[:80]!r} twice")
        if info.filename not in _ENVELOPE:
            _check_name(info.filename)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise CorruptArtifactError(f"{info.filename} is compressed in an unknown way")
        if info.flag_bits & 0x1:
            raise CorruptArtifactError(f"{info.filename} is encrypted")
        if info.file_size > _LARGEST.get(info.filename, MAX_UNPACKED_BYTES):
            raise CorruptArtifactError(f"{info.filename} unpacks to {info.file_size} bytes")
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
