"""Confines this process to some files, through the kernel's Landlock.

In: the folders that it may change, and the paths that it may not read. Out: nothing, or in words
why the kernel refuses. The child runs as the server's own user: without this it could read the
signing key, replace it, or change the server's own code. The rules hold for everything that it
starts, and it can neither trace nor signal a process outside of them.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the numbers of all architectures
_VERSION_FLAG, _PATH_BENEATH = 1, 1

_WRITE_FILE, _READ_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 2, 1 << 13, 1 << 14
# Removing and making of every kind.
_CHANGE_FOLDER = sum(1 << bit for bit in range(4, 13))
_ON_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
_SCOPE_SIGNAL = 1 << 1

# Where a compile may write besides its own folders. Not all of /dev: a root would find disks there.
_DEVICES = ("null", "zero", "full", "random", "urandom", "shm", "nvidia*", "dri")

# What else a server's user may have lying about that a graph must not read.
_SECRETS_AT_HOME = (
    ".ssh", ".aws", ".azure", ".config/gcloud", ".docker", ".kube", ".netrc", ".git-credentials",
    ".gnupg", ".pypirc", ".cache/huggingface/token",
)  # fmt: skip
# Kept open: a folder of /proc that nobody holds can be forgotten, and its rule with it.
_own_folder: list[int] = []

_SECRETS = ("/run/secrets", "/var/run/secrets", "/etc/shadow", "/etc/ssl/private")


def confine(writable: Iterable[str], hidden: Iterable[str]) -> str:
    """Restricts this thread and all that it starts; returns why it could not, or nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    if version < 0:
        return f"Landlock is not available ({os.strerror(ctypes.get_errno())})"
    writes = _WRITE_FILE | _CHANGE_FOLDER
    writes |= _REFER if version >= 2 else 0
    writes |= _TRUNCATE if version >= 3 else 0
    handled = writes | _READ_FILE
    attributes = struct.pack("=Q", handled)
    if version >= 6:
        attributes = struct.pack("=QQQ", handled, 0, _SCOPE_SIGNAL)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return f"no Landlock ruleset ({os.strerror(ctypes.get_errno())})"
    try:
        for path in _readable(_without_links(_all_secrets(hidden))):
            _allow(libc, ruleset, path, _READ_FILE)
        for path in (*map(Path, writable), *_devices()):
            _allow(libc, ruleset, path, handled)
        # CUDA's driver names its threads there, and takes a refusal for a broken system. A process
        # that starts later has another folder, which it can't write to: only one uses the GPU.
        _own_folder.append(os.open("/proc/self", os.O_PATH | os.O_CLOEXEC))
        _allow(libc, ruleset, Path("/proc/self"), handled)
        if libc.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
            return f"Landlock refuses ({os.strerror(ctypes.get_errno())})"
    finally:
        os.close(ruleset)
    return ""


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, access: int) -> None:
    """Adds a rule for a path and what is beneath it; nothing for one that is not there."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _ON_FILES
        libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0)
    finally:
        os.close(descriptor)


def _readable(hidden: frozenset[Path], folder: Path = Path("/")) -> Iterator[Path]:
    """The fewest paths that hold everything but what is hidden, as it is now.

    Landlock can only allow. So of each folder on the way to a hidden path the other entries are
    allowed, one by one; what appears there later can't be read.
    """
    if folder in hidden:
        return
    if not any(path.is_relative_to(folder) for path in hidden):
        yield folder
        return
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        # A link's own target has its own rule, or is hidden.
        if not entry.is_symlink():
            yield from _readable(hidden, Path(entry.path))


def _all_secrets(hidden: Iterable[str]) -> Iterator[Path]:
    home = Path(os.path.expanduser(f"~{_user_name()}"))
    yield from (home / name for name in _SECRETS_AT_HOME)
    yield from map(Path, (*_SECRETS, *hidden))


def _without_links(paths: Iterable[Path]) -> frozenset[Path]:
    return frozenset(Path(os.path.realpath(path)) for path in paths if os.path.lexists(path))


def _user_name() -> str:
    """The user's own name: HOME is the worker's folder here."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def _devices() -> Iterator[Path]:
    for pattern in _DEVICES:
        yield from Path("/dev").glob(pattern)
