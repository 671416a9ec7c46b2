"""Names, index entries and store URLs: what is taken, and what is refused with which words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler_service.storage import index_entry, name
from compiler_service.storage.errors import InvalidNameError, StoreUrlError
from compiler_service.storage.index_entry import IndexEntry
from compiler_service.storage.open import open_store
from compiler_service.storage.urls import DiskUrl, RedisUrl, S3Url, StoreUrl, parse

KEY, DIGEST = "ab" * 32, "cd" * 32
ENTRY = IndexEntry(KEY, DIGEST, 1234, 1_796_000_000)


@pytest.mark.parametrize(
    "digits",
    [
        "",
        "ab",
        "AB" * 32,
        "ab" * 33,
        "ab" * 32 + "\n",
        "../" + "a" * 61,
        "/" + "a" * 63,
        "a\0" * 32,
    ],
)
def test_a_name_that_could_lead_elsewhere_is_refused(digits: str) -> None:
    with pytest.raises(InvalidNameError, match="64 hexadecimal digits"):
        name.blob(digits)
    with pytest.raises(InvalidNameError):
        name.index(digits)


def test_an_index_entry_survives_the_way_there_and_back() -> None:
    assert index_entry.decode(index_entry.encode(ENTRY)) == ENTRY


def test_where_an_entry_was_found_is_not_kept() -> None:
    found = IndexEntry(KEY, DIGEST, 1234, 1_796_000_000, tier="s3", missed=("redis",))
    assert index_entry.encode(found) == index_entry.encode(ENTRY)


def test_every_single_flipped_bit_of_an_index_entry_is_noticed() -> None:
    good = index_entry.encode(ENTRY)
    for position in range(len(good) * 8):
        flipped = bytearray(good)
        flipped[position // 8] ^= 1 << position % 8
        assert index_entry.decode(bytes(flipped)) is None, position


def test_every_truncation_of_an_index_entry_is_noticed() -> None:
    good = index_entry.encode(ENTRY)
    assert all(index_entry.decode(good[:length]) is None for length in range(len(good)))


@given(st.one_of(st.binary(max_size=200), st.text(alphabet='[]{}",:0a', max_size=40)))
def test_no_bytes_make_decoding_an_index_entry_raise(data: bytes | str) -> None:
    assert index_entry.decode(data.encode() if isinstance(data, str) else data) is None


@pytest.mark.parametrize(
    "data", [b"[" * 4000, b'{"key": 1e999}', b"null", b'{"key": [], "digest": {}, "size": true}']
)
def test_hostile_json_is_no_index_entry(data: bytes) -> None:
    assert index_entry.decode(data) is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("disk:/srv/farm", DiskUrl(Path("/srv/farm"))),
        ("disk:farm", DiskUrl(Path("farm"))),
        ("file:///srv/my%20farm", DiskUrl(Path("/srv/my farm"))),
        ("redis://cache:6379/0", RedisUrl("redis://cache:6379/0")),
        ("rediss://:secret@cache/2", RedisUrl("rediss://:secret@cache/2")),
        ("s3://bucket", S3Url("bucket", "", None)),
        ("s3://bucket/a/b/", S3Url("bucket", "a/b", None)),
        (
            "s3://bucket/farm?endpoint=http://minio:9000",
            S3Url("bucket", "farm", "http://minio:9000"),
        ),
    ],
)
def test_store_urls(url: str, expected: StoreUrl) -> None:
    assert parse(url) == expected


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("/srv/farm", "no scheme"),
        ("", "no scheme"),
        ("http://host/", "'http' is unknown"),
        ("disk:", "no folder"),
        ("file://host/srv", "names a host, 'host'"),
        ("file://", "no folder"),
        ("redis://", "no host"),
        ("redis://host/zero", "'zero' is not a number"),
        ("redis://host:port/0", "port can't be read"),
        ("redis://host/0?socket_timeout=1000", "no query parameters"),
        ("s3://", "no name of a bucket"),
        ("s3://Not_A_Bucket/x", "'Not_A_Bucket' is no name of a bucket"),
        ("s3://key:secret@bucket/x", "AWS_ACCESS_KEY_ID"),
        ("s3://bucket/x?region=eu", "'region' is unknown"),
        ("s3://bucket/x?endpoint=minio:9000", "no http or https URL"),
    ],
)
def test_a_bad_store_url_is_named_with_the_accepted_forms(url: str, problem: str) -> None:
    with pytest.raises(StoreUrlError) as caught:
        parse(url)
    assert problem in str(caught.value)
    assert "redis://HOST:PORT/0" in str(caught.value)
    assert "s3://BUCKET/PREFIX" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2@host/zero",
        "redis://user:hunter2@host:port/0",
        "redis://:hunter2@/0",
        "redis://:hunter2",
        "s3://key:hunter2@bucket",
        "s3://bucket/?endpoint=ftp://me:hunter2@host",
    ],
)
def test_a_password_never_stands_in_the_message(url: str) -> None:
    with pytest.raises(StoreUrlError) as caught:
        parse(url)
    assert "hunter2" not in str(caught.value)


async def test_without_urls_the_store_is_a_folder_of_the_data_folder(tmp_path: Path) -> None:
    store = open_store([], tmp_path)
    entry = await store.publish(KEY, b"artifact")
    assert entry.tier == "disk"
    assert os.listdir(tmp_path) == ["store"]
    await store.close()


async def test_with_urls_only_the_named_tiers_are_used_in_their_order(tmp_path: Path) -> None:
    store = open_store([f"disk:{tmp_path}/a", f"file://{tmp_path}/b"], tmp_path / "data")
    assert [tier.name for tier in store.tiers()] == ["disk", "disk-2"]
    await store.publish(KEY, b"artifact")
    assert not (tmp_path / "data").exists()
    await store.close()


def test_a_folder_that_cannot_be_made_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUrlError, match="can't use the folder"):
        open_store([f"disk:{tmp_path}/file/store"], tmp_path)
