"""The local cache: whole entries or none, checked when read, closed to others."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from compile_farm.artifact import UnpackedArtifact, digest_of, pack, unpack
from compile_farm.cache import LocalCache
from compile_farm.errors import CompileFarmError, CorruptArtifactError
from compile_farm.v1 import artifact_pb2

KEY = "ab" * 32


def artifact(content: bytes = b"code", key: str = KEY) -> UnpackedArtifact:
    manifest = artifact_pb2.Manifest(schema_version=1, key=key)
    manifest.files.add(name="model.so", sha256=digest_of(content), size=len(content))
    signature = artifact_pb2.ManifestSignature(key_id="k", ed25519=b"s")
    return unpack(pack(manifest, {"model.so": content}, lambda data: signature))


@pytest.fixture
def cache(tmp_path: Path) -> LocalCache:
    return LocalCache(tmp_path / "cache")


def test_what_is_put_is_found_by_digest_and_by_key(cache: LocalCache) -> None:
    put = cache.put(artifact())
    got = cache.get(put.digest)
    assert got is not None
    assert got.shared_object.read_bytes() == b"code"
    assert (got.manifest, got.manifest_bytes) == (put.manifest, put.manifest_bytes)
    assert got.signature.ed25519 == b"s"
    assert cache.recall(KEY) == put.digest
    assert LocalCache(cache.folder).get(put.digest) is not None


def test_what_was_never_put_is_not_there(cache: LocalCache) -> None:
    assert cache.get("00" * 32) is None
    assert cache.recall(KEY) is None
    assert cache.recall("../../etc/passwd") is None
    with pytest.raises(CorruptArtifactError, match="no artifact's digest"):
        cache.get("../x")


def test_a_later_artifact_of_a_key_is_the_one_recalled(cache: LocalCache) -> None:
    first, second = cache.put(artifact(b"one")), cache.put(artifact(b"two"))
    assert cache.recall(KEY) == second.digest
    assert cache.get(first.digest) is not None


@pytest.mark.parametrize("name", ["model.so", "manifest.pb", "signature.pb"])
@pytest.mark.parametrize("damage", ["altered", "truncated", "removed"])
def test_a_damaged_entry_is_removed_and_can_be_put_again(
    cache: LocalCache, name: str, damage: str
) -> None:
    put = cache.put(artifact())
    path = put.folder / name
    data = path.read_bytes()
    if damage == "altered":
        path.write_bytes(bytes([data[0] ^ 0xFF]) + data[1:])
    elif damage == "truncated":
        path.write_bytes(data[:1])
    else:
        path.unlink()
    if name == "signature.pb" and damage != "removed":
        # Whether it is a signature at all is for trust.verify to say, which reads it next.
        found = cache.get(put.digest)
        assert found is None or found.signature != put.signature
        return
    assert cache.get(put.digest) is None
    assert not put.folder.exists()
    assert cache.put(artifact()).shared_object.read_bytes() == b"code"


def test_a_file_that_the_manifest_does_not_list_is_damage(cache: LocalCache) -> None:
    put = cache.put(artifact())
    (put.folder / "model.json").write_text("{}")
    assert cache.get(put.digest) is None


def test_it_is_its_users_alone(cache: LocalCache) -> None:
    put = cache.put(artifact())
    for path in (cache.folder, put.folder):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(CompileFarmError, match="can be written by others") as caught:
        LocalCache(folder)
    assert "chmod 700" in caught.value.remedy


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(CompileFarmError, match="can be written by others"):
        LocalCache(folder)


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "named"))
    assert LocalCache().folder == tmp_path / "named"
    monkeypatch.delenv("COMPILE_FARM_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert LocalCache().folder == tmp_path / ".cache" / "compile-farm"


def test_a_folder_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(CompileFarmError, match="can't be made") as caught:
        LocalCache(file / "cache")
    assert "COMPILE_FARM_CACHE" in caught.value.remedy


def test_many_writers_of_one_entry_leave_one(cache: LocalCache) -> None:
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for _ in range(20):
                assert cache.put(artifact()).shared_object.read_bytes() == b"code"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(list((cache.folder / "artifacts").iterdir())) == 1
