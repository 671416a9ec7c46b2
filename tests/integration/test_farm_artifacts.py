"""Getting artifacts over a real socket: trust, the local cache, broken transfers, wrong answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from compile_farm import (
    ArtifactNotFoundError,
    CompileFarmError,
    CorruptArtifactError,
    Farm,
    FarmUnavailableError,
    UntrustedArtifactError,
)
from compile_farm.artifact import pack, unpack
from compile_farm.targets import host_target
from compile_farm.trust import SIGNATURE_CONTEXT, key_id
from compile_farm.v1 import artifact_pb2
from tests.loadable import PUBLIC_KEY, artifact_bytes, example, sign
from tests.scripted_farm import ScriptedFarm


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COMPILE_FARM_TRUSTED_KEYS", "COMPILE_FARM_URL", "COMPILE_FARM_CACHE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[ScriptedFarm]:
    with ScriptedFarm([PUBLIC_KEY], [host_target("cpu")]) as farm:
        yield farm


@pytest.fixture
def data() -> bytes:
    return artifact_bytes("affine")


@pytest.fixture
def key(data: bytes) -> str:
    return unpack(data).manifest.key


def resigned(data: bytes, private: Ed25519PrivateKey) -> bytes:
    """The same artifact, signed by another."""
    public = private.public_key().public_bytes_raw()
    unpacked = unpack(data)
    return pack(
        unpacked.manifest,
        unpacked.files,
        lambda manifest: artifact_pb2.ManifestSignature(
            key_id=key_id(public), ed25519=private.sign(SIGNATURE_CONTEXT + manifest)
        ),
    )


def test_an_artifact_is_fetched_bound_and_right(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    server.add(key, data)
    with Farm(server.url, cache_dir=tmp_path) as farm:
        artifact = farm.artifact(key)
        model, (x,), _, _ = example("affine", seed=3)
        with torch.no_grad():
            torch.testing.assert_close(artifact.bind(model)(x), model(x))
            torch.testing.assert_close(farm.bind(key, model)(x), model(x))
        assert (artifact.key, artifact.manifest.builder) == (key, "tests")


def test_what_the_cache_has_needs_no_farm(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    server.add(key, data)
    first = Farm(server.url, cache_dir=tmp_path).artifact(key)
    server.stop()
    again = Farm(server.url, cache_dir=tmp_path).artifact(key)
    assert again.digest == first.digest
    with pytest.raises(FarmUnavailableError, match="can't be reached") as caught:
        Farm(server.url, cache_dir=tmp_path).artifact("00" * 32)
    assert caught.value.retryable
    assert f"is `compile-farm serve` running at {server.url}?" in caught.value.remedy


def test_an_inline_artifact_is_not_asked_for_again(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    server.add(key, data).inline = data
    Farm(server.url, cache_dir=tmp_path).artifact(key)
    assert not any(call.startswith("Read") for call in server.calls)


def test_a_wrong_inline_artifact_is_read_instead(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    server.add(key, data).inline = data[:-1]
    Farm(server.url, cache_dir=tmp_path).artifact(key)
    assert "Read 0" in server.calls


def test_a_broken_transfer_goes_on_where_it_stopped(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    server.add(key, data)
    server.chunk, server.broken_reads = 40_000, 2
    Farm(server.url, cache_dir=tmp_path).artifact(key)
    reads = [call for call in server.calls if call.startswith("Read")]
    assert reads == ["Read 0", "Read 40000", "Read 80000"]


def test_bytes_that_are_not_the_digests_are_refused(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    ref = server.add(key, data)
    server.blobs[ref.digest] = data[:-3] + b"xyz"
    with pytest.raises(CorruptArtifactError, match="other content than its digest"):
        Farm(server.url, cache_dir=tmp_path).artifact(key)
    assert not list((tmp_path / "artifacts").iterdir())


def test_the_artifact_of_another_key_is_refused(
    server: ScriptedFarm, data: bytes, tmp_path: Path
) -> None:
    """Well signed, but it would answer another question."""
    other = "cd" * 32
    server.add(other, data)
    with pytest.raises(CorruptArtifactError, match="lies the artifact of another key"):
        Farm(server.url, cache_dir=tmp_path).artifact(other)


def test_an_unknown_signer_is_refused_and_nothing_is_cached(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    server.add(key, resigned(data, Ed25519PrivateKey.generate()))
    with pytest.raises(UntrustedArtifactError, match="not trusted here"):
        Farm(server.url, cache_dir=tmp_path).artifact(key)
    assert not list((tmp_path / "artifacts").iterdir())


def test_given_keys_count_and_the_farms_own_word_does_not(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    server.add(key, data)
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    with pytest.raises(UntrustedArtifactError):
        Farm(server.url, trusted_keys=[other.hex()], cache_dir=tmp_path).artifact(key)
    Farm(server.url, trusted_keys=[other, PUBLIC_KEY], cache_dir=tmp_path).artifact(key)


def test_an_empty_list_of_keys_trusts_nobody(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    server.add(key, data)
    with pytest.raises(UntrustedArtifactError, match="trusted: none"):
        Farm(server.url, trusted_keys=[], cache_dir=tmp_path).artifact(key)


def test_a_farm_elsewhere_needs_its_key_beforehand(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the address were not loopback's."""
    server.add(key, data)
    monkeypatch.setattr("compile_farm.transport.Address.is_loopback", False)
    farm = Farm(server.url, cache_dir=tmp_path)
    with pytest.raises(UntrustedArtifactError, match="no key is trusted") as caught:
        farm.artifact(key)
    assert "COMPILE_FARM_TRUSTED_KEYS" in caught.value.remedy
    monkeypatch.setenv("COMPILE_FARM_TRUSTED_KEYS", PUBLIC_KEY.hex())
    Farm(server.url, cache_dir=tmp_path).artifact(key)


def test_a_farm_whose_key_changed_is_refused(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    server.add(key, data)
    Farm(server.url, cache_dir=tmp_path).artifact(key)
    private = Ed25519PrivateKey.generate()
    server.public_keys = [private.public_key().public_bytes_raw()]
    altered = unpack(data).manifest
    altered.key = "ef" * 32
    server.add(altered.key, resigned(pack(altered, unpack(data).files, sign), private))
    with pytest.raises(UntrustedArtifactError, match="signs with another key"):
        Farm(server.url, cache_dir=tmp_path).artifact(altered.key)


def test_a_damaged_cache_is_fetched_again(
    server: ScriptedFarm, data: bytes, key: str, tmp_path: Path
) -> None:
    ref = server.add(key, data)
    Farm(server.url, cache_dir=tmp_path).artifact(key)
    so = tmp_path / "artifacts" / ref.digest / "model.so"
    so.write_bytes(so.read_bytes()[:-1])
    server.calls.clear()
    Farm(server.url, cache_dir=tmp_path).artifact(key).open()
    assert "Read 0" in server.calls


def test_an_outage_of_the_store_is_no_miss(server: ScriptedFarm, tmp_path: Path) -> None:
    farm = Farm(server.url, cache_dir=tmp_path)
    with pytest.raises(ArtifactNotFoundError, match="has no artifact under"):
        farm.artifact("00" * 32)
    server.unavailable_tiers = ["s3"]
    with pytest.raises(FarmUnavailableError, match="s3 did not answer"):
        farm.artifact("00" * 32)


def test_lists_and_lookups(server: ScriptedFarm, data: bytes, tmp_path: Path) -> None:
    keys = [f"{number:064x}" for number in range(5)]
    for name in keys:
        server.add(name, data)
    with Farm(server.url, cache_dir=tmp_path) as farm:
        assert [summary.key for summary in farm.artifacts()] == keys
        assert [summary.key for summary in farm.artifacts(limit=3)] == keys[:3]
        assert set(farm.lookup([keys[1], "ff" * 32])) == {keys[1]}
        assert farm.status().version == "scripted"
    with pytest.raises(CompileFarmError, match="was closed"):
        farm.status()


@pytest.mark.parametrize("key", ["", "abc", "AB" * 32, "../" * 21 + "x"])
def test_what_is_no_key_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(CompileFarmError, match="is no key"):
        Farm(cache_dir=tmp_path).artifact(key)


@pytest.mark.parametrize("url", ["farm", "ftp://farm:1", "farm:port", ":8815", "farm:99999"])
def test_what_is_no_address_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(CompileFarmError, match="is no address"):
        Farm(url, cache_dir=tmp_path).status()


def test_addresses_in_every_spelling(
    server: ScriptedFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A proxy for the outer world, which could not reach this host.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("grpc_proxy", "http://127.0.0.1:9")
    for url in (
        server.url,
        f"grpc://{server.url}",
        f"http://{server.url}/",
        f"localhost:{server.port}",
    ):
        assert Farm(url, cache_dir=tmp_path).status().version == "scripted"
    monkeypatch.setenv("COMPILE_FARM_URL", server.url)
    assert Farm(cache_dir=tmp_path).status().version == "scripted"
