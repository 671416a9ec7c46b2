"""Whose signature counts, how keys are given, and what first use on loopback remembers."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from compile_farm.errors import UntrustedArtifactError
from compile_farm.trust import SIGNATURE_CONTEXT, FirstUse, TrustStore, key_id
from compile_farm.v1 import artifact_pb2

MANIFEST = b"a manifest"


class Signer:
    """A farm's signing key."""

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def sign(
        self, data: bytes, context: bytes = SIGNATURE_CONTEXT
    ) -> artifact_pb2.ManifestSignature:
        return artifact_pb2.ManifestSignature(
            key_id=key_id(self.public), ed25519=self._private.sign(context + data)
        )


@pytest.fixture
def farm() -> Signer:
    return Signer()


def test_a_trusted_keys_signature_passes(farm: Signer) -> None:
    TrustStore([Signer().public, farm.public]).verify(MANIFEST, farm.sign(MANIFEST))


def test_an_unknown_key_is_refused_by_name_and_with_a_remedy(farm: Signer) -> None:
    with pytest.raises(UntrustedArtifactError) as caught:
        TrustStore([Signer().public]).verify(MANIFEST, farm.sign(MANIFEST))
    assert key_id(farm.public) in caught.value.message
    assert "COMPILE_FARM_TRUSTED_KEYS" in caught.value.remedy


def test_an_empty_store_trusts_nobody(farm: Signer) -> None:
    assert not TrustStore()
    with pytest.raises(UntrustedArtifactError, match="trusted: none"):
        TrustStore().verify(MANIFEST, farm.sign(MANIFEST))


def test_a_signature_of_other_bytes_is_refused(farm: Signer) -> None:
    with pytest.raises(UntrustedArtifactError, match="does not fit"):
        TrustStore([farm.public]).verify(MANIFEST + b"!", farm.sign(MANIFEST))


def test_a_signature_made_for_something_else_is_refused(farm: Signer) -> None:
    with pytest.raises(UntrustedArtifactError, match="does not fit"):
        TrustStore([farm.public]).verify(MANIFEST, farm.sign(MANIFEST, context=b""))


def test_another_key_under_a_trusted_keys_name_is_refused(farm: Signer) -> None:
    forged = Signer().sign(MANIFEST)
    forged.key_id = key_id(farm.public)
    with pytest.raises(UntrustedArtifactError, match="does not fit"):
        TrustStore([farm.public]).verify(MANIFEST, forged)


@pytest.mark.parametrize("length", [0, 63, 65])
def test_a_signature_of_the_wrong_length_is_refused(farm: Signer, length: int) -> None:
    short = farm.sign(MANIFEST)
    short.ed25519 = bytes(length)
    with pytest.raises(UntrustedArtifactError):
        TrustStore([farm.public]).verify(MANIFEST, short)


def test_keys_are_read_in_hexadecimal_base64_and_from_files(farm: Signer, tmp_path: Path) -> None:
    other, third = Signer(), Signer()
    file = tmp_path / "keys"
    file.write_text(f"{other.public.hex()}\n{base64.b64encode(third.public).decode()}\n")
    store = TrustStore.parse(f"{farm.public.hex().upper()}, {file}")
    assert store.keys == (farm.public, other.public, third.public)


def test_the_environment_names_keys(farm: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMPILE_FARM_TRUSTED_KEYS", raising=False)
    assert TrustStore.from_environment().keys == ()
    monkeypatch.setenv("COMPILE_FARM_TRUSTED_KEYS", farm.public.hex())
    assert TrustStore.from_environment().keys == (farm.public,)


def test_what_is_no_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(UntrustedArtifactError, match="'deadbeef' is neither"):
        TrustStore.parse("deadbeef")
    file = tmp_path / "keys"
    file.write_text("hello")
    with pytest.raises(UntrustedArtifactError, match="'hello', which is no public key"):
        TrustStore.parse(str(file))
    with pytest.raises(UntrustedArtifactError, match="has 3 bytes"):
        TrustStore([b"abc"])


def test_first_use_is_remembered_for_its_owner_only(farm: Signer, tmp_path: Path) -> None:
    folder = tmp_path / "trusted"
    FirstUse(folder).accept("127.0.0.1:8815", [farm.public])
    again = FirstUse(folder)
    assert again.recall("127.0.0.1:8815").keys == (farm.public,)
    assert again.recall("127.0.0.1:9999").keys == ()
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_changed_key_is_refused_and_the_file_to_remove_is_named(
    farm: Signer, tmp_path: Path
) -> None:
    first = FirstUse(tmp_path)
    first.accept("[::1]:8815", [farm.public])
    assert first.accept("[::1]:8815", [farm.public]).keys == (farm.public,)
    with pytest.raises(UntrustedArtifactError, match="signs with another key") as caught:
        first.accept("[::1]:8815", [Signer().public])
    (file,) = tmp_path.iterdir()
    assert str(file) in caught.value.remedy
