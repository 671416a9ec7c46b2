"""The end of what a child and its compilers print, for the message about its death.

In: the reading end of a pipe. Out: the last lines as text, without the host's paths. The pipe is
our own, because asyncio's would keep ``wait`` waiting for as long as any grandchild holds it open.
"""

from __future__ import annotations

import asyncio
import os
import re

_KEPT_BYTES = 16 * 1024
_LINES = 30
_LINE_LENGTH = 500
_READ_BYTES = 64 * 1024
# A child that prints faster than it is read must not keep the reader in ``drain`` for ever.
_DRAIN_READS = 64
# Two components say enough; the rest is the host's business. Compilers take paths right behind -I.
_LONG_PATH = re.compile(r"(?:(?<![\w/.])|(?<=-[IL]))(?:/[\w.+@~-]+)+(/[\w.+@~-]+/[\w.+@~-]+)")


class LastWords:
    """Reads a pipe in the running event loop, and keeps its end."""

    def __init__(self, descriptor: int) -> None:
        """Takes over ``descriptor``; ``close`` closes it."""
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._kept = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read)

    def drain(self) -> None:
        """Reads what is in the pipe now; all of it, once its writers are gone."""
        for _ in range(_DRAIN_READS):
            if not self._read():
                return

    def text(self) -> str:
        """The last lines; empty if nothing was printed."""
        lines = self._kept.decode(errors="replace").splitlines()[-_LINES:]
        return without_paths("\n".join(line[:_LINE_LENGTH] for line in lines if line.strip()))

    def close(self) -> None:
        """Stops reading; what was kept stays."""
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self) -> bool:
        if self._descriptor is None:
            return False
        try:
            chunk = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self.close()
            return False
        self._kept += chunk
        del self._kept[:-_KEPT_BYTES]
        return True


def without_paths(text: str) -> str:
    """The text with absolute paths cut to their last two parts."""
    return _LONG_PATH.sub(r"...\1", text)
