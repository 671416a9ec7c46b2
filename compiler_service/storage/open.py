"""Where the tiers are put together: the only file of this room that names concrete stores.

In: the URLs of ``--store`` and the server's data folder. Out: an ArtifactStore. Each tier is, from
the inside: the store itself, retrying (those over a network), guarded, verified, metered.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from compiler_service.storage.artifact_store import ArtifactStore
from compiler_service.storage.disk_store import DiskStore
from compiler_service.storage.guarded_store import GuardedStore, Limits
from compiler_service.storage.metered_store import MeteredStore
from compiler_service.storage.retrying_store import RetryingStore
from compiler_service.storage.store import Store
from compiler_service.storage.urls import DiskUrl, RedisUrl, S3Url, StoreUrl, parse
from compiler_service.storage.verified_store import VerifiedStore


def open_store(urls: Sequence[str], data_dir: Path) -> ArtifactStore:
    """The tiers that ``urls`` name, read in that order; none: a folder in ``data_dir``.

    Connects to nothing yet: a Redis or a bucket that is down at the start is an outage like any
    other. Raises StoreUrlError for a URL that can't be read and a folder that can't be used.
    """
    parsed = [parse(url) for url in urls] or [DiskUrl(data_dir / "store")]
    kinds: Counter[str] = Counter()
    tiers = []
    for url in parsed:
        kind = _kind(url)
        kinds[kind] += 1
        name = kind if kinds[kind] == 1 else f"{kind}-{kinds[kind]}"
        tiers.append(tier(_open(url, name)))
    return ArtifactStore(tiers)


def tier(store: Store, limits: Limits | None = None) -> MeteredStore:
    """One tier around a bare store: an outage is bounded, a corrupt object a miss, both counted."""
    if not isinstance(store, DiskStore):
        store = RetryingStore(store)
    return MeteredStore(VerifiedStore(GuardedStore(store, limits)))


def _kind(url: StoreUrl) -> str:
    match url:
        case DiskUrl():
            return "disk"
        case RedisUrl():
            return "redis"
        case S3Url():
            return "s3"


def _open(url: StoreUrl, name: str) -> Store:
    # boto3 alone takes a third of a second to import, so only who uses it pays.
    match url:
        case DiskUrl(path):
            return DiskStore(path, name=name)
        case RedisUrl(address):
            from compiler_service.storage.redis_store import RedisStore

            return RedisStore(address, name=name)
        case S3Url(bucket, prefix, endpoint):
            from compiler_service.storage.s3_store import S3Store

            return S3Store(bucket, prefix, endpoint=endpoint or _s3_endpoint(), name=name)


def _s3_endpoint() -> str | None:
    """As the AWS tools take it; read here because it decides how a bucket is addressed."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
