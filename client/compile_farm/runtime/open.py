"""Opens an artifact: signature, target and digests are checked before a byte of it is mapped.

In: an entry of the local cache, whose files' digests were just checked against its manifest. Out: a
LoadedArtifact. No compiler and no ``torch._inductor`` on this path.
"""

from __future__ import annotations

from compile_farm.cache import CachedArtifact
from compile_farm.errors import TargetMismatchError
from compile_farm.libraries import why_missing
from compile_farm.runtime.loaded import LoadedArtifact
from compile_farm.targets import host_target, why_incompatible
from compile_farm.trust import TrustStore


def open_artifact(
    cached: CachedArtifact, trust: TrustStore, *, other_card: bool = False
) -> LoadedArtifact:
    """Raises UntrustedArtifactError or TargetMismatchError; maps nothing then.

    ``other_card``: as for ``why_incompatible``.
    """
    trust.verify(cached.manifest_bytes, cached.signature)
    manifest = cached.manifest
    device_type = manifest.target.WhichOneof("hardware") or "cpu"
    problem = why_incompatible(manifest.target, host_target(device_type), other_card=other_card)
    if problem:
        raise TargetMismatchError(
            f"the artifact {cached.digest[:16]} can't run here: {problem}",
            remedy="compile it for this host",
        )
    for library in manifest.libraries:
        if (missing := why_missing(library)) is not None:
            words, remedy = missing
            raise TargetMismatchError(
                f"the artifact {cached.digest[:16]} can't run here: {words}", remedy=remedy
            )
    return LoadedArtifact(manifest, cached.shared_object)
