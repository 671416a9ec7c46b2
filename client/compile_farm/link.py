"""The way to one farm: its address, one connection, and whose signatures count.

In: a URL, perhaps keys. Out: a Transport that is opened when it is first needed, and TrustStores.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from compile_farm.errors import CompileFarmError, FarmUnavailableError, UntrustedArtifactError
from compile_farm.trust import KEYS_VARIABLE, FirstUse, TrustStore
from compile_farm.v1 import compiler_pb2

if TYPE_CHECKING:
    from compile_farm.transport import Address, Transport

OFFLINE_VARIABLE = "COMPILE_FARM_OFFLINE"


class Link:
    """Safe to use from several threads; opens no connection before it needs one."""

    def __init__(
        self,
        url: str,
        trusted_keys: str | Iterable[str | bytes] | None,
        timeout: float,
        folder: Path,
        offline: bool = False,
    ) -> None:
        """``folder`` keeps the keys that a farm on loopback showed at first use.

        ``offline``: the farm is never asked, and is away to whoever needs it.
        """
        self.url = url
        self.offline = offline
        self._timeout = timeout
        self._explicit = _trust_store(trusted_keys)
        self._first_use = FirstUse(folder)
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._known: Address | None = None
        self._shown: TrustStore | None = None
        self._closed = False

    def close(self) -> None:
        """Ends the connection for good."""
        with self._lock:
            transport, self._transport = self._transport, None
            self._closed = True
        if transport is not None:
            transport.close()

    @property
    def transport(self) -> Transport:
        """The connection. Raises CompileFarmError after ``close`` and for a URL that is none."""
        # grpc costs a tenth of a second to import: not for what the local cache has.
        if self.offline:
            raise FarmUnavailableError(
                f"the farm at {self.url} is not asked: this process is offline, and the local "
                "cache does not have it",
                remedy=f"prefetch while online, or unset {OFFLINE_VARIABLE}",
            )
        from compile_farm.transport import Transport

        address = self._address
        with self._lock:
            if self._closed:
                raise CompileFarmError("this Farm was closed", remedy="make another one")
            if self._transport is None:
                self._transport = Transport(address, self._timeout)
            return self._transport

    def capabilities(self) -> compiler_pb2.GetCapabilitiesResponse:
        """What the farm serves, once it is clear that its artifacts can be trusted.

        Raises UntrustedArtifactError, FarmUnavailableError.
        """
        capabilities = self.transport.capabilities()
        if self._explicit is None:
            self._accept(capabilities.public_keys)
        return capabilities

    def trust(self) -> TrustStore:
        """The keys that may sign; asks a farm on loopback at first use."""
        if self._explicit is not None:
            return self._explicit
        if self._shown is None:
            self._accept(self.transport.capabilities().public_keys)
        assert self._shown is not None
        return self._shown

    def local_trust(self) -> TrustStore:
        """The same without asking anyone."""
        known = self._shown if self._explicit is None else self._explicit
        if known is not None:
            return known
        address = self._address
        return self._first_use.recall(str(address)) if address.is_loopback else TrustStore()

    @property
    def _address(self) -> Address:
        if self._known is None:
            from compile_farm.transport import Address

            self._known = Address(self.url)
        return self._known

    def _accept(self, keys: Iterable[bytes]) -> None:
        address = self._address
        if not address.is_loopback:
            raise UntrustedArtifactError(
                f"no key is trusted for the farm at {self.url}, and it is not on this host",
                remedy=f"set {KEYS_VARIABLE} or trusted_keys to its public key, which "
                "`compile-farm serve` prints when it starts",
            )
        self._shown = self._first_use.accept(str(address), keys)


def _trust_store(keys: str | Iterable[str | bytes] | None) -> TrustStore | None:
    """None where nobody said whom to trust; an empty list trusts no one."""
    if keys is None:
        return TrustStore.from_environment() or None
    if isinstance(keys, str):
        return TrustStore.parse(keys)
    found: list[bytes] = []
    for key in keys:
        found.extend([key] if isinstance(key, bytes) else TrustStore.parse([key]).keys)
    return TrustStore(found)
