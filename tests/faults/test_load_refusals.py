"""Artifacts that must not be loaded: refused with a reason, and not a byte of them is mapped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from compile_farm.artifact import digest_of, pack, unpack
from compile_farm.cache import CachedArtifact, LocalCache
from compile_farm.errors import (
    ArtifactError,
    BindError,
    CorruptArtifactError,
    TargetMismatchError,
    UntrustedArtifactError,
)
from compile_farm.runtime.bind import bind
from compile_farm.runtime.open import open_artifact
from compile_farm.trust import TrustStore
from compile_farm.v1 import artifact_pb2, graph_pb2
from tests.loadable import PUBLIC_KEY, artifact_bytes, example, sign

TRUST = TrustStore([PUBLIC_KEY])
Change = Callable[[artifact_pb2.Manifest], object]


def changed(folder: Path, change: Change, code: bytes | None = None) -> CachedArtifact:
    """The artifact "affine" with another manifest (and code), well signed, in a cache."""
    unpacked = unpack(artifact_bytes("affine"))
    manifest, files = unpacked.manifest, dict(unpacked.files)
    change(manifest)
    if code is not None:
        files["model.so"] = code
        for entry in manifest.files:
            entry.sha256, entry.size = digest_of(files[entry.name]), len(files[entry.name])
    return LocalCache(folder).put(unpack(pack(manifest, files, sign), TRUST.verify))


def is_mapped(cached: CachedArtifact) -> bool:
    return str(cached.folder) in Path("/proc/self/maps").read_text()


def test_what_may_be_loaded_is_mapped(tmp_path: Path) -> None:
    """So that the tests below would notice a mapping."""
    cached = changed(tmp_path, lambda manifest: None)
    loaded = open_artifact(cached, TRUST)
    assert not is_mapped(cached)
    bind(loaded, example("affine")[0])
    assert is_mapped(cached)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: setattr(m.target.toolchain, "torch", "2.12.0"), "built with torch 2.12.0"),
        (lambda m: setattr(m.target.toolchain, "torch_git", "0000"), "the torch build 0000"),
        (lambda m: setattr(m.target.toolchain, "triton", "9.9"), "Triton 9.9"),
        (lambda m: setattr(m.target.toolchain, "platform", "linux-arm"), "platform linux-arm"),
        (lambda m: setattr(m.target.cpu, "isa", "x86-64-v9"), "'x86-64-v9'"),
    ],
)
def test_another_target_is_refused(tmp_path: Path, change: Change, words: str) -> None:
    cached = changed(tmp_path, change)
    with pytest.raises(TargetMismatchError, match=words):
        open_artifact(cached, TRUST)
    assert not is_mapped(cached)


def test_a_lowered_level_refuses_a_higher_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = changed(tmp_path, lambda manifest: None)
    monkeypatch.setenv("COMPILE_FARM_ISA", "x86-64")
    with pytest.raises(TargetMismatchError, match="admits x86-64"):
        open_artifact(cached, TRUST)


def test_another_signer_is_refused_when_opening_too(tmp_path: Path) -> None:
    cached = changed(tmp_path, lambda manifest: None)
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    with pytest.raises(UntrustedArtifactError):
        open_artifact(cached, TrustStore([other]))
    assert not is_mapped(cached)


def test_a_manifest_altered_on_disk_is_refused(tmp_path: Path) -> None:
    """One that is well formed, and promises other shapes than were signed."""
    cached = changed(tmp_path, lambda manifest: None)
    manifest = artifact_pb2.Manifest()
    manifest.CopyFrom(cached.manifest)
    manifest.signature.symbols[0].maximum = 1_000_000
    (cached.folder / "manifest.pb").write_bytes(manifest.SerializeToString())
    found = LocalCache(tmp_path).get(cached.digest)
    assert found is not None
    with pytest.raises(UntrustedArtifactError, match="does not fit"):
        open_artifact(found, TRUST)
    assert not is_mapped(cached)


def test_code_that_is_no_code_is_an_error_and_no_crash(tmp_path: Path) -> None:
    cached = changed(tmp_path, lambda manifest: None, code=b"\x7fELF and nothing more")
    with pytest.raises(ArtifactError, match="can't be mapped") as caught:
        bind(open_artifact(cached, TRUST), example("affine")[0])
    assert "COMPILE_FARM_CACHE" in caught.value.remedy


def test_an_entry_removed_after_it_was_opened_goes_on(tmp_path: Path) -> None:
    cached = changed(tmp_path, lambda manifest: None)
    model, (x,), _, _ = example("affine")
    run = bind(open_artifact(cached, TRUST), model)
    LocalCache(tmp_path).remove(cached.digest)
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))


def result_class(name: str) -> Change:
    def change(manifest: artifact_pb2.Manifest) -> None:
        result = manifest.calling_convention.result
        leaf = graph_pb2.Tree()
        leaf.CopyFrom(result)
        result.container.kind = graph_pb2.CONTAINER_KIND_RECORD
        result.container.type_name = name
        result.container.keys.add(text="args")
        result.container.children.append(leaf)

    return change


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("subprocess:Popen", "neither a named tuple nor a dataclass"),
        ("not_imported_anywhere:Thing", "has not imported"),
        ("os:path.join", "has not imported"),
        ("torch:nn.Linear", "neither a named tuple nor a dataclass"),
        ("compile_farm.runtime.bind:dataclass", "has not imported"),
        ("compile_farm.runtime.bind:WriteWatch", "neither a named tuple nor a dataclass"),
    ],
)
def test_classes_of_results_are_never_just_anything(tmp_path: Path, name: str, words: str) -> None:
    cached = changed(tmp_path, result_class(name))
    with pytest.raises(BindError, match=words):
        bind(open_artifact(cached, TRUST), example("affine")[0])


def test_a_size_that_nothing_determines_is_refused_at_bind(tmp_path: Path) -> None:
    def change(manifest: artifact_pb2.Manifest) -> None:
        manifest.signature.symbols.add(minimum=1)
        manifest.compiled_inputs.add(size_carrier=1)

    cached = changed(tmp_path, change)
    with pytest.raises(CorruptArtifactError, match="follows from no input"):
        bind(open_artifact(cached, TRUST), example("affine")[0])
