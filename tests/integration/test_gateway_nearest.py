"""Compiler.Nearest over a real connection: what is compared, how much is read, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from compile_farm.artifact import SHARED_OBJECT_NAME, digest_of, pack
from compile_farm.difference import Side
from compile_farm.v1 import artifact_pb2, compiler_pb2, graph_pb2
from compiler_service.gateway.nearest import NearestArtifacts
from compiler_service.storage.outcome import Outcome
from tests import captures
from tests.gateways import RunningGateway, running_gateway
from tests.workers import ScriptedWorker


def artifact(capture: graph_pb2.Capture) -> tuple[str, bytes]:
    """A key, and an artifact of it that nobody could run."""
    side = Side.of_capture(capture, captures.target(), captures.options())
    code = side.key.encode()
    manifest = artifact_pb2.Manifest(
        schema_version=1,
        key=side.key,
        components=side.components,
        signature=side.signature,
        target=side.target,
        options=side.options,
        graph_summary=side.graph_summary,
        compiled_outputs=range(len(side.signature.outputs)),
        created=7,
    )
    manifest.files.add(name=SHARED_OBJECT_NAME, sha256=digest_of(code), size=len(code))
    manifest.report.peak_bytes_planned = 5
    data = pack(manifest, {SHARED_OBJECT_NAME: code}, lambda _: artifact_pb2.ManifestSignature())
    return side.key, data


async def publish(gateway: RunningGateway, *given: graph_pb2.Capture) -> list[str]:
    keys = []
    for capture in given:
        key, data = artifact(capture)
        await gateway.store.publish(key, data)
        keys.append(key)
    return keys


def request(capture: graph_pb2.Capture, limit: int = 0) -> compiler_pb2.NearestRequest:
    side = Side.of_capture(capture, captures.target(), captures.options())
    return compiler_pb2.NearestRequest(
        components=side.components,
        target=side.target,
        graph_summary=side.graph_summary,
        limit=limit,
    )


async def test_the_nearest_comes_first_and_slim(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        near, far = await publish(gateway, captures.chain_capture(4), captures.add_capture())
        answer = await gateway.compiler.Nearest(request(captures.chain_capture(5), limit=9))
        assert [manifest.key for manifest in answer.manifests] == [near, far]
        assert (answer.compared, answer.more) == (2, False)
        first = answer.manifests[0]
        assert first.graph_summary.operators["aten::sin.default"] == 4
        assert first.created == 7
        assert not first.files
        assert not first.report.ByteSize()
        assert len((await gateway.compiler.Nearest(request(captures.add_capture()))).manifests) == 1


async def test_an_empty_store_has_none(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        answer = await gateway.compiler.Nearest(request(captures.add_capture()))
        assert answer == compiler_pb2.NearestResponse()


async def test_what_is_no_artifact_or_lies_under_another_key_or_is_in_quarantine_is_none(
    tmp_path: Path,
) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        await gateway.store.publish("ab" * 32, b"no zip")
        _, data = artifact(captures.chain_capture(3))
        await gateway.store.publish("cd" * 32, data)
        (bad, good) = await publish(gateway, captures.chain_capture(5), captures.chain_capture(9))
        entry = (await gateway.store.lookup([bad])).hits[bad]
        await gateway.store.quarantine(bad, entry.digest, "wrong")
        answer = await gateway.compiler.Nearest(request(captures.chain_capture(5), limit=9))
        assert [manifest.key for manifest in answer.manifests] == [good]
        assert answer.more


async def test_a_request_without_components_or_target_is_refused(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        for field in ("components", "target"):
            asked = request(captures.add_capture())
            asked.ClearField(field)  # type: ignore[arg-type]
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await gateway.compiler.Nearest(asked)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert field in (caught.value.details() or "")


async def test_each_artifact_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        await publish(gateway, *(captures.chain_capture(length) for length in range(1, 5)))
        read: list[str] = []
        inner = gateway.store.read

        async def counted(digest: str) -> Outcome:
            read.append(digest)
            return await inner(digest)

        monkeypatch.setattr(gateway.store, "read", counted)
        for _ in range(3):
            await gateway.compiler.Nearest(request(captures.add_capture()))
        assert len(read) == 4
        await publish(gateway, captures.chain_capture(7))
        await gateway.compiler.Nearest(request(captures.add_capture()))
        assert len(read) == 5


async def test_only_the_newest_are_compared_and_that_is_told(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        await publish(gateway, *(captures.chain_capture(length) for length in range(1, 6)))
        answer = await NearestArtifacts(gateway.store, newest=2).find(
            request(captures.chain_capture(1), limit=10)
        )
        assert (len(answer.manifests), answer.compared, answer.more) == (2, 2, True)


async def test_where_the_time_is_over_the_rest_is_told_and_read_later(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        await publish(gateway, *(captures.chain_capture(length) for length in range(1, 12)))
        nearest = NearestArtifacts(gateway.store, seconds=-1)
        answer = await nearest.find(request(captures.chain_capture(1)))
        assert (answer.compared, answer.more) == (0, True)


async def test_a_large_constant_is_left_out(tmp_path: Path) -> None:
    def constant(size: int) -> graph_pb2.Capture:
        capture = captures.add_capture()
        capture.signature.inputs.add(
            name="c",
            role=graph_pb2.ROLE_CONSTANT,
            tensor=captures.tensor(size, dtype="uint8"),
            data=bytes(size),
        )
        return capture

    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        await publish(gateway, constant(100_000), constant(100))
        answer: Any = await gateway.compiler.Nearest(request(captures.add_capture(), limit=5))
        sizes = sorted(len(manifest.signature.inputs[2].data) for manifest in answer.manifests)
        assert sizes == [0, 100]
