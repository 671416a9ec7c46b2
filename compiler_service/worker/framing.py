"""Messages between a worker and its child: four bytes of length, big-endian, then protobuf."""

from __future__ import annotations

import asyncio
import socket
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

# A capture may have 64 MiB; a manifest is smaller.
MAX_MESSAGE_BYTES = 80 * 1024**2
_HEADER = 4

M = TypeVar("M", bound=Message)


class FramingError(Exception):
    """The other side sent what is no message."""


def encode(message: Message) -> bytes:
    """The message with its length before it."""
    body = message.SerializeToString()
    if len(body) > MAX_MESSAGE_BYTES:
        raise FramingError(f"a message of {len(body)} bytes is over {MAX_MESSAGE_BYTES}")
    return len(body).to_bytes(_HEADER, "big") + body


async def read(reader: asyncio.StreamReader, message: M) -> M:
    """Fills ``message`` with the next one; raises EOFError at the end, FramingError for noise."""
    try:
        length = int.from_bytes(await reader.readexactly(_HEADER), "big")
        if length > MAX_MESSAGE_BYTES:
            raise FramingError(f"a message claims {length} bytes, over {MAX_MESSAGE_BYTES}")
        body = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise EOFError("the other side closed the connection") from error
    return _parse(message, body)


def read_blocking(connection: socket.socket, message: M) -> M:
    """The same in the child, which has no event loop."""
    length = int.from_bytes(_exactly(connection, _HEADER), "big")
    if length > MAX_MESSAGE_BYTES:
        raise FramingError(f"a message claims {length} bytes, over {MAX_MESSAGE_BYTES}")
    return _parse(message, _exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise EOFError("the other side closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _parse(message: M, body: bytes) -> M:
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise FramingError(f"a message can't be read: {error}") from error
    return message
