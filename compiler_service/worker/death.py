"""Why a sandbox died, in words: one function for each way.

In: what the worker saw. Out: the Failure that the client gets.
"""

from __future__ import annotations

import signal

from compile_farm.v1 import compiler_pb2

# The stage before the first job, when the child compiles, loads and runs a small graph.
START = "self-test"


def not_started(error: OSError) -> compiler_pb2.Failure:
    """The operating system refused a process."""
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_INTERNAL,
        message=f"the sandbox could not be started: {error}",
        remedy="look at the limits on processes, files and memory of the worker's host",
        stage=START,
        retryable=True,
    )


def timed_out(seconds: float, stage: str) -> compiler_pb2.Failure:
    """It took longer than it may."""
    starting = stage.startswith(START)
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_TIMEOUT,
        message=(
            f"the {START if starting else 'compile'} took over {seconds:g} s and was stopped"
            + (f" in the stage {stage!r}" if stage and not starting else "")
        ),
        remedy=(
            "see what else keeps the worker's host busy"
            if starting
            else "raise --job-timeout, or compile with effort fast"
        ),
        stage=stage,
        retryable=True,
    )


def out_of_memory(used: int, limit: int, stage: str) -> compiler_pb2.Failure:
    """It held more bytes than it may."""
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_OUT_OF_MEMORY,
        message=(
            f"the compile used {used / 2**30:.1f} GiB, over the limit of {limit / 2**30:.1f} GiB, "
            "and was stopped"
        ),
        remedy="raise --memory-limit, or compile a smaller graph",
        stage=stage,
        retryable=True,
    )


def crashed(code: int | None, noise: str, stage: str, last_words: str) -> compiler_pb2.Failure:
    """It ended by itself, or sent what is no message (``noise``).

    ``code`` is its exit code, a signal's number if negative, None if it still ran.
    """
    if noise:
        how = f"sent what is no message ({noise})"
    elif code is None:
        how = "closed its connection"
    elif code < 0:
        how = f"was ended by {_signal_name(-code)}"
    else:
        how = f"ended with exit code {code}"
    if code == -signal.SIGKILL and not noise:
        how += ", not by the worker: the host may be out of memory"
    return compiler_pb2.Failure(
        reason=compiler_pb2.REASON_CRASHED,
        message=f"the sandbox {how}" + (f"; its last words:\n{last_words}" if last_words else ""),
        remedy="the worker has replaced it; run `compile-farm doctor` if this recurs",
        stage=stage,
        retryable=True,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
