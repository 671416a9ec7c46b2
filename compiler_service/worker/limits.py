"""What a sandbox may use; what is over is killed, and the job fails with a reason."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1024**3


@dataclass(frozen=True)
class Limits:
    """Times in seconds, sizes in bytes.

    Attributes:
        job_seconds: one compile, from its start to its end.
        start_seconds: a child's start, its first compile included.
        memory_bytes: resident memory of the child and all its descendants together.
        file_bytes: the largest file that it may write.
        open_files: file descriptors.
        jobs_per_child: a child is replaced after so many, since each leaves mapped code behind.
        restart_seconds: the waits between attempts to start a child; the last one repeats.
    """

    job_seconds: float = 1800.0
    start_seconds: float = 600.0
    memory_bytes: int = 32 * GIB
    file_bytes: int = 8 * GIB
    open_files: int = 4096
    jobs_per_child: int = 200
    restart_seconds: tuple[float, ...] = (5.0, 60.0, 600.0)
