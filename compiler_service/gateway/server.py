"""The gRPC server: services, health, reflection, message limits."""

from __future__ import annotations

from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from compile_farm.v1 import compiler_pb2, compiler_pb2_grpc, release_pb2, release_pb2_grpc
from compiler_service.errors import ConfigError
from compiler_service.gateway.artifacts_instance import ArtifactsInstance
from compiler_service.gateway.compiler_instance import CompilerInstance
from compiler_service.gateway.releases_instance import ReleasesInstance
from compiler_service.gateway.service import ArtifactsService, CompilerService, ReleasesService

# Beside a capture of the largest size, a message has room for its target and options.
_MARGIN = 2 * 1024**2


class GatewayServer:
    """Listens once ``start`` returns; ``address`` then has the real port."""

    def __init__(
        self,
        compiler: CompilerInstance,
        artifacts: ArtifactsInstance,
        releases: ReleasesInstance,
        *,
        listen: str,
        max_capture_bytes: int,
    ) -> None:
        limit = max_capture_bytes + _MARGIN
        self._listen = listen
        self._server: Any = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", limit),
                # Clients ping while a compile is silent; without this they would be sent away.
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                ("grpc.keepalive_permit_without_calls", 1),
                # A second server on the port must fail, not share it.
                ("grpc.so_reuseport", 0),
            ]
        )
        compiler_pb2_grpc.add_CompilerServicer_to_server(CompilerService(compiler), self._server)  # type: ignore[no-untyped-call]
        compiler_pb2_grpc.add_ArtifactsServicer_to_server(ArtifactsService(artifacts), self._server)  # type: ignore[no-untyped-call]
        release_pb2_grpc.add_ReleasesServicer_to_server(ReleasesService(releases), self._server)  # type: ignore[no-untyped-call]
        self._health: Any = health.aio.HealthServicer()  # type: ignore[attr-defined]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        services = [
            service.full_name
            for file in (compiler_pb2, release_pb2)
            for service in file.DESCRIPTOR.services_by_name.values()
        ]
        self._services = ["", *services]
        reflection.enable_server_reflection(
            [*services, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server
        )
        self.address = listen

    async def start(self) -> None:
        """Raises ConfigError if the address can't be had."""
        try:
            port = self._server.add_insecure_port(self._listen)
        except RuntimeError as error:
            raise ConfigError(
                f"can't listen on {self._listen}: {error}; is another farm running there? "
                "Choose another address with --listen"
            ) from error
        self.address = f"{self._listen.rpartition(':')[0]}:{port}"
        await self._server.start()
        for service in self._services:
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_seconds: float) -> None:
        """Takes no new calls, and lets the running ones end within the grace."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_seconds)
