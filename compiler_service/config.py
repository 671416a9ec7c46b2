"""How a service is run: what its command line says, checked before anything starts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from compiler_service.errors import ConfigError
from compiler_service.worker.limits import Limits

DATA_ENVIRONMENT = "COMPILE_FARM_DATA"
DEFAULT_LISTEN = "127.0.0.1:8815"


def default_data_dir() -> Path:
    """COMPILE_FARM_DATA, else ~/.local/share/compile-farm."""
    given = os.environ.get(DATA_ENVIRONMENT)
    return Path(given or "~/.local/share/compile-farm").expanduser()


@dataclass(frozen=True)
class ServeConfig:
    """Gateway and local worker in one process.

    Attributes:
        listen: HOST:PORT; port 0 takes a free one.
        data_dir: the store of the embedded default, the signing key, the worker's caches.
        stores: URLs of tiers in the order of reading; none: the disk under ``data_dir``.
        device: "auto", "cpu" or "cuda:N".
        limits: of the sandbox.
        confined: whether the sandbox may touch its own files only.
        libraries: modules that register the custom operators which graphs may call.
        queue_length: jobs that may wait.
        max_capture_bytes: of one request, compressed or not.
        inline_bytes: artifacts up to this size come with the answer itself.
        grace_seconds: how long calls may go on after a signal to stop.
    """

    listen: str = DEFAULT_LISTEN
    data_dir: Path = field(default_factory=default_data_dir)
    stores: tuple[str, ...] = ()
    device: str = "auto"
    limits: Limits = field(default_factory=Limits)
    confined: bool = True
    libraries: tuple[str, ...] = ()
    queue_length: int = 1000
    max_capture_bytes: int = 64 * 1024**2
    inline_bytes: int = 2 * 1024**2
    grace_seconds: float = 5.0

    def __post_init__(self) -> None:
        host, colon, port = self.listen.rpartition(":")
        if not host or not colon or not port.isdigit() or int(port) > 65535:
            raise ConfigError(f"--listen takes HOST:PORT, not {self.listen!r}")
        kind, _, index = self.device.partition(":")
        if kind not in ("auto", "cpu", "cuda") or (index and not index.isdigit()):
            raise ConfigError(f"--device takes auto, cpu or cuda:N, not {self.device!r}")
        for module in self.libraries:
            if not all(part.isidentifier() for part in module.split(".")):
                raise ConfigError(f"--library takes the name of a module, not {module!r}")
        for name, value in (
            ("--job-timeout", self.limits.job_seconds),
            ("--memory-limit", self.limits.memory_bytes),
            ("the queue's length", self.queue_length),
            ("the size of a capture", self.max_capture_bytes),
        ):
            if value <= 0:
                raise ConfigError(f"{name} must be over 0, not {value}")
