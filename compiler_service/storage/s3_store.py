"""An S3 bucket, or any endpoint that speaks its API: the durable tier.

In: names and bytes. Out: objects ``PREFIX/v1/blobs/<digest>`` and ``PREFIX/v1/index/<key>``. boto3
blocks, so each call runs in one of this store's own threads; each waits at most
``_CONNECT_SECONDS`` for a connection and ``_ANSWER_SECONDS`` for the next bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from compiler_service.storage.errors import InvalidNameError
from compiler_service.storage.name import Name, Space
from compiler_service.storage.outcome import (
    Found,
    Hit,
    Miss,
    Outcome,
    Presence,
    PutOutcome,
    Stored,
    Unavailable,
)
from compiler_service.storage.store import Listed, Store

T = TypeVar("T")

_CONNECT_SECONDS = 1.0
_ANSWER_SECONDS = 2.0
_THREADS = 32


class S3Store(Store):
    """``prefix`` without slashes at its ends, or empty; ``endpoint`` None for AWS itself.

    Credentials and region come from where boto3 looks for them (AWS_ACCESS_KEY_ID, a profile, a
    role). They need s3:GetObject, PutObject, DeleteObject and ListBucket: without the last, S3
    answers "forbidden" for what is merely missing.
    """

    def __init__(
        self, bucket: str, prefix: str, *, endpoint: str | None = None, name: str = "s3"
    ) -> None:
        self._name = name
        self._bucket = bucket
        self._prefix = f"{prefix}/v1/" if prefix else "v1/"
        session = boto3.session.Session()
        self._client: Any = session.client(
            "s3",
            endpoint_url=endpoint,
            region_name=session.region_name or "us-east-1",
            config=Config(
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_ANSWER_SECONDS,
                # Its own retries sleep for seconds; RetryingStore decides instead, within a limit.
                retries={"mode": "standard", "total_max_attempts": 1},
                max_pool_connections=_THREADS,
                tcp_keepalive=True,
                # We check SHA-256 ourselves, and many S3-compatible servers don't know these.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                # Elsewhere than at AWS, bucket.host seldom has a DNS name.
                s3={"addressing_style": "path" if endpoint else "auto"},
            ),
        )
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"store-{name}")

    @property
    def name(self) -> str:
        return self._name

    async def get(self, names: Sequence[Name]) -> list[Outcome]:
        return await self._each(names, self._get)

    async def contains(self, names: Sequence[Name]) -> list[Presence]:
        return await self._each(names, self._head)

    async def put(self, name: Name, data: bytes) -> PutOutcome:
        return await self._run(lambda: self._put(name, data))

    async def delete(self, names: Sequence[Name]) -> Unavailable | None:
        # One by one: deleting many in one request is what S3-compatible servers differ in most.
        answers = await self._each(names, self._delete)
        return next((answer for answer in answers if answer is not None), None)

    async def scan(self, space: Space) -> list[Listed] | Unavailable:
        return await self._run(lambda: self._list(space))

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    async def _run(self, call: Callable[[], T | Unavailable]) -> T | Unavailable:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._answered, call)

    async def _each(
        self, names: Sequence[Name], call: Callable[[Name], T]
    ) -> list[T | Unavailable]:
        """``call`` for every name, in parallel; the first outage answers for all that remain."""
        free = asyncio.Semaphore(_THREADS)
        down: list[Unavailable] = []

        async def one(name: Name) -> T | Unavailable:
            async with free:
                if down:
                    return down[0]
                answer = await self._run(lambda: call(name))
                if isinstance(answer, Unavailable):
                    down.append(answer)
                return answer

        return await asyncio.gather(*(one(name) for name in names))

    def _answered(self, call: Callable[[], T | Unavailable]) -> T | Unavailable:
        try:
            return call()
        except ClientError as error:
            detail = error.response.get("Error", {})
            reason = f"{detail.get('Code', '')} {detail.get('Message', '')}".strip()
        except (BotoCoreError, OSError, _BrokenTransferError) as error:
            reason = str(error)
        return Unavailable((self._name,), f"S3 bucket {self._bucket}: {reason}")

    def _get(self, name: Name) -> Outcome:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
        except ClientError as error:
            if _is_missing(error):
                return Miss()
            raise
        with answer["Body"] as body:
            data = body.read(name.largest + 1)
        expected = min(answer["ContentLength"], name.largest + 1)
        if len(data) != expected:
            # A broken transfer says nothing about the object: a corrupt one would be deleted.
            raise _BrokenTransferError(f"{name} broke off after {len(data)} of {expected} bytes")
        return Hit(data, self._name)

    def _head(self, name: Name) -> Presence:
        try:
            self._client.head_object(Bucket=self._bucket, Key=self._key(name))
        except ClientError as error:
            if _is_missing(error):
                return Miss()
            raise
        return Found(self._name)

    def _put(self, name: Name, data: bytes) -> PutOutcome:
        self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=data)
        return Stored((self._name,))

    def _delete(self, name: Name) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=self._key(name))

    def _list(self, space: Space) -> list[Listed]:
        folder = f"{self._prefix}{space}/"
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=folder
        )
        listed = []
        for page in pages:
            for item in page.get("Contents", ()):
                try:
                    name = Name(space, item["Key"].removeprefix(folder))
                except InvalidNameError:
                    continue  # somebody else's object under our prefix
                listed.append(Listed(name, item["LastModified"].timestamp()))
        return listed

    def _key(self, name: Name) -> str:
        return self._prefix + str(name)


class _BrokenTransferError(Exception):
    pass


def _is_missing(error: ClientError) -> bool:
    """The object is missing, not the bucket; HEAD has no body and says only 404."""
    return error.response.get("Error", {}).get("Code") in {"NoSuchKey", "404"}
