"""What a child gives up before it sees a graph: core dumps, big files, and the network.

In: the limits. Out: a list of what could not be given up here, for the operator to read. Called
first thing in the child, while it has one thread: namespaces can't be changed later.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from pathlib import Path

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


def isolate(file_bytes: int, open_files: int) -> list[str]:
    """Applies what the platform allows; returns notes on what it doesn't."""
    notes = []
    libc = ctypes.CDLL(None, use_errno=True)
    # A worker that is killed must not leave a compiler behind.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, file_bytes)
    _limit(resource.RLIMIT_NOFILE, open_files)
    problem = _leave_network(libc)
    if problem:
        notes.append(f"the sandbox has network access: {problem}")
    return notes


def _limit(kind: int, wanted: int) -> None:
    _, hard = resource.getrlimit(kind)
    ceiling = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (ceiling, ceiling))


def _leave_network(libc: ctypes.CDLL) -> str | None:
    """Moves into an empty network namespace; as an ordinary user by way of a user namespace."""
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWNET) == 0:
        return None
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return f"unshare is not permitted ({os.strerror(ctypes.get_errno())})"
    try:
        # Without a mapping the child would be nobody, and could not write its own files.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    except OSError as error:
        return f"the user namespace has no mapping ({error})"
    return None
