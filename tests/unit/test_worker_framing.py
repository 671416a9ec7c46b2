"""Messages between worker and child: whole ones come through, everything else is an error."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from compile_farm.v1 import compiler_pb2, sandbox_pb2
from compiler_service.worker import framing

STAGE = sandbox_pb2.SandboxReply(stage=compiler_pb2.Stage(name="lower", fraction=0.5))


def stream(*parts: bytes) -> asyncio.StreamReader:
    """A stream of these bytes, then its end."""
    reader = asyncio.StreamReader()
    for part in parts:
        reader.feed_data(part)
    reader.feed_eof()
    return reader


async def test_messages_come_through_in_order() -> None:
    other = sandbox_pb2.SandboxReply(failure=compiler_pb2.Failure(message="x" * 200_000))
    reader = stream(framing.encode(STAGE) + framing.encode(other))
    assert await framing.read(reader, sandbox_pb2.SandboxReply()) == STAGE
    assert await framing.read(reader, sandbox_pb2.SandboxReply()) == other
    with pytest.raises(EOFError):
        await framing.read(reader, sandbox_pb2.SandboxReply())


def test_the_length_is_four_bytes_big_endian() -> None:
    body = STAGE.SerializeToString()
    assert framing.encode(STAGE) == len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 8])
async def test_a_message_that_breaks_off_is_an_end(cut: int) -> None:
    with pytest.raises(EOFError):
        await framing.read(stream(framing.encode(STAGE)[:cut]), sandbox_pb2.SandboxReply())


async def test_a_length_over_the_limit_is_refused_before_it_is_read() -> None:
    header = (framing.MAX_MESSAGE_BYTES + 1).to_bytes(4, "big")
    with pytest.raises(framing.FramingError, match="over"):
        await framing.read(stream(header), sandbox_pb2.SandboxReply())


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xff\xff\xff",  # no field
        b"\x12\x03\x0a\x01\xff",  # a name that is not UTF-8
        b"\x1a\x04\x22\x7f\x0a\x01",  # a length past the end
        b"\x1a\x02" * 5000,
    ],
)
async def test_bytes_that_are_no_message_are_noise(body: bytes) -> None:
    data = len(body).to_bytes(4, "big") + body
    with pytest.raises(framing.FramingError, match="can't be read"):
        await framing.read(stream(data), sandbox_pb2.SandboxReply())


def test_a_message_over_the_limit_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_MESSAGE_BYTES", 10)
    with pytest.raises(framing.FramingError, match="over 10"):
        framing.encode(STAGE)


def test_the_childs_side_reads_the_same() -> None:
    ours, theirs = socket.socketpair()
    request = sandbox_pb2.SandboxCompile(job_id="1", capture=bytes(3_000_000))
    sender = threading.Thread(target=lambda: (ours.sendall(framing.encode(request)), ours.close()))
    sender.start()
    with theirs:
        assert framing.read_blocking(theirs, sandbox_pb2.SandboxCompile()) == request
        with pytest.raises(EOFError):
            framing.read_blocking(theirs, sandbox_pb2.SandboxCompile())
    sender.join()
