"""What a hit by bind is made of: the steps of ``Farm.bind(key, model)``, timed one by one.

The same calls in the same order, on an empty local cache; the row farm-bind is the whole of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class Stopwatch:
    """Seconds since the last mark, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def mark(self, name: str) -> None:
        """What happened since the last mark was ``name``."""
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now


def load_in_parts(url: str, key: str, model: Any) -> tuple[Callable[..., Any], dict[str, float]]:
    """The bound callable, and seconds for each part, in order."""
    watch = Stopwatch()
    from compile_farm.artifact import unpack
    from compile_farm.cache import LocalCache
    from compile_farm.fetched import Artifact
    from compile_farm.runtime.preheat import preheat_for_model
    from compile_farm.transport import Address, Transport
    from compile_farm.trust import FirstUse

    preheat_for_model(model)
    watch.mark("import")
    address = Address(url)
    transport = Transport(address, timeout=30.0)
    cache = LocalCache()
    shown = transport.capabilities().public_keys
    trust = FirstUse(cache.folder / "trusted").accept(str(address), shown)
    watch.mark("connect")
    (ref,) = transport.lookup([key]).hits
    watch.mark("lookup")
    # Small artifacts come inside the answer to the lookup.
    data = ref.inline or transport.read(ref)
    watch.mark("fetch")
    unpacked = unpack(data, trust.verify)
    watch.mark("verify")
    artifact = Artifact(cache.put(unpacked), trust)
    watch.mark("cache")
    artifact.open().runner(next(model.parameters()).device)
    watch.mark("open")
    bound = artifact.bind(model)
    watch.mark("bind")
    transport.close()
    return bound, watch.seconds
