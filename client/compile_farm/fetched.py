"""An artifact on this host: verified, in the local cache, not yet mapped.

In: an entry of the cache and the keys that it is trusted by. Out: ``Artifact``, which opens and
binds. torch is imported only there, so that a CI runner without it can still fetch.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compile_farm.cache import CachedArtifact
from compile_farm.runtime.preheat import preheat_for_artifact
from compile_farm.trust import TrustStore
from compile_farm.v1 import artifact_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from compile_farm.runtime.loaded import LoadedArtifact


class Artifact:
    """Compiled code under a key, and what its manifest says of it."""

    def __init__(
        self,
        cached: CachedArtifact,
        trust: TrustStore,
        quarantine: Callable[[str, str, str], None] | None = None,
    ) -> None:
        """``quarantine`` takes key, digest and reason, and tells the farm."""
        self._cached = cached
        self._trust = trust
        self._quarantine = quarantine
        self._lock = threading.Lock()
        self._loaded: LoadedArtifact | None = None

    @property
    def key(self) -> str:
        """What it was compiled for: 64 hexadecimal digits."""
        return self._cached.manifest.key

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of the signed zip."""
        return self._cached.digest

    @property
    def manifest(self) -> artifact_pb2.Manifest:
        """Signature, target, verification and report."""
        return self._cached.manifest

    @property
    def folder(self) -> Path:
        """Where its files lie in the local cache."""
        return self._cached.folder

    def open(self, *, other_card: bool = False) -> LoadedArtifact:
        """The code, ready to run on any device of its target; opened once.

        ``other_card``: also on a GPU of the same architecture and another name, untuned for it.

        Raises UntrustedArtifactError, TargetMismatchError or CorruptArtifactError before anything
        of it is mapped.
        """
        from compile_farm.runtime.open import open_artifact

        with self._lock:
            if self._loaded is None:
                preheat_for_artifact(self.manifest)
                self._loaded = open_artifact(self._cached, self._trust, other_card=other_card)
            return self._loaded

    def bind(self, model: torch.nn.Module, verify_on_load: int = 0) -> Callable[..., Any]:
        """A callable with ``model.forward``'s signature that runs the artifact on its weights.

        The first ``verify_on_load`` calls also run the model itself and compare. If they differ
        beyond the bound, eager's result is returned, eager runs from then on, and the artifact goes
        into quarantine: no host gets it any more.

        Raises BindError where the weights don't fit, and what ``open`` raises.
        """
        from compile_farm.runtime.bind import bind

        return bind(self.open(), model, verify_on_load, self.quarantine)

    def quarantine(self, reason: str) -> None:
        """From now on no host gets this artifact; see Farm.quarantine."""
        if self._quarantine is not None:
            self._quarantine(self.key, self.digest, reason)

    def __repr__(self) -> str:
        return f"Artifact(key={self.key[:16]}..., digest={self.digest[:16]}...)"
