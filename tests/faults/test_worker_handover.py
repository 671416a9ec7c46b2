"""A child that was taken over hands over something else: nothing of it is signed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from compile_farm.artifact import unpack
from compile_farm.schema import parse_capture
from compile_farm.trust import TrustStore
from compile_farm.v1 import artifact_pb2, compiler_pb2
from compiler_service.security.signing import SigningKey
from compiler_service.worker.checks import checked_manifest
from compiler_service.worker.protocol import Built
from compiler_service.worker.worker import SandboxWorker
from tests.fault_child import CODE
from tests.sandboxes import failure, fake_compiler, fault_worker, job, pid_of_child, run, running


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    """In a file, as in a real farm."""
    return SigningKey.load_or_create(tmp_path / "keys" / "signing.key")


@pytest.fixture
async def worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: SigningKey
) -> AsyncIterator[SandboxWorker]:
    """A worker that is ready."""
    fake_compiler(tmp_path, monkeypatch)
    async with running(fault_worker(tmp_path, key=key)) as started:
        yield started


async def test_what_was_asked_for_is_signed(worker: SandboxWorker, key: SigningKey) -> None:
    outcome = await run(worker, "good")
    assert isinstance(outcome, Built)
    artifact = unpack(outcome.data, TrustStore([key.public_bytes]).verify)
    manifest, asked = artifact.manifest, job("good")
    assert artifact.files == {"model.so": CODE}
    assert manifest.key == asked.key
    assert manifest.target == asked.target
    assert manifest.components.graph
    assert manifest.created > 0
    assert manifest.builder
    assert "check" in [stage.stage for stage in manifest.stages]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("key", "the key '0000000000000000' instead of"),
        ("signature", "another signature"),
        ("target", "another target"),
        ("options", "another options"),
        ("positions", "compiled outputs don't fit"),
        ("schema", "schema version 9"),
        ("no files", "the files []"),
        ("twice", "the files ['model.so', 'model.so']"),
        ("path", "signing.key"),
        ("nul", "model.so"),
        ("envelope", "signature.pb"),
        ("missing", "'model.json' can't be opened"),
    ],
)
async def test_another_manifest_is_not_signed(
    worker: SandboxWorker, tmp_path: Path, what: str, words: str
) -> None:
    first = pid_of_child(tmp_path)
    told = await failure(worker, f"lie:{what}")
    assert told.reason == compiler_pb2.REASON_CRASHED
    assert told.message.startswith("the sandbox handed over what was not asked for: ")
    assert words in told.message
    assert told.stage == "package"
    # A child that lies is not asked again.
    assert isinstance(await run(worker, "good"), Built)
    assert pid_of_child(tmp_path) != first


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("symlink", "can't be opened"),
        ("hardlink", "no plain file"),
        ("pipe", "no plain file"),
        ("folder", "no plain file"),
        ("swap", "can't be opened"),
        ("none", "can't be opened"),
    ],
)
async def test_a_file_that_is_not_the_childs_own_is_not_signed(
    worker: SandboxWorker, tmp_path: Path, what: str, words: str
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "model.so").write_bytes(CODE)
    path = secret if what == "swap" else secret / "model.so"
    told = await failure(worker, f"lie_with_files:{what}={path}")
    assert told.reason == compiler_pb2.REASON_CRASHED
    assert words in told.message
    assert (secret / "model.so").read_bytes() == CODE
    assert isinstance(await run(worker, "good"), Built)


async def test_a_capture_that_is_not_the_keys_is_not_signed(worker: SandboxWorker) -> None:
    asked = replace(job("good"), capture=job("good", rows=5).capture)
    told = await worker.run(asked, lambda _: None)
    assert isinstance(told, compiler_pb2.Failure)
    assert "is not the capture's" in told.message


async def test_a_key_in_the_sandboxs_own_folder_is_refused(tmp_path: Path) -> None:
    key = SigningKey.load_or_create(tmp_path / "worker" / "signing.key")
    with pytest.raises(ValueError, match="lies in the sandbox's own folder"):
        fault_worker(tmp_path, key=key)


def test_fields_that_nobody_knows_are_not_signed() -> None:
    asked = job("good")
    manifest = artifact_pb2.Manifest(key=asked.key, target=asked.target, options=asked.options)
    capture = parse_capture(asked.capture)
    manifest.signature.CopyFrom(capture.signature)
    manifest.calling_convention.CopyFrom(capture.calling_convention)
    unknown = manifest.SerializeToString() + b"\xfa\x7f\x06hidden"  # field 2047
    manifest = artifact_pb2.Manifest.FromString(unknown)
    assert b"hidden" in manifest.SerializeToString()
    checked = checked_manifest(manifest, asked, {"model.so": CODE})
    assert b"hidden" not in checked.SerializeToString()
