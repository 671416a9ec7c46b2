"""A gateway's logic alone, without a connection: what reads a CompileRequest.

In: a request. Out: the first event, or the ServiceError that gRPC would map. It needs no torch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from compile_farm.v1 import compiler_pb2
from compiler_service.gateway.compiler_instance import CompilerInstance

MAX_CAPTURE_BYTES = 4 * 1024**2


class _NoStore:
    async def lookup(self, keys: Any) -> Any:
        return SimpleNamespace(hits={}, quarantined={}, unavailable=[])


class _NoDispatcher:
    async def events(self, *request: Any) -> AsyncIterator[compiler_pb2.Event]:
        yield compiler_pb2.Event(job_id="taken")


def gateway_instance(max_capture_bytes: int = MAX_CAPTURE_BYTES) -> CompilerInstance:
    """One whose store is empty and whose dispatcher takes everything."""
    return CompilerInstance(
        _NoStore(),  # type: ignore[arg-type]
        _NoDispatcher(),  # type: ignore[arg-type]
        version="fuzz",
        public_keys=[],
        max_capture_bytes=max_capture_bytes,
        inline_bytes=1024,
    )


async def first_event(
    instance: CompilerInstance, request: compiler_pb2.CompileRequest
) -> compiler_pb2.Event:
    """What the gateway answers first; raises ServiceError."""
    async for event in instance.compile(request):
        return event
    raise AssertionError("no answer")
