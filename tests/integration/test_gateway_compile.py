"""The Compiler service over a real connection: hits, single flight, leaving, failing, refusing."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import grpc
import pytest
import zstandard

from compile_farm.v1 import compiler_pb2
from compiler_service.dispatch.failure_memory import FailureMemory
from compiler_service.worker.protocol import Built
from tests import captures
from tests.gateways import MAX_CAPTURE_BYTES, kinds, last, request, running_gateway
from tests.workers import ScriptedWorker, failing


async def test_a_miss_compiles_and_then_it_is_a_hit(tmp_path: Path) -> None:
    worker = ScriptedWorker()
    async with running_gateway([worker], tmp_path) as gateway:
        assert (await kinds(gateway.compiler.Compile(request())))[-2:] == ["stage", "done"]
        again = await last(gateway.compiler.Compile(request()))
        assert again.done.hit
        assert again.done.artifact.tier == "disk"
        assert again.done.artifact.inline == b"artifact of " + request().key.encode()
        assert len(worker.runs) == 1


async def test_100_simultaneous_requests_cause_one_compile(tmp_path: Path) -> None:
    worker = ScriptedWorker()
    worker.gate.clear()
    async with running_gateway([worker], tmp_path) as gateway:
        calls = [asyncio.create_task(last(gateway.compiler.Compile(request()))) for _ in range(100)]
        await worker.started.wait()
        while sum(job.waiters for job in gateway.dispatcher.jobs()) < 100:
            await asyncio.sleep(0.01)
        worker.gate.set()
        answers = await asyncio.gather(*calls)
        assert len(worker.runs) == 1
        assert len({answer.done.artifact.digest for answer in answers}) == 1
        assert len({answer.job_id for answer in answers}) == 1


async def test_a_deadline_of_one_leaves_the_job_to_the_others(tmp_path: Path) -> None:
    worker = ScriptedWorker()
    worker.gate.clear()
    async with running_gateway([worker], tmp_path) as gateway:
        patient = asyncio.create_task(last(gateway.compiler.Compile(request())))
        await worker.started.wait()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await last(gateway.compiler.Compile(request(), timeout=0.2))
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        worker.gate.set()
        assert (await patient).WhichOneof("kind") == "done"
        assert worker.cancelled == []


async def test_the_last_one_to_leave_cancels_the_job(tmp_path: Path) -> None:
    worker = ScriptedWorker()
    worker.gate.clear()
    async with running_gateway([worker], tmp_path) as gateway:
        call = gateway.compiler.Compile(request())
        following = asyncio.create_task(last(call))
        await worker.started.wait()
        call.cancel()
        await asyncio.gather(following, return_exceptions=True)
        while not worker.cancelled:
            await asyncio.sleep(0.01)
        worker.gate.set()
        # Whoever asks later gets a job of their own; a cancelled one is no failure to remember.
        assert (await last(gateway.compiler.Compile(request()))).WhichOneof("kind") == "done"
        assert len(worker.runs) == 2


async def test_a_queued_job_is_told_its_position_and_can_be_left(tmp_path: Path) -> None:
    worker = ScriptedWorker()
    worker.gate.clear()
    async with running_gateway([worker], tmp_path) as gateway:
        running = asyncio.create_task(last(gateway.compiler.Compile(request())))
        await worker.started.wait()
        call = gateway.compiler.Compile(request(captures.diamond_capture()))
        event = await call.read()
        assert event.queued.position == 1
        call.cancel()
        while len(gateway.dispatcher.jobs()) > 1:
            await asyncio.sleep(0.01)
        worker.gate.set()
        await running
        assert len(worker.runs) == 1


async def test_a_full_queue_says_so(tmp_path: Path) -> None:
    worker = ScriptedWorker()
    worker.gate.clear()
    async with running_gateway([worker], tmp_path, queue_length=1) as gateway:
        first = asyncio.create_task(last(gateway.compiler.Compile(request())))
        await worker.started.wait()
        waiting = asyncio.create_task(
            last(gateway.compiler.Compile(request(captures.diamond_capture())))
        )
        while len(gateway.dispatcher.jobs()) < 2:
            await asyncio.sleep(0.01)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await last(gateway.compiler.Compile(request(captures.dynamic_capture())))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        worker.gate.set()
        await asyncio.gather(first, waiting)


async def test_a_failure_is_remembered_for_a_while(tmp_path: Path) -> None:
    now = 0.0
    worker = ScriptedWorker(failing(compiler_pb2.REASON_UNSUPPORTED, "no such operator"))
    memory = FailureMemory(clock=lambda: now)
    async with running_gateway([worker], tmp_path, memory=memory) as gateway:
        first = await last(gateway.compiler.Compile(request()))
        assert first.failure.message == "no such operator"
        assert first.failure.remembered_for_seconds == 0
        now = 599.0
        second = await last(gateway.compiler.Compile(request()))
        assert second.failure.remembered_for_seconds == pytest.approx(1.0)
        assert len(worker.runs) == 1
        now = 601.0
        await last(gateway.compiler.Compile(request()))
        assert len(worker.runs) == 2
        status = await gateway.compiler.GetStatus(compiler_pb2.GetStatusRequest())
        assert [(f.reason, f.count) for f in status.failures] == [
            (compiler_pb2.REASON_UNSUPPORTED, 2)
        ]


async def test_a_target_that_nobody_serves_is_explained(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        asked = request(target=captures.target(torch="2.14.0+cu130"))
        failure = (await last(gateway.compiler.Compile(asked))).failure
        assert failure.reason == compiler_pb2.REASON_NO_WORKER
        assert "2.14.0+cu130" in failure.message
        assert "2.13.0+cpu" in failure.message


async def test_an_unhealthy_worker_is_named_with_its_problem(tmp_path: Path) -> None:
    worker = ScriptedWorker(problem="there is no C++ compiler")
    async with running_gateway([worker], tmp_path) as gateway:
        failure = (await last(gateway.compiler.Compile(request()))).failure
        assert failure.reason == compiler_pb2.REASON_NO_WORKER
        assert "there is no C++ compiler" in failure.message


async def test_a_wrong_key_is_refused_with_both(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        asked = request()
        real, asked.key = asked.key, "0" * 64
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await last(gateway.compiler.Compile(asked))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert real in caught.value.details()
        assert "0" * 64 in caught.value.details()


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"noise", "zstd"), (zstandard.compress(b"\xff\xff\xff"), "protobuf"), (b"", "version")],
)
async def test_noise_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    worker = ScriptedWorker()
    async with running_gateway([worker], tmp_path) as gateway:
        asked = request()
        asked.capture = data
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await last(gateway.compiler.Compile(asked))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert words in caught.value.details()
        assert worker.runs == []


async def test_a_bomb_is_refused_by_its_size(tmp_path: Path) -> None:
    """A few kilobytes that decompress to far over the limit."""
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        asked = request()
        asked.capture = zstandard.compress(bytes(100 * MAX_CAPTURE_BYTES))
        assert len(asked.capture) < 100_000
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await last(gateway.compiler.Compile(asked))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_graph_of_thousands_of_nodes_passes(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        asked = request(captures.chain_capture(20_000))
        assert (await last(gateway.compiler.Compile(asked))).WhichOneof("kind") == "done"


async def test_watch_joins_a_job_again(tmp_path: Path) -> None:
    worker = ScriptedWorker()
    worker.gate.clear()
    async with running_gateway([worker], tmp_path) as gateway:
        call = gateway.compiler.Compile(request())
        following = asyncio.create_task(last(call))
        await worker.started.wait()
        (job,) = gateway.dispatcher.jobs()
        watching = gateway.compiler.Watch(compiler_pb2.WatchRequest(job_id=job.job_id))
        assert (await watching.read()).stage.name == "lower"
        worker.gate.set()
        while (event := await watching.read()).WhichOneof("kind") == "stage":
            pass
        assert event.WhichOneof("kind") == "done"
        await following
        # For a while also after its end.
        late = gateway.compiler.Watch(compiler_pb2.WatchRequest(job_id=job.job_id))
        assert await kinds(late) == ["done"]


async def test_watching_and_cancelling_what_is_not_there(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await last(gateway.compiler.Watch(compiler_pb2.WatchRequest(job_id="gone")))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gateway.compiler.Cancel(compiler_pb2.CancelRequest(job_id="gone"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_store_that_takes_nothing_still_answers(tmp_path: Path) -> None:
    """Redis is away: the artifact is built, and comes with the answer itself."""
    async with running_gateway(
        [ScriptedWorker()], tmp_path, stores=["redis://127.0.0.1:1/0"]
    ) as gateway:
        answer = await last(gateway.compiler.Compile(request()))
        assert answer.done.artifact.inline == b"artifact of " + request().key.encode()
        status = await gateway.compiler.GetStatus(compiler_pb2.GetStatusRequest())
        assert not status.tiers[0].available
        assert status.tiers[0].unavailable > 0
        found = await gateway.compiler.Lookup(compiler_pb2.LookupRequest(keys=[request().key]))
        assert not found.hits
        assert list(found.unavailable_tiers) == [status.tiers[0].name]


async def test_a_corrupt_artifact_is_built_again(tmp_path: Path) -> None:
    worker = ScriptedWorker()
    async with running_gateway([worker], tmp_path) as gateway:
        answer = await last(gateway.compiler.Compile(request()))
        digest = answer.done.artifact.digest
        (blob,) = [path for path in tmp_path.rglob(f"*{digest[8:]}*") if path.is_file()]
        blob.write_bytes(b"X" + blob.read_bytes()[1:])
        again = await last(gateway.compiler.Compile(request()))
        assert not again.done.hit
        assert len(worker.runs) == 2
        assert again.done.artifact.digest == digest


async def test_a_worker_that_raises_fails_the_job_alone(tmp_path: Path) -> None:
    def broken(job: object) -> Built:
        raise RuntimeError("boom")

    async with running_gateway([ScriptedWorker(broken)], tmp_path) as gateway:
        failure = (await last(gateway.compiler.Compile(request()))).failure
        assert failure.reason == compiler_pb2.REASON_INTERNAL
        assert failure.retryable
        other = await last(gateway.compiler.Compile(request(captures.diamond_capture())))
        assert other.WhichOneof("kind") == "failure"


async def test_large_artifacts_are_read_in_chunks_from_an_offset(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000
    worker = ScriptedWorker(lambda job: Built(data))
    async with running_gateway([worker], tmp_path) as gateway:
        reference = (await last(gateway.compiler.Compile(request()))).done.artifact
        assert not reference.inline
        assert reference.digest == hashlib.sha256(data).hexdigest()
        for offset in (0, 1, 1_048_576, len(data)):
            asked = compiler_pb2.ReadRequest(digest=reference.digest, offset=offset)
            chunks = [chunk async for chunk in gateway.artifacts.Read(asked)]
            assert b"".join(chunk.data for chunk in chunks) == data[offset:]
            assert chunks[0].total_size == len(data)
            assert all(len(chunk.data) <= 1024**2 for chunk in chunks)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await last(
                gateway.artifacts.Read(
                    compiler_pb2.ReadRequest(digest=reference.digest, offset=len(data) + 1)
                )
            )
        assert caught.value.code() is grpc.StatusCode.OUT_OF_RANGE
