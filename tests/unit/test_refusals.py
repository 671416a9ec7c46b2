"""What could not be captured is told to the farm: together, by kind, and without anyone waiting."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import get_args

import pytest

from compile_farm.errors import CaptureReason, FarmUnavailableError
from compile_farm.refusals import RefusalReport
from compile_farm.v1 import compiler_pb2


def test_many_are_sent_together_and_once() -> None:
    sent: list[dict[compiler_pb2.Refusal, int]] = []
    report = RefusalReport(lambda counts: sent.append(dict(counts)))
    report.add("memory")
    report.add("trace")
    report.add("memory")
    report.flush()
    report.flush()
    assert sent == [{compiler_pb2.REFUSAL_MEMORY: 2, compiler_pb2.REFUSAL_TRACE: 1}]


def test_they_are_sent_without_being_asked() -> None:
    sent = threading.Event()
    RefusalReport(lambda counts: sent.set()).add("other")
    assert sent.wait(20)


def test_a_farm_that_is_away_is_no_error() -> None:
    def away(counts: Mapping[compiler_pb2.Refusal, int]) -> None:
        raise FarmUnavailableError("it is away")

    report = RefusalReport(away)
    report.add("size")
    report.flush()


@pytest.mark.parametrize("reason", get_args(CaptureReason))
def test_every_reason_has_a_kind_of_its_own(reason: CaptureReason) -> None:
    sent: list[int] = []
    report = RefusalReport(lambda counts: sent.extend(counts))
    report.add(reason)
    report.flush()
    name = compiler_pb2.Refusal.Name(compiler_pb2.Refusal.values()[sent[0]])
    assert name == f"REFUSAL_{reason.upper()}".replace("OTHER", "UNSPECIFIED")
