"""What a child gives up before it sees a graph: core dumps, big files, privileges, the network,
and the files that are none of its business.

In: the parent's arguments. Out: a list of what could not be given up here, for the operator to
read. Called first thing in the child, while it has one thread: most of this holds for the calling
thread and what it starts later, and namespaces can't be changed at all once there are more.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
from pathlib import Path

from compiler_service.worker.landlock import confine
from compiler_service.worker.plan import ChildArguments

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_CAPABILITY_VERSION_3 = 0x20080522
# What a root without other powers needs to use a folder that another user owns: CAP_CHOWN,
# CAP_DAC_OVERRIDE and CAP_FOWNER.
_KEPT_CAPABILITIES = frozenset({0, 1, 3})
_CAPABILITIES = 64


def isolate(given: ChildArguments) -> list[str]:
    """Applies what the platform allows; returns notes on what it doesn't."""
    libc = ctypes.CDLL(None, use_errno=True)
    # A worker that is killed must not leave a compiler behind.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, given.file_bytes)
    _limit(resource.RLIMIT_NOFILE, given.open_files)
    network = _leave_network(libc)
    files = confine(given.writable, given.hidden) if given.confined else ""
    privileges = _drop_capabilities(libc) if given.confined else ""
    notes = [] if given.confined else ["the sandbox can read and write what its user can"]
    if network:
        notes.append(f"the sandbox has network access: {network}")
    if files:
        notes.append(f"the sandbox can read and write what its user can: {files}")
    if privileges:
        notes.append(f"the sandbox keeps its user's privileges: {privileges}")
    return notes


def _limit(kind: int, wanted: int) -> None:
    _, hard = resource.getrlimit(kind)
    ceiling = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (ceiling, ceiling))


def _leave_network(libc: ctypes.CDLL) -> str:
    """Moves into an empty network namespace; as an ordinary user by way of a user namespace."""
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWNET) == 0:
        return ""
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return f"unshare is not permitted ({os.strerror(ctypes.get_errno())})"
    try:
        # Without a mapping the child would be nobody, and could not write its own files.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    except OSError as error:
        return f"the user namespace has no mapping ({error})"
    return ""


def _drop_capabilities(libc: ctypes.CDLL) -> str:
    """Gives up what lets root mount, trace, make devices and load modules."""
    for number in range(_CAPABILITIES):
        if number not in _KEPT_CAPABILITIES:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    kept = sum(1 << number for number in _KEPT_CAPABILITIES)
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
    before = ctypes.create_string_buffer(24)
    if libc.capget(header, before) != 0:
        return f"capget failed ({os.strerror(ctypes.get_errno())})"
    permitted = struct.unpack("=6I", before.raw)[1] & kept
    # Two sets of three words: effective, permitted, inheritable of 0 to 31, then of 32 to 63.
    after = struct.pack("=6I", permitted, permitted, 0, 0, 0, 0)
    if libc.capset(header, after) != 0:
        return f"capset failed ({os.strerror(ctypes.get_errno())})"
    return ""
