"""Store URLs, read.

In: what stood behind ``--store``. Out: one value for each kind of tier, or a StoreUrlError that
names what is wrong. Passwords in a URL never reach a message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from compiler_service.storage.errors import StoreUrlError

ACCEPTED = (
    "accepted are disk:PATH, file:///PATH, redis://HOST:PORT/0, rediss://HOST:PORT/0 and "
    "s3://BUCKET/PREFIX, the last optionally with ?endpoint=http://HOST:PORT"
)

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class DiskUrl:
    path: Path


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """``url`` as redis-py takes it; it may hold a password."""

    url: str


@dataclass(frozen=True, slots=True)
class S3Url:
    """``prefix`` has no slash at its ends; ``endpoint`` None: not given here."""

    bucket: str
    prefix: str
    endpoint: str | None


StoreUrl = DiskUrl | RedisUrl | S3Url


def parse(url: str) -> StoreUrl:
    """Raises StoreUrlError."""
    if url.startswith("disk:"):
        return DiskUrl(_folder(url.removeprefix("disk:"), url))
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (read now: a port that is no number raises only when read)
    except ValueError:
        # The error's own text repeats what it could not read, which may be a password.
        raise _wrong(url, "its host or port can't be read") from None
    match parts.scheme:
        case "file":
            if parts.netloc:
                raise _wrong(url, f"it names a host, {parts.netloc!r}; write file:/// and the path")
            return DiskUrl(_folder(unquote(parts.path), url))
        case "redis" | "rediss":
            return _redis(parts, url)
        case "s3":
            return _s3(parts, url)
        case "":
            raise _wrong(url, "it has no scheme")
        case other:
            raise _wrong(url, f"the scheme {other!r} is unknown")


def _folder(path: str, url: str) -> Path:
    if not path or "\0" in path:
        raise _wrong(url, "it names no folder")
    return Path(path).expanduser()


def _redis(parts: SplitResult, url: str) -> RedisUrl:
    if not parts.hostname:
        raise _wrong(url, "it names no host")
    database = parts.path.strip("/")
    if database and not re.fullmatch("[0-9]+", database):
        raise _wrong(url, f"the database {database!r} is not a number")
    if parts.query:
        # redis-py would take any setting from here, and override our timeouts.
        raise _wrong(url, "it takes no query parameters")
    return RedisUrl(url)


def _s3(parts: SplitResult, url: str) -> S3Url:
    if parts.username is not None or parts.password is not None:
        raise _wrong(url, "credentials belong in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if not _BUCKET.fullmatch(parts.netloc):
        raise _wrong(url, f"{parts.netloc!r} is no name of a bucket")
    query = parse_qs(parts.query, keep_blank_values=True)
    endpoints = query.pop("endpoint", [])
    if query:
        raise _wrong(url, f"the query parameter {min(query)!r} is unknown")
    endpoint = endpoints[-1] if endpoints else None
    if endpoint is not None:
        target = urlsplit(endpoint)
        if target.scheme not in {"http", "https"} or not target.hostname:
            raise _wrong(url, f"the endpoint {_redacted(endpoint)!r} is no http or https URL")
    return S3Url(parts.netloc, unquote(parts.path).strip("/"), endpoint)


def _wrong(url: str, problem: str) -> StoreUrlError:
    return StoreUrlError(f"can't read the store URL {_redacted(url)!r}: {problem}", remedy=ACCEPTED)


def _redacted(url: str) -> str:
    """Without what may be a password: all before the last @, or, without one, host and port."""
    return re.sub(r"//(.*@|[^/]*:[^/]*)", "//***", url, flags=re.DOTALL)
