"""Takes the compiling host's paths out of a shared object.

``__FILE__`` in torch's headers and the generated code leave absolute paths in its read-only data.
They name users and folders, and would make two hosts' artifacts differ. Each is overwritten in
place with text of the same length, so that nothing in the file moves.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch


def host_prefixes(extra: Iterable[Path] = ()) -> list[bytes]:
    """Folders of this host whose names must not leave it, the longest first."""
    import torch._inductor.runtime.cache_dir_utils as cache_dirs

    folders = {
        Path(torch.__file__).resolve().parent,
        Path(torch.__file__).parent,
        Path(sysconfig.get_paths()["purelib"]),
        Path(sysconfig.get_paths()["include"]),
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(tempfile.gettempdir()),
        Path(cache_dirs.cache_dir()),
        Path.home(),
        *extra,
    }
    texts = {str(folder).encode() for folder in folders if len(folder.parts) > 1}
    return sorted(texts, key=lambda text: (-len(text), text))


def neutralise(path: Path, extra: Iterable[Path] = ()) -> None:
    """Overwrites the host's folders in the file ``path`` with "_" of the same length."""
    data = path.read_bytes()
    for prefix in host_prefixes(extra):
        # A whole path component: "/root" must not match inside "/rooted".
        data = re.sub(
            re.escape(prefix) + rb"(?=[/\x00:])", lambda found: b"_" * len(found[0]), data
        )
    path.write_bytes(data)
