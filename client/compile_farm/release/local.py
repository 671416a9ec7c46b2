"""Releases that this host has seen: what a host starts from while the farm is away.

In: signed releases. Out: the same, by name and revision; the reader checks the signature. Where the
folder can't be written to, nothing is kept, and nothing fails.
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf.message import DecodeError

from compile_farm.files import write_whole
from compile_farm.release.check import ReleaseRef
from compile_farm.v1 import release_pb2


class LocalReleases:
    """In a folder of the local cache, shared by the processes of a host."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, ref: ReleaseRef) -> release_pb2.SignedRelease | None:
        """The release; of a name alone what it last meant on this host. None if there is none."""
        revision = ref.revision
        try:
            if not revision:
                revision = (self._folder / ref.name).read_text()
            data = (self._folder / f"{ref.name}@{revision}").read_bytes()
            signed = release_pb2.SignedRelease()
            signed.ParseFromString(data)
        except (OSError, ValueError, DecodeError):
            return None
        return signed

    def put(self, ref: ReleaseRef, signed: release_pb2.SignedRelease, *, current: bool) -> None:
        """Keeps it; ``current``: it is what the name alone means."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._folder / str(ref), signed.SerializeToString())
            if current:
                write_whole(self._folder / ref.name, ref.revision.encode())
        except OSError:
            return
