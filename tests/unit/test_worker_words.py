"""What a worker says: the end of a child's output, its failures, and why it died."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from compile_farm.v1 import compiler_pb2
from compiler_service.worker import death, replies
from compiler_service.worker.last_words import LastWords, without_paths
from compiler_service.worker.limits import Limits
from compiler_service.worker.plan import SandboxPlan
from compiler_service.worker.self_test import explain


async def words_of(data: bytes) -> str:
    """What is kept of ``data``, written into a pipe and closed."""
    reading, writing = os.pipe()
    words = LastWords(reading)
    sent = 0
    while sent < len(data):
        sent += os.write(writing, data[sent : sent + 4096])
        words.drain()
    os.close(writing)
    words.drain()
    text = words.text()
    words.close()
    words.close()
    return text


async def test_the_last_lines_are_kept() -> None:
    lines = [f"line {number}" for number in range(10_000)]
    text = await words_of("\n".join(lines).encode())
    assert text.splitlines() == lines[-30:]


async def test_a_line_without_an_end_stays_bounded() -> None:
    text = await words_of(b"x" * 1_000_000 + b"\nend")
    assert text == "x" * 500 + "\nend"


async def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert await words_of(b"\xff\xfe!\n\n\nend") == "\ufffd\ufffd!\nend"


async def test_nothing_printed_is_nothing() -> None:
    assert await words_of(b"") == ""


async def test_what_is_read_while_it_runs_is_kept() -> None:
    reading, writing = os.pipe()
    words = LastWords(reading)
    os.write(writing, b"early\n")
    while not words.text():
        await asyncio.sleep(0)
    os.close(writing)
    assert words.text() == "early"
    words.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('File "/home/ann/venv/torch/_inductor/x.py", line 3', 'File ".../_inductor/x.py", line 3'),
        ("/usr/bin/g++ -o /data/w/tmp/a.so", ".../bin/g++ -o .../tmp/a.so"),
        ("a/b/c/d and 1/2/3", "a/b/c/d and 1/2/3"),
        ("aten/add", "aten/add"),
        ("/tmp/x", "/tmp/x"),
        ("(/a/b/c)", "(.../b/c)"),
        ("-I/opt/secret/project/include", "-I.../project/include"),
    ],
)
def test_paths_are_cut(text: str, expected: str) -> None:
    assert without_paths(text) == expected


def test_a_failure_is_cut_to_what_a_message_may_hold() -> None:
    told = replies.tidy_failure(
        compiler_pb2.Failure(
            reason=compiler_pb2.REASON_NO_WORKER,  # not for a child to say
            message="x" * 100_000,
            remedy="y" * 100_000,
            remembered_for_seconds=1e9,
            retryable=True,
        ),
        "z" * 1000,
    )
    assert told.reason == compiler_pb2.REASON_COMPILER_ERROR
    assert (len(told.message), len(told.remedy), len(told.stage)) == (8000, 1000, 40)
    assert told.remembered_for_seconds == 0
    assert told.retryable


def test_a_failure_says_at_least_something() -> None:
    assert replies.tidy_failure(compiler_pb2.Failure(), "").message
    unknown = compiler_pb2.Failure.FromString(b"\x08\x7f")  # a reason of tomorrow
    assert replies.tidy_failure(unknown, "").reason == compiler_pb2.REASON_COMPILER_ERROR


@pytest.mark.parametrize(
    ("fraction", "expected"),
    [(-1, 0), (0.25, 0.25), (2, 1), (float("nan"), 0), (float("inf"), 0)],
)
def test_a_fraction_lies_between_0_and_1(fraction: float, expected: float) -> None:
    assert replies.tidy_stage(compiler_pb2.Stage(fraction=fraction)).fraction == expected


def test_a_death_is_told_with_what_to_do() -> None:
    told = death.crashed(-signal.SIGSEGV, "", "verify", "Fatal Python error")
    assert told.message == "the sandbox was ended by SIGSEGV; its last words:\nFatal Python error"
    assert "compile-farm doctor" in told.remedy
    assert "--job-timeout" in death.timed_out(5, "lower").remedy
    assert "--job-timeout" not in death.timed_out(5, death.START).remedy


def _failure(reason: compiler_pb2.Reason, stage: str) -> compiler_pb2.Failure:
    return compiler_pb2.Failure(reason=reason, message="it broke", remedy="own", stage=stage)


@pytest.mark.parametrize(
    ("reason", "stage", "detail", "remedy"),
    [
        # As seen on machines with the fault: a signal on one, an error of torch's on another.
        (
            compiler_pb2.REASON_CRASHED,
            "self-test verify",
            "crashed when it was loaded",
            "libstdc++",
        ),
        (compiler_pb2.REASON_COMPILER_ERROR, "self-test verify", "failed when it was", "libstdc++"),
        (compiler_pb2.REASON_VERIFICATION_FAILED, "self-test verify", "it broke", "don't use"),
        (compiler_pb2.REASON_CRASHED, "self-test", "it broke", "import torch"),
        (compiler_pb2.REASON_COMPILER_ERROR, "self-test lower", "the stage 'lower'", "compiler"),
        (compiler_pb2.REASON_TIMEOUT, "self-test lower", "it broke", "own"),
    ],
)
def test_a_failed_self_test_is_explained(
    reason: compiler_pb2.Reason, stage: str, detail: str, remedy: str
) -> None:
    check = explain(_failure(reason, stage), SandboxPlan("cpu", Path("/nowhere"), Limits()))
    assert not check.passed
    assert detail in check.detail
    assert "it broke" in check.detail
    assert remedy in check.remedy
