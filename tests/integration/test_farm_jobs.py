"""Jobs over a real socket: events, progress, failures, broken connections, cancelling."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
import zstandard

from compile_farm import (
    CompileFailedError,
    CompileFarmError,
    Farm,
    FarmUnavailableError,
    InvalidGraphError,
    Job,
    JobTimeoutError,
)
from compile_farm.artifact import unpack
from compile_farm.capture.export import capture_export
from compile_farm.schema import parse_capture
from compile_farm.targets import host_target
from compile_farm.v1 import artifact_pb2, compiler_pb2, target_pb2
from tests.loadable import PUBLIC_KEY, artifact_bytes, example
from tests.scripted_farm import ScriptedFarm, done, failure, queued, stage

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture
def server() -> Iterator[ScriptedFarm]:
    with ScriptedFarm([PUBLIC_KEY], [host_target("cpu")]) as farm:
        yield farm


@pytest.fixture
def ref(server: ScriptedFarm) -> artifact_pb2.ArtifactRef:
    data = artifact_bytes("affine")
    return server.add(unpack(data).manifest.key, data)


@pytest.fixture
def farm(server: ScriptedFarm, tmp_path: Path) -> Iterator[Farm]:
    with Farm(server.url, cache_dir=tmp_path) as farm:
        yield farm


def submit(farm: Farm) -> Job:
    return farm.submit(*example("affine"))


def test_a_model_is_submitted_compiled_and_bound(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, farm: Farm
) -> None:
    script = [queued(2), queued(1), stage("lower", 0.25), stage("verify", 0.8), done(ref)]
    server.compiles = [script]
    job = submit(farm)
    assert not job.wait_for_lookup()
    artifact = job.result(timeout=60)
    assert job.key == ref.key
    assert [event.WhichOneof("kind") for event in job.events()] == [
        event.WhichOneof("kind") for event in script
    ]
    assert job.done()
    assert job.progress == (1.0, "done", "")
    model, (x,), _, _ = example("affine")
    with torch.no_grad():
        torch.testing.assert_close(artifact.bind(model)(x), model(x))


def test_what_is_sent_is_the_capture_and_no_weight(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, farm: Farm
) -> None:
    server.compiles = [[done(ref)]]
    submit(farm).result(60)
    (request,) = server.requests
    sent = zstandard.decompress(request.capture, max_output_size=1 << 20)
    capture = parse_capture(sent)
    assert capture == capture_export(*example("affine"))
    model, *_ = example("affine")
    assert bytes(model.linear.weight.detach().numpy().tobytes()) not in sent
    assert request.target == host_target("cpu")
    assert request.options == target_pb2.Options(
        effort=target_pb2.EFFORT_FAST, numerics=target_pb2.NUMERICS_STRICT
    )


def test_a_hit_is_known_before_its_bytes_are_here(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, farm: Farm
) -> None:
    server.compiles = [[done(ref, hit=True)]]
    job = submit(farm)
    assert job.wait_for_lookup()
    assert job.hit
    job.result(60)
    # The second time the local cache has it, and nobody is asked to compile.
    server.calls.clear()
    again = submit(farm)
    assert again.done()
    assert again.wait_for_lookup()
    assert "Compile" not in server.calls


def test_a_warm_cache_answers_while_the_farm_is_away(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, farm: Farm
) -> None:
    server.compiles = [[done(ref)]]
    submit(farm).result(60)
    server.stop()
    assert submit(farm).result(0).key == ref.key


def test_a_farm_that_is_away_says_so_at_once(server: ScriptedFarm, farm: Farm) -> None:
    server.stop()
    with pytest.raises(FarmUnavailableError, match="can't be reached"):
        submit(farm)


def test_a_failure_carries_its_reason(server: ScriptedFarm, farm: Farm) -> None:
    server.compiles = [[queued(), failure(compiler_pb2.REASON_UNSUPPORTED, "no such operator")]]
    job = submit(farm)
    with pytest.raises(CompileFailedError, match="no such operator") as caught:
        job.result(60)
    assert caught.value.reason == "unsupported"
    assert job.progress.stage == "failed"


def test_a_refused_request_is_not_tried_again(server: ScriptedFarm, farm: Farm) -> None:
    server.compiles = [[grpc.StatusCode.INVALID_ARGUMENT]]
    with pytest.raises(InvalidGraphError, match="ended on purpose"):
        submit(farm).result(60)
    assert server.calls.count("Compile") == 1


def test_a_broken_stream_joins_its_job_again(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, farm: Farm
) -> None:
    server.compiles = [[queued(), stage("lower", 0.1), grpc.StatusCode.UNAVAILABLE]]
    server.watches = [[grpc.StatusCode.UNAVAILABLE], [stage("lower", 0.5), done(ref)]]
    assert submit(farm).result(60).key == ref.key
    assert server.calls.count("Compile") == 1
    assert server.calls.count("Watch") == 2


def test_a_job_that_the_farm_forgot_is_asked_for_again(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, farm: Farm
) -> None:
    server.compiles = [[queued(), grpc.StatusCode.UNAVAILABLE], [queued(), done(ref)]]
    assert submit(farm).result(60).key == ref.key
    assert [call for call in server.calls if call in ("Compile", "Watch")] == [
        "Compile",
        "Watch",
        "Compile",
    ]


def test_a_restarted_farm_is_found_again(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, farm: Farm
) -> None:
    server.compiles = [[queued(), threading.Event()], [done(ref)]]
    job = submit(farm)
    next(job.events())
    server.stop()
    server.start()
    assert job.result(60).key == ref.key


def test_a_stream_that_just_ends_is_a_broken_one(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, farm: Farm
) -> None:
    server.compiles = [[queued()]]
    server.watches = [[done(ref)]]
    assert submit(farm).result(60).key == ref.key


def test_patience_ends(server: ScriptedFarm, farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    server.compiles = [[queued(), grpc.StatusCode.UNAVAILABLE]]
    start = Job.start.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        Job, "start", classmethod(lambda cls, *args: start(cls, *args, patience=0.0))
    )
    with pytest.raises(FarmUnavailableError):
        submit(farm).result(60)


def test_waiting_ends_and_the_job_goes_on(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, farm: Farm
) -> None:
    gate = threading.Event()
    server.compiles = [[stage("lower", 0.5), gate, done(ref)]]
    job = submit(farm)
    next(job.events())
    with pytest.raises(JobTimeoutError, match=r"not done after 0 s \(lower\)") as caught:
        job.result(timeout=0)
    assert isinstance(caught.value, TimeoutError)
    assert job.progress == (0.5, "lower", "")
    gate.set()
    assert job.result(60).key == ref.key


def test_a_cancelled_job_ends_for_everyone_who_waits(server: ScriptedFarm, farm: Farm) -> None:
    server.compiles = [[queued(), threading.Event()]]
    job = submit(farm)
    events = job.events()
    next(events)
    seen: list[Job] = []
    job.add_done_callback(seen.append)
    assert job.cancel()
    with pytest.raises(CompileFailedError) as caught:
        job.result(60)
    assert caught.value.reason == "cancelled"
    assert list(events) == []
    assert seen == [job]
    assert "Cancel" in server.calls
    assert not job.cancel()


def test_callbacks_are_called_once_and_their_faults_harm_nobody(
    server: ScriptedFarm, ref: artifact_pb2.ArtifactRef, farm: Farm
) -> None:
    gate, called = threading.Event(), threading.Event()
    server.compiles = [[queued(), gate, done(ref)]]
    job = submit(farm)
    seen: list[Any] = []

    def fail(done_job: Job) -> None:
        raise RuntimeError("a fault of the callback's own")

    job.add_done_callback(fail)
    job.add_done_callback(lambda done_job: (seen.append(done_job), called.set()))
    assert seen == []
    gate.set()
    job.result(60)
    assert called.wait(60)
    job.add_done_callback(seen.append)
    assert seen == [job, job]


def test_a_lower_served_level_is_asked_for(
    server: ScriptedFarm, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A v2 worker serves any host of a higher level."""
    lower = host_target("cpu")
    lower.cpu.isa = "x86-64"
    server.targets = [lower]
    server.compiles = [[failure(compiler_pb2.REASON_NO_WORKER, "none")]]
    with pytest.raises(CompileFailedError):
        submit(farm).result(60)
    assert server.requests[0].target == lower


def test_closing_the_farm_ends_its_jobs(
    server: ScriptedFarm, farm: Farm, caplog: pytest.LogCaptureFixture
) -> None:
    server.compiles = [[queued(), threading.Event()]]
    job = submit(farm)
    next(job.events())
    farm.close()
    with pytest.raises(CompileFarmError, match=r"[Cc]losed"):
        job.result(60)
    assert not [record for record in caplog.records if record.name.startswith("compile_farm")]


@pytest.mark.parametrize(("name", "value"), [("effort", "max"), ("numerics", "exact")])
def test_unknown_options_are_named(farm: Farm, name: str, value: str) -> None:
    with pytest.raises(CompileFarmError, match=f"the {name} is '{value}'"):
        farm.submit(*example("affine"), **{name: value})
