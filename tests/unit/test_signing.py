"""The signing key's file: made once, for its owner only, and never replaced silently."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from compile_farm.errors import UntrustedArtifactError
from compile_farm.trust import TrustStore, key_id
from compiler_service.security.signing import SigningKey, SigningKeyError


def _public(path: Path) -> bytes:
    return SigningKey.load_or_create(path).public_bytes


def test_a_new_key_is_its_owners_alone_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "signing.key"
    key = SigningKey.load_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert key.path == path
    again = SigningKey.load_or_create(path)
    assert again.public_bytes == key.public_bytes
    assert key.key_id == key_id(key.public_bytes)
    # Nothing half made lies beside it.
    assert [entry.name for entry in path.parent.iterdir()] == ["signing.key"]


def test_two_folders_have_two_keys(tmp_path: Path) -> None:
    assert _public(tmp_path / "a" / "key") != _public(tmp_path / "b" / "key")


def test_processes_that_start_at_once_end_with_one_key(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "signing.key"
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        keys = pool.map(_public, [path] * 16, chunksize=1)
    assert len(set(keys)) == 1
    assert keys[0] == _public(path)


def test_a_signature_is_over_exactly_these_bytes(tmp_path: Path) -> None:
    key = SigningKey.load_or_create(tmp_path / "key")
    signature = key.sign(b"manifest")
    trusted = TrustStore([key.public_bytes])
    trusted.verify(b"manifest", signature)
    with pytest.raises(UntrustedArtifactError, match="does not fit"):
        trusted.verify(b"manifesto", signature)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    _public(path)
    path.chmod(mode)
    with pytest.raises(SigningKeyError, match="chmod 600"):
        SigningKey.load_or_create(path)


@pytest.mark.parametrize("content", [b"", b"not hexadecimal", b"ab" * 31, b"ab" * 33, b"\xff\xfe"])
def test_a_file_that_is_no_key_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(SigningKeyError, match=str(path)):
        SigningKey.load_or_create(path)
    assert path.read_bytes() == content


def test_a_place_where_no_key_can_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SigningKeyError, match="can't be"):
        SigningKey.load_or_create(tmp_path / "file" / "key")
    (tmp_path / "folder").mkdir(mode=0o700)
    with pytest.raises(SigningKeyError):
        SigningKey.load_or_create(tmp_path / "folder")


def test_a_link_to_nowhere_is_not_filled(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SigningKeyError):
        SigningKey.load_or_create(path)
    assert not os.path.lexists(tmp_path / "elsewhere")
