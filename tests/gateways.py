"""A real gateway on a free port inside the test's event loop, over a store on disk."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import zstandard

from compile_farm.key import compute_key
from compile_farm.release.check import SIGNATURE_CONTEXT
from compile_farm.v1 import compiler_pb2, compiler_pb2_grpc, graph_pb2, release_pb2_grpc, target_pb2
from compiler_service.dispatch.failure_memory import FailureMemory
from compiler_service.dispatch.local import LocalDispatcher
from compiler_service.gateway.artifacts_instance import ArtifactsInstance
from compiler_service.gateway.compiler_instance import CompilerInstance
from compiler_service.gateway.releases_instance import ReleasesInstance
from compiler_service.gateway.server import GatewayServer
from compiler_service.security.signing import SigningKey
from compiler_service.storage.artifact_store import ArtifactStore
from compiler_service.storage.open import open_store
from compiler_service.worker.protocol import Worker
from tests import captures

MAX_CAPTURE_BYTES = 4 * 1024**2
SIGNING_KEY = SigningKey(b"g" * 32)


@dataclass
class RunningGateway:
    """The parts that tests look into, and stubs over a real connection."""

    dispatcher: LocalDispatcher
    store: ArtifactStore
    address: str
    compiler: Any
    artifacts: Any
    releases: Any
    channel: Any


@asynccontextmanager
async def running_gateway(
    workers: Sequence[Worker],
    data_dir: Path,
    *,
    stores: Sequence[str] = (),
    queue_length: int = 100,
    memory: FailureMemory | None = None,
) -> AsyncIterator[RunningGateway]:
    """Starts everything, and stops it in the end."""
    store = open_store(stores, data_dir)
    dispatcher = LocalDispatcher(workers, store, queue_length=queue_length, memory=memory)
    compiler = CompilerInstance(
        store,
        dispatcher,
        version="test",
        public_keys=[SIGNING_KEY.public_bytes],
        max_capture_bytes=MAX_CAPTURE_BYTES,
        inline_bytes=1024,
    )
    server = GatewayServer(
        compiler,
        ArtifactsInstance(store),
        ReleasesInstance(store, lambda data: SIGNING_KEY.sign(data, SIGNATURE_CONTEXT)),
        listen="127.0.0.1:0",
        max_capture_bytes=MAX_CAPTURE_BYTES,
    )
    await server.start()
    await dispatcher.start()
    channel = grpc.aio.insecure_channel(server.address)
    try:
        yield RunningGateway(
            dispatcher,
            store,
            server.address,
            compiler_pb2_grpc.CompilerStub(channel),
            compiler_pb2_grpc.ArtifactsStub(channel),
            release_pb2_grpc.ReleasesStub(channel),
            channel,
        )
    finally:
        await channel.close()
        await server.stop(0)
        await dispatcher.stop()
        await store.close()


def request(
    capture: graph_pb2.Capture | None = None, target: target_pb2.Target | None = None
) -> compiler_pb2.CompileRequest:
    """A valid request for a small capture."""
    capture = capture or captures.add_capture()
    target = target or captures.target()
    options = captures.options()
    return compiler_pb2.CompileRequest(
        key=compute_key(capture, target, options),
        capture=zstandard.ZstdCompressor().compress(capture.SerializeToString()),
        target=target,
        options=options,
    )


async def kinds(call: Any) -> list[str]:
    """The kinds of a stream's events."""
    return [event.WhichOneof("kind") async for event in call]


async def last(call: Any) -> Any:
    """A stream's last event."""
    events = [event async for event in call]
    return events[-1]
