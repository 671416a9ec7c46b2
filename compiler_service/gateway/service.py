"""The wire side of the gateway: gRPC methods of a few lines, and the one place that maps errors."""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import grpc

from compile_farm.v1 import (
    compiler_pb2,
    compiler_pb2_grpc,
    release_pb2,
    release_pb2_grpc,
)
from compiler_service.errors import ServiceError
from compiler_service.gateway.artifacts_instance import ArtifactsInstance
from compiler_service.gateway.compiler_instance import CompilerInstance
from compiler_service.gateway.releases_instance import ReleasesInstance

log = logging.getLogger(__name__)

Context = Any  # grpc.aio.ServicerContext, which has no types


async def _abort(context: Context, error: Exception) -> None:
    if isinstance(error, ServiceError):
        await context.abort(error.status, str(error))
    # What went wrong inside is for the log; a stranger learns that it did.
    log.exception("a call failed")
    await context.abort(grpc.StatusCode.INTERNAL, "the gateway failed; its log says more")


def _unary(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    async def call(self: Any, request: Any, context: Context) -> Any:
        try:
            return await method(self, request)
        except Exception as error:
            await _abort(context, error)

    return call


def _stream(method: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(method)
    async def call(self: Any, request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            # Closed at once when the caller leaves, so that its job learns of it.
            async with aclosing(method(self, request)) as answers:  # type: ignore[type-var]
                async for answer in answers:
                    yield answer
        except Exception as error:
            await _abort(context, error)

    return call


class CompilerService(compiler_pb2_grpc.CompilerServicer):
    """compile_farm.v1.Compiler."""

    def __init__(self, instance: CompilerInstance) -> None:
        self._instance = instance

    @_unary
    async def GetCapabilities(
        self, request: compiler_pb2.GetCapabilitiesRequest
    ) -> compiler_pb2.GetCapabilitiesResponse:
        """What this farm is and serves."""
        return self._instance.capabilities()

    @_unary
    async def Lookup(self, request: compiler_pb2.LookupRequest) -> compiler_pb2.LookupResponse:
        """Which keys have an artifact."""
        return await self._instance.lookup(request.keys)

    @_stream
    def Compile(self, request: compiler_pb2.CompileRequest) -> AsyncIterator[compiler_pb2.Event]:
        """The artifact, compiled if need be."""
        return self._instance.compile(request)

    @_stream
    def Watch(self, request: compiler_pb2.WatchRequest) -> AsyncIterator[compiler_pb2.Event]:
        """Joins a job again."""
        return self._instance.watch(request.job_id)

    @_unary
    async def Cancel(self, request: compiler_pb2.CancelRequest) -> compiler_pb2.CancelResponse:
        """Stops a job that nobody waits for."""
        return self._instance.cancel(request.job_id)

    @_unary
    async def Nearest(self, request: compiler_pb2.NearestRequest) -> compiler_pb2.NearestResponse:
        """Which artifacts are most like a request."""
        return await self._instance.nearest(request)

    @_unary
    async def ReportRefusals(
        self, request: compiler_pb2.ReportRefusalsRequest
    ) -> compiler_pb2.ReportRefusalsResponse:
        """What clients could not capture."""
        self._instance.count_refusals(request.refusals)
        return compiler_pb2.ReportRefusalsResponse()

    @_unary
    async def GetStatus(
        self, request: compiler_pb2.GetStatusRequest
    ) -> compiler_pb2.GetStatusResponse:
        """Jobs, workers and tiers."""
        return self._instance.status()


class ArtifactsService(compiler_pb2_grpc.ArtifactsServicer):
    """compile_farm.v1.Artifacts."""

    def __init__(self, instance: ArtifactsInstance) -> None:
        self._instance = instance

    @_stream
    def Read(self, request: compiler_pb2.ReadRequest) -> AsyncIterator[compiler_pb2.ReadResponse]:
        """An artifact's bytes."""
        return self._instance.read(request.digest, request.offset)

    @_unary
    async def List(
        self, request: compiler_pb2.ListArtifactsRequest
    ) -> compiler_pb2.ListArtifactsResponse:
        """What the index holds."""
        return await self._instance.list(request.limit, request.page_token)

    @_unary
    async def Quarantine(
        self, request: compiler_pb2.QuarantineRequest
    ) -> compiler_pb2.QuarantineResponse:
        """No host gets this artifact from now on."""
        await self._instance.quarantine(request.key, request.digest, request.reason)
        return compiler_pb2.QuarantineResponse()

    @_unary
    async def LiftQuarantine(
        self, request: compiler_pb2.LiftQuarantineRequest
    ) -> compiler_pb2.LiftQuarantineResponse:
        """The key may be built anew."""
        await self._instance.lift_quarantine(request.key)
        return compiler_pb2.LiftQuarantineResponse()


class ReleasesService(release_pb2_grpc.ReleasesServicer):
    """compile_farm.v1.Releases."""

    def __init__(self, instance: ReleasesInstance) -> None:
        self._instance = instance

    @_unary
    async def Publish(self, request: release_pb2.PublishRequest) -> release_pb2.PublishResponse:
        """Makes and signs a release."""
        return await self._instance.publish(request.release)

    @_unary
    async def Resolve(self, request: release_pb2.ResolveRequest) -> release_pb2.ResolveResponse:
        """The release of a name."""
        return await self._instance.resolve(request.name, request.revision)

    @_unary
    async def List(
        self, request: release_pb2.ListReleasesRequest
    ) -> release_pb2.ListReleasesResponse:
        """What was published."""
        return await self._instance.list_releases(request.name)

    @_unary
    async def Pin(self, request: release_pb2.PinRequest) -> release_pb2.PinResponse:
        """What the name alone means."""
        await self._instance.pin(request.name, request.revision)
        return release_pb2.PinResponse()

    @_unary
    async def Rollback(self, request: release_pb2.RollbackRequest) -> release_pb2.RollbackResponse:
        """Back to what was current before."""
        return await self._instance.rollback(request.name)
