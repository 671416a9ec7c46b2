"""What a release may be, and how it is called. Read by the gateway as well; needs no torch.

In: "name@revision", and Release messages from anywhere. Out: their parts, or an error that says
what is wrong.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from google.protobuf.message import DecodeError

from compile_farm.artifact import is_hex_digest
from compile_farm.errors import CompileFarmError, CorruptArtifactError, InvalidReleaseError
from compile_farm.trust import TrustStore
from compile_farm.v1 import release_pb2

SCHEMA_VERSION = 1
# Stands before a release in what is signed, as SIGNATURE_CONTEXT does before a manifest.
SIGNATURE_CONTEXT = b"compile-farm release v1\n"

MAX_ENTRIES = 10_000
MAX_COMPONENTS = 100
MAX_SOURCES = 10_000
MAX_RELEASE_BYTES = 6 * 2**20

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_COMPONENT = re.compile(r"([A-Za-z_][A-Za-z0-9_.]{0,99})?")
_METHOD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,499}")


class ReleaseRef(NamedTuple):
    """``revision`` is empty where the name stands alone."""

    name: str
    revision: str

    @staticmethod
    def parse(text: str) -> ReleaseRef:
        """ "chat-8b@2026-12-01" or "chat-8b". Raises CompileFarmError."""
        name, at, revision = text.partition("@")
        check_name(name)
        if at:
            check_revision(revision)
        return ReleaseRef(name, revision)

    def __str__(self) -> str:
        return f"{self.name}@{self.revision}" if self.revision else self.name


def check_name(name: str) -> None:
    """Raises InvalidReleaseError."""
    if not _NAME.fullmatch(name):
        raise InvalidReleaseError(
            f"{name[:100]!r} is no release's name",
            remedy="use up to 100 of a-z, 0-9, '.', '_' and '-', as in chat-8b@2026-12-01",
        )


def check_revision(revision: str) -> None:
    """Raises InvalidReleaseError."""
    if not _REVISION.fullmatch(revision):
        raise InvalidReleaseError(
            f"{revision[:100]!r} is no revision",
            remedy="use up to 128 letters, digits, '.', '_', '+' and '-': a date or a commit",
        )


def check_release(release: release_pb2.Release) -> None:
    """Raises InvalidReleaseError for anything that ``Publish`` would not take."""
    check_name(release.name)
    check_revision(release.revision)
    if release.schema_version != SCHEMA_VERSION:
        raise InvalidReleaseError(
            f"the release has schema version {release.schema_version}, known is {SCHEMA_VERSION}",
            remedy="use one version of client and farm",
        )
    if not 0 < len(release.entries) <= MAX_ENTRIES:
        raise InvalidReleaseError(f"a release has 1 to {MAX_ENTRIES} entries")
    if len(release.components) > MAX_COMPONENTS:
        raise InvalidReleaseError(f"a release has at most {MAX_COMPONENTS} components")
    names = [component.name for component in release.components]
    if len(set(names)) != len(names):
        raise InvalidReleaseError("two components have one name")
    for component in release.components:
        _check_component(component)
    seen: set[tuple[str, str, str]] = set()
    for entry in release.entries:
        _check_entry(entry, names)
        place = (entry.component, entry.method, entry.key)
        if place in seen:
            raise InvalidReleaseError(f"the key {entry.key[:16]} stands twice for {entry.method}")
        seen.add(place)


def _check_component(component: release_pb2.Component) -> None:
    if not _COMPONENT.fullmatch(component.name):
        raise InvalidReleaseError(f"{component.name[:100]!r} is no component's name")
    if len(component.type_name) > 200 or len(component.sources) > MAX_SOURCES:
        raise InvalidReleaseError(f"the component {component.name!r} is too large")
    for source in component.sources:
        if not (_MODULE.fullmatch(source.module) and is_hex_digest(source.sha256)):
            raise InvalidReleaseError(f"{source.module[:100]!r} is no source with a digest")


def _check_entry(entry: release_pb2.ReleaseEntry, components: list[str]) -> None:
    if entry.component not in components:
        raise InvalidReleaseError(f"an entry is of an unknown component, {entry.component[:100]!r}")
    if not _METHOD.fullmatch(entry.method):
        raise InvalidReleaseError(f"{entry.method[:100]!r} is no method")
    if not (is_hex_digest(entry.key) and is_hex_digest(entry.digest)):
        raise InvalidReleaseError(f"an entry of {entry.method} has no key or digest")
    if entry.target.WhichOneof("hardware") is None:
        raise InvalidReleaseError(f"the entry {entry.key[:16]} has no target")


def open_release(signed: release_pb2.SignedRelease, trust: TrustStore) -> release_pb2.Release:
    """What was signed, once a trusted key's signature over it holds.

    Raises UntrustedArtifactError, CorruptArtifactError.
    """
    trust.verify(signed.release, signed.signature, context=SIGNATURE_CONTEXT, what="release")
    release = release_pb2.Release()
    try:
        release.ParseFromString(signed.release)
        check_release(release)
    except (DecodeError, CompileFarmError) as error:
        raise CorruptArtifactError(f"a signed release can't be read: {error}") from error
    return release
