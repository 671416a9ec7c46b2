"""Real servers for tests: a Redis and an S3 API over HTTP, each a process on a free port.

In: fixtures ``redis_server`` and ``s3_server`` (fresh for each test; may be killed, frozen and
restarted), ``s3_bucket`` (the URL of a new bucket in an S3 server shared by the whole run). Out:
URLs. A missing server is an error and not a skip: ``make test`` installs what it needs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import boto3
import pytest
import redis
from botocore.config import Config

_START_SECONDS = 60.0

Server = TypeVar("Server", bound="ServerProcess")

S3_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class ServerProcess:
    """A server on a port of 127.0.0.1 that stays the same over restarts."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Returns when it answers."""
        log = self._folder / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(), stdout=output, stderr=subprocess.STDOUT, cwd=self._folder
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.command()[0]} did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """As a crash: connections are reset, and new ones refused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """As a lost network: connections are accepted by the kernel, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class RedisServer(ServerProcess):
    """Keeps nothing over a restart."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        """For a test to look, and to tamper, behind the store's back."""
        return redis.Redis(port=self.port)

    def command(self) -> list[str]:
        program = shutil.which("redis-server") or "/usr/bin/redis-server"
        if not Path(program).exists():
            pytest.fail(
                "redis-server is not installed: apt-get install redis-server", pytrace=False
            )
        settings = {"bind": "127.0.0.1", "port": str(self.port), "save": "", "appendonly": "no"}
        return [program, *(part for key, value in settings.items() for part in (f"--{key}", value))]

    def answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


class S3Server(ServerProcess):
    """moto's S3 over HTTP; keeps nothing over a restart."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, bucket: str, prefix: str = "farm") -> str:
        """A store's URL."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}"

    def client(self) -> Any:
        """For a test to look, and to tamper, behind the store's back."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(s3={"addressing_style": "path"}),
        )

    def new_bucket(self) -> str:
        """Its name."""
        bucket = f"farm-{secrets.token_hex(8)}"
        self.client().create_bucket(Bucket=bucket)
        return bucket

    def command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        return False


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


@contextlib.contextmanager
def running(kind: type[Server]) -> Iterator[Server]:
    """A server of this kind, killed at the end, frozen or not."""
    with tempfile.TemporaryDirectory() as folder:
        server = kind(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    with running(RedisServer) as server:
        yield server


@pytest.fixture
def s3_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials for moto, and none of the developer's own settings."""
    for variable in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    for variable, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)


@pytest.fixture
def s3_server(s3_environment: None) -> Iterator[S3Server]:
    with running(S3Server) as server:
        yield server


@pytest.fixture(scope="session")
def shared_s3_server() -> Iterator[S3Server]:
    """moto takes seconds to start; tests that leave it alive share it, each with its own bucket."""
    with running(S3Server) as server:
        yield server


@pytest.fixture
def s3_bucket(shared_s3_server: S3Server, s3_environment: None) -> str:
    return shared_s3_server.new_bucket()
