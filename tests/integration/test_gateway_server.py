"""The gateway as a server: health, reflection, capabilities, lists, and a port that is taken."""

from __future__ import annotations

import socket
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from compile_farm.key import KEY_VERSION
from compile_farm.v1 import compiler_pb2
from compiler_service.app import Farm
from compiler_service.config import ServeConfig
from compiler_service.errors import ConfigError
from tests import captures
from tests.gateways import last, request, running_gateway
from tests.workers import ScriptedWorker


async def test_health_and_reflection_answer(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        health = health_pb2_grpc.HealthStub(gateway.channel)
        for service in ("", "compile_farm.v1.Compiler", "compile_farm.v1.Artifacts"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflection = reflection_pb2_grpc.ServerReflectionStub(gateway.channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        async for answer in reflection.ServerReflectionInfo(iter([asked])):
            names = {service.name for service in answer.list_services_response.service}
            assert "compile_farm.v1.Compiler" in names
            break


async def test_capabilities_name_targets_and_limits(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        answer = await gateway.compiler.GetCapabilities(compiler_pb2.GetCapabilitiesRequest())
        assert list(answer.targets) == [captures.target()]
        assert answer.key_version == KEY_VERSION
        assert answer.max_capture_bytes > 0


async def test_list_is_newest_first_in_pages(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        keys = set()
        for capture in (
            captures.add_capture(),
            captures.diamond_capture(),
            captures.dynamic_capture(),
        ):
            keys.add((await last(gateway.compiler.Compile(request(capture)))).key)
        found, token = [], ""
        while True:
            page = await gateway.artifacts.List(
                compiler_pb2.ListArtifactsRequest(limit=2, page_token=token)
            )
            found.extend(page.artifacts)
            token = page.next_page_token
            if not token:
                break
        assert {entry.key for entry in found} == keys
        assert [e.created for e in found] == sorted((e.created for e in found), reverse=True)


@pytest.mark.parametrize("keys", [["short"], ["0" * 64] * 10_001, ["Z" * 64]])
async def test_lookup_refuses_what_are_no_keys(tmp_path: Path, keys: list[str]) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gateway.compiler.Lookup(compiler_pb2.LookupRequest(keys=keys))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_refusals_are_counted_by_kind(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        report = compiler_pb2.ReportRefusalsRequest()
        report.refusals.add(refusal=compiler_pb2.REFUSAL_TRACE, count=2)
        report.refusals.add(refusal=compiler_pb2.REFUSAL_MEMORY, count=1)
        for _ in range(2):
            await gateway.compiler.ReportRefusals(report)
        status = await gateway.compiler.GetStatus(compiler_pb2.GetStatusRequest())
        assert [(one.refusal, one.count) for one in status.refusals] == [
            (compiler_pb2.REFUSAL_MEMORY, 2),
            (compiler_pb2.REFUSAL_TRACE, 4),
        ]


@pytest.mark.parametrize(
    ("refusal", "count", "repeats"), [(0, 0, 1), (0, 10**9, 1), (77, 1, 1), (1, 1, 101)]
)
async def test_a_report_out_of_bounds_counts_nothing(
    tmp_path: Path, refusal: int, count: int, repeats: int
) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        report = compiler_pb2.ReportRefusalsRequest()
        report.refusals.add(refusal=compiler_pb2.REFUSAL_SIZE, count=1)
        for _ in range(repeats):
            report.refusals.add(refusal=refusal, count=count)  # type: ignore[arg-type]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gateway.compiler.ReportRefusals(report)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        status = await gateway.compiler.GetStatus(compiler_pb2.GetStatusRequest())
        assert not status.refusals


async def test_reading_what_is_not_there(tmp_path: Path) -> None:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        for digest, code in (
            ("0" * 64, grpc.StatusCode.NOT_FOUND),
            ("../../etc/passwd", grpc.StatusCode.INVALID_ARGUMENT),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await last(gateway.artifacts.Read(compiler_pb2.ReadRequest(digest=digest)))
            assert caught.value.code() is code


async def test_a_port_that_is_taken_is_a_clear_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        farm = Farm(ServeConfig(listen=f"127.0.0.1:{port}", data_dir=tmp_path))
        with pytest.raises(ConfigError, match="another farm running"):
            await farm.start()


@pytest.mark.parametrize(
    "changes",
    [{"listen": "nowhere"}, {"listen": "host:70000"}, {"device": "tpu"}, {"queue_length": 0}],
)
def test_a_bad_configuration_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ServeConfig(**changes)  # type: ignore[arg-type]
