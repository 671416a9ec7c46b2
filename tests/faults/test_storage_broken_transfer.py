"""A connection that breaks in the middle of an artifact: an outage, and never a corrupt object."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from compiler_service.storage.open import open_store
from compiler_service.storage.outcome import Unavailable


class _BreaksOff(BaseHTTPRequestHandler):
    """An S3 that promises a thousand bytes, sends ten, and hangs up; notes what it was asked."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append("GET")
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(bytes(10))

    def do_DELETE(self) -> None:
        self.asked.append("DELETE")
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def breaking_server(s3_environment: None) -> Iterator[tuple[str, list[str]]]:
    """Its endpoint, and the methods of the requests that came."""
    asked: list[str] = []
    handler = type("Handler", (_BreaksOff,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


async def test_a_transfer_that_breaks_off_deletes_nothing(
    breaking_server: tuple[str, list[str]],
) -> None:
    endpoint, asked = breaking_server
    store = open_store([f"s3://bucket/farm?endpoint={endpoint}"], Path("unused"))
    outcome = await store.read("ab" * 32)
    assert isinstance(outcome, Unavailable)
    assert asked == ["GET", "GET"]  # once more, since the first failed at once
    assert store.tiers()[0].corrupt == 0
    await store.close()
