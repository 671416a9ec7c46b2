"""The artifact's zip: deterministic, bounded, and refused when a byte of it is not as signed."""

from __future__ import annotations

import io
import zipfile

import pytest

from compile_farm.artifact import check_files, digest_of, pack, parse_manifest, unpack
from compile_farm.errors import CorruptArtifactError, UntrustedArtifactError
from compile_farm.v1 import artifact_pb2, graph_pb2

FILES = {"model.so": b"\x7fELF" + b"code" * 500, "model.json": b"{}"}


def manifest_of(files: dict[str, bytes]) -> artifact_pb2.Manifest:
    manifest = artifact_pb2.Manifest(schema_version=1, key="ab" * 32, builder="0.1.0")
    for name, data in files.items():
        manifest.files.add(name=name, sha256=digest_of(data), size=len(data))
    return manifest


def sign(data: bytes) -> artifact_pb2.ManifestSignature:
    return artifact_pb2.ManifestSignature(key_id="k", ed25519=digest_of(data).encode())


def packed(files: dict[str, bytes] = FILES) -> bytes:
    return pack(manifest_of(files), files, sign)


def rezip(data: bytes, change: dict[str, bytes], drop: tuple[str, ...] = ()) -> bytes:
    """The same zip with entries replaced, added or left out, still a valid zip."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        entries = {name: old.read(name) for name in old.namelist() if name not in drop}
    entries.update(change)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as new:
        for name, content in entries.items():
            new.writestr(name, content)
    return buffer.getvalue()


def test_what_was_packed_comes_out_again() -> None:
    data = packed()
    unpacked = unpack(data)
    assert unpacked.files == FILES
    assert unpacked.manifest == manifest_of(FILES)
    assert unpacked.signature == sign(unpacked.manifest_bytes)
    assert unpacked.digest == digest_of(data)


def test_the_same_content_gives_the_same_bytes_in_any_order() -> None:
    backwards = dict(reversed(FILES.items()))
    assert pack(manifest_of(FILES), backwards, sign) == packed()


def test_pack_refuses_files_that_the_manifest_does_not_describe() -> None:
    with pytest.raises(CorruptArtifactError, match=r"not listed \['notes.txt'\]"):
        pack(manifest_of(FILES), {**FILES, "notes.txt": b""}, sign)
    with pytest.raises(CorruptArtifactError, match=r"model\.so is not what the manifest says"):
        pack(manifest_of(FILES), {**FILES, "model.so": b"other"}, sign)


@pytest.mark.parametrize("cut", [0, 1, 30, 200, -1])
def test_a_truncated_artifact_is_refused(cut: int) -> None:
    with pytest.raises(CorruptArtifactError):
        unpack(packed()[:cut])


def test_every_altered_byte_is_noticed_or_harmless() -> None:
    """Zip has bytes that mean nothing (dates, attributes); no other content may come out."""
    data = packed({"model.so": b"\x7fELF code", "model.json": b"{}"})
    whole = unpack(data)
    for position in range(len(data)):
        altered = bytearray(data)
        altered[position] ^= 0xFF
        try:
            found = unpack(bytes(altered))
        except CorruptArtifactError:
            continue
        assert (found.files, found.manifest_bytes) == (whole.files, whole.manifest_bytes)


def test_an_altered_file_in_a_valid_zip_is_refused() -> None:
    with pytest.raises(CorruptArtifactError, match=r"model\.json is not what the manifest says"):
        unpack(rezip(packed(), {"model.json": b"[]"}))


@pytest.mark.parametrize("name", ["manifest.pb", "signature.pb"])
def test_an_artifact_without_its_envelope_is_refused(name: str) -> None:
    with pytest.raises(CorruptArtifactError, match=f"has no {name}"):
        unpack(rezip(packed(), {}, drop=(name,)))


def test_a_missing_and_an_extra_file_are_refused() -> None:
    with pytest.raises(CorruptArtifactError, match=r"missing \['model.json'\]"):
        unpack(rezip(packed(), {}, drop=("model.json",)))
    with pytest.raises(CorruptArtifactError, match=r"not listed \['extra.so'\]"):
        unpack(rezip(packed(), {"extra.so": b"x"}))


@pytest.mark.parametrize("name", ["../model.so", "/etc/passwd", ".hidden", "a/b", "x" * 300])
def test_names_that_could_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(CorruptArtifactError, match="not allowed"):
        unpack(rezip(packed(), {name: b"x"}))
    files = {**FILES, name: b"x"}
    with pytest.raises(CorruptArtifactError, match="not allowed"):
        pack(manifest_of(files), files, sign)


def test_a_file_listed_as_the_envelope_is_refused() -> None:
    files = {**FILES, "manifest.pb": b"x"}
    with pytest.raises(CorruptArtifactError, match="not allowed"):
        pack(manifest_of(files), files, sign)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_stands_there_twice_is_refused() -> None:
    buffer = io.BytesIO(packed())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("model.so", b"another")
    with pytest.raises(CorruptArtifactError, match="twice"):
        unpack(buffer.getvalue())


def test_a_bomb_is_refused_before_it_is_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compile_farm.artifact.MAX_UNPACKED_BYTES", 10_000)
    bomb = {"model.so": bytes(20_000)}
    with pytest.raises(CorruptArtifactError, match="unpacks to"):
        unpack(packed(bomb))


def test_the_verifier_comes_before_any_file() -> None:
    def refuse(manifest: bytes, signature: artifact_pb2.ManifestSignature) -> None:
        raise UntrustedArtifactError("no")

    # The file inside is corrupt too, and nobody looked.
    with pytest.raises(UntrustedArtifactError):
        unpack(rezip(packed(), {"model.so": b"evil"}), refuse)


def test_a_newer_manifest_says_what_to_do() -> None:
    manifest = manifest_of(FILES)
    manifest.schema_version = 2
    with pytest.raises(CorruptArtifactError, match=r"version 2 is not known.*new as the farm"):
        parse_manifest(manifest.SerializeToString())


def test_a_manifest_must_list_the_shared_object() -> None:
    with pytest.raises(CorruptArtifactError, match=r"lists no model\.so"):
        parse_manifest(manifest_of({"model.json": b"{}"}).SerializeToString())


def _with_signature() -> artifact_pb2.Manifest:
    manifest = manifest_of(FILES)
    spec = graph_pb2.TensorSpec(dtype="float32", device_type="cpu")
    manifest.signature.inputs.add(role=graph_pb2.ROLE_USER_INPUT, tensor=spec)
    manifest.signature.outputs.add(tensor=spec)
    manifest.compiled_inputs.add(input=0)
    manifest.compiled_outputs.append(0)
    return manifest


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.compiled_inputs.add(input=1),
        lambda m: m.compiled_inputs.add(size_carrier=0),
        lambda m: m.compiled_inputs.add(),
        lambda m: m.compiled_outputs.append(0),
        lambda m: m.ClearField("compiled_outputs"),
        lambda m: setattr(m.signature.inputs[0].tensor, "dtype", "void"),
        lambda m: m.signature.inputs[0].tensor.sizes.add(symbol=3),
        lambda m: setattr(m.calling_convention.result.leaf, "output", 5),
    ],
)
def test_references_that_lead_nowhere_are_refused(change: object) -> None:
    parse_manifest(_with_signature().SerializeToString())
    manifest = _with_signature()
    change(manifest)  # type: ignore[operator]
    with pytest.raises(CorruptArtifactError):
        parse_manifest(manifest.SerializeToString())


def test_bytes_that_are_no_manifest_are_refused() -> None:
    with pytest.raises(CorruptArtifactError, match="no valid protobuf"):
        parse_manifest(b"\xff\xff\xff")


def test_check_files_compares_size_and_digest() -> None:
    manifest = manifest_of(FILES)
    check_files(manifest, FILES)
    manifest.files[0].size += 1
    with pytest.raises(CorruptArtifactError):
        check_files(manifest, FILES)
