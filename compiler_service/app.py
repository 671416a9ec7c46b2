"""The composition root: the only file that names concrete classes.

In: a configuration. Out: a running farm on one machine, gateway and worker, until it is told to
stop. The gateway listens at once; jobs that come while the worker warms up wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable

from compile_farm import __version__
from compile_farm.release.check import SIGNATURE_CONTEXT
from compile_farm.trust import key_id
from compiler_service.config import ServeConfig
from compiler_service.dispatch.local import LocalDispatcher
from compiler_service.errors import ConfigError
from compiler_service.gateway.artifacts_instance import ArtifactsInstance
from compiler_service.gateway.compiler_instance import CompilerInstance
from compiler_service.gateway.releases_instance import ReleasesInstance
from compiler_service.gateway.server import GatewayServer
from compiler_service.security.signing import SigningKey, SigningKeyError
from compiler_service.storage.errors import StoreError
from compiler_service.storage.open import open_store
from compiler_service.worker.worker import SandboxWorker

log = logging.getLogger(__name__)


class Farm:
    """Gateway, dispatcher, worker and store of one machine."""

    def __init__(self, config: ServeConfig) -> None:
        """Raises ConfigError for a store or key that can't be used."""
        self._config = config
        try:
            self._store = open_store(config.stores, config.data_dir)
            signing_key = SigningKey.load_or_create(config.data_dir / "keys" / "signing.key")
        except (StoreError, SigningKeyError, OSError) as error:
            raise ConfigError(str(error)) from error
        self.public_key = signing_key.public_bytes
        worker = SandboxWorker(
            "local",
            device=config.device,
            signing_key=signing_key,
            work_dir=config.data_dir / "worker",
            limits=config.limits,
            confined=config.confined,
            libraries=config.libraries,
        )
        self._dispatcher = LocalDispatcher([worker], self._store, queue_length=config.queue_length)
        compiler = CompilerInstance(
            self._store,
            self._dispatcher,
            version=__version__,
            public_keys=[signing_key.public_bytes],
            max_capture_bytes=config.max_capture_bytes,
            inline_bytes=config.inline_bytes,
        )
        self._server = GatewayServer(
            compiler,
            ArtifactsInstance(self._store),
            ReleasesInstance(self._store, lambda data: signing_key.sign(data, SIGNATURE_CONTEXT)),
            listen=config.listen,
            max_capture_bytes=config.max_capture_bytes,
        )

    @property
    def address(self) -> str:
        """HOST:PORT, with the real port once it has started."""
        return self._server.address

    @property
    def tiers(self) -> list[str]:
        """Names of the store's tiers in the order of reading."""
        return [tier.name for tier in self._store.tiers()]

    async def start(self) -> None:
        """Listens; the worker warms up in the background. Raises ConfigError."""
        await self._server.start()
        await self._dispatcher.start()

    async def stop(self) -> None:
        """Ends calls, jobs, workers and the store, in this order."""
        await self._server.stop(self._config.grace_seconds)
        await self._dispatcher.stop()
        await self._store.close()


async def serve(config: ServeConfig, *, ready: Callable[[Farm], None] | None = None) -> None:
    """Runs a farm until SIGINT or SIGTERM; ``ready`` is called once it listens."""
    farm = Farm(config)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    await farm.start()
    try:
        if ready is not None:
            ready(farm)
        await stopping.wait()
        log.info("stopping")
    finally:
        await farm.stop()


def main(config: ServeConfig) -> int:
    """Runs a farm in the foreground; the exit code is 0, or 2 where it could not start."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )

    def ready(farm: Farm) -> None:
        print(f"listening on {farm.address}", flush=True)
        print(f"store: {' -> '.join(farm.tiers)}; data in {config.data_dir}", flush=True)
        print(
            f"signing key: {farm.public_key.hex()} (id {key_id(farm.public_key)}); clients on "
            "other hosts must trust it",
            flush=True,
        )

    try:
        asyncio.run(serve(config, ready=ready))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
