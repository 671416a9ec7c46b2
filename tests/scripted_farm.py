"""A farm whose answers a test writes: a real gRPC server in a thread, without a compiler behind it.

In: artifacts, and for each Compile or Watch a script of events and faults. Out: what the client's
rooms ask of a farm over a real socket, and a list of the calls that came.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent import futures
from typing import Any

import grpc

from compile_farm.artifact import digest_of
from compile_farm.v1 import artifact_pb2, compiler_pb2, compiler_pb2_grpc, target_pb2

Step = compiler_pb2.Event | grpc.StatusCode | threading.Event


class ScriptedFarm(compiler_pb2_grpc.CompilerServicer, compiler_pb2_grpc.ArtifactsServicer):
    """Use as a context manager; ``url`` is where it listens.

    Attributes:
        compiles: a script for each Compile, the last one repeated: an event is sent, a status code
            ends the call with it, a threading.Event is waited for.
        watches: the same for Watch; without one it answers NOT_FOUND.
        index: artifacts by key, for Lookup; ``blobs``: zips by digest, for Read.
        broken_reads: how many Reads end with UNAVAILABLE after ``chunk`` bytes.
        calls: names of the RPCs that came, in order.
    """

    def __init__(self, public_keys: Sequence[bytes], targets: Sequence[target_pb2.Target]) -> None:
        self.public_keys = list(public_keys)
        self.targets = list(targets)
        self.compiles: list[list[Step]] = []
        self.watches: list[list[Step]] = []
        self.index: dict[str, artifact_pb2.ArtifactRef] = {}
        self.blobs: dict[str, bytes] = {}
        self.unavailable_tiers: list[str] = []
        self.broken_reads = 0
        self.chunk = 1 << 20
        self.calls: list[str] = []
        self.requests: list[Any] = []
        self._server: grpc.Server | None = None
        self.port = 0

    def __enter__(self) -> ScriptedFarm:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listens, at the same port again after ``stop``."""
        self._server = grpc.server(
            futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)]
        )
        compiler_pb2_grpc.add_CompilerServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        compiler_pb2_grpc.add_ArtifactsServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def stop(self) -> None:
        """Ends every connection at once."""
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def add(self, key: str, data: bytes) -> artifact_pb2.ArtifactRef:
        """Has this artifact, under this key."""
        ref = artifact_pb2.ArtifactRef(key=key, digest=digest_of(data), size=len(data), tier="disk")
        self.index[key], self.blobs[ref.digest] = ref, data
        return ref

    def GetCapabilities(
        self, request: compiler_pb2.GetCapabilitiesRequest, context: Any
    ) -> compiler_pb2.GetCapabilitiesResponse:
        self.calls.append("GetCapabilities")
        return compiler_pb2.GetCapabilitiesResponse(
            version="scripted", targets=self.targets, public_keys=self.public_keys
        )

    def Lookup(
        self, request: compiler_pb2.LookupRequest, context: Any
    ) -> compiler_pb2.LookupResponse:
        self.calls.append("Lookup")
        hits = [self.index[key] for key in request.keys if key in self.index]
        return compiler_pb2.LookupResponse(hits=hits, unavailable_tiers=self.unavailable_tiers)

    def GetStatus(
        self, request: compiler_pb2.GetStatusRequest, context: Any
    ) -> compiler_pb2.GetStatusResponse:
        return compiler_pb2.GetStatusResponse(version="scripted")

    def Compile(
        self, request: compiler_pb2.CompileRequest, context: Any
    ) -> Iterator[compiler_pb2.Event]:
        self.calls.append("Compile")
        self.requests.append(request)
        yield from _play(self.compiles, context)

    def Watch(
        self, request: compiler_pb2.WatchRequest, context: Any
    ) -> Iterator[compiler_pb2.Event]:
        self.calls.append("Watch")
        if not self.watches:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such job")
        yield from _play(self.watches, context)

    def Cancel(
        self, request: compiler_pb2.CancelRequest, context: Any
    ) -> compiler_pb2.CancelResponse:
        self.calls.append("Cancel")
        return compiler_pb2.CancelResponse(cancelled=True)

    def Read(
        self, request: compiler_pb2.ReadRequest, context: Any
    ) -> Iterator[compiler_pb2.ReadResponse]:
        self.calls.append(f"Read {request.offset}")
        data = self.blobs.get(request.digest)
        if data is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such artifact")
            return
        for start in range(request.offset, len(data), self.chunk):
            chunk = data[start : start + self.chunk]
            yield compiler_pb2.ReadResponse(data=chunk, total_size=len(data))
            if self.broken_reads > 0:
                self.broken_reads -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "broken on purpose")

    def List(
        self, request: compiler_pb2.ListArtifactsRequest, context: Any
    ) -> compiler_pb2.ListArtifactsResponse:
        """Pages of two."""
        keys = sorted(self.index)
        start = int(request.page_token or 0)
        page = keys[start : start + min(2, request.limit or 2)]
        end = start + len(page)
        return compiler_pb2.ListArtifactsResponse(
            artifacts=[compiler_pb2.ArtifactSummary(key=key) for key in page],
            next_page_token=str(end) if end < len(keys) else "",
        )


def _play(scripts: list[list[Step]], context: Any) -> Iterator[compiler_pb2.Event]:
    script = scripts.pop(0) if len(scripts) > 1 else scripts[0]
    for step in script:
        if isinstance(step, compiler_pb2.Event):
            yield step
        elif isinstance(step, threading.Event):
            while not step.wait(0.05):
                if not context.is_active():
                    return
        else:
            context.abort(step, "ended on purpose")


def queued(position: int = 1, job: str = "job-1") -> compiler_pb2.Event:
    return compiler_pb2.Event(job_id=job, queued=compiler_pb2.Queued(position=position))


def stage(name: str, fraction: float, job: str = "job-1") -> compiler_pb2.Event:
    return compiler_pb2.Event(
        job_id=job, stage=compiler_pb2.Stage(name=name, fraction=fraction, detail="")
    )


def done(
    ref: artifact_pb2.ArtifactRef, *, hit: bool = False, job: str = "job-1"
) -> compiler_pb2.Event:
    return compiler_pb2.Event(job_id=job, done=compiler_pb2.Done(artifact=ref, hit=hit))


def failure(reason: compiler_pb2.Reason, message: str) -> compiler_pb2.Event:
    return compiler_pb2.Event(
        job_id="job-1", failure=compiler_pb2.Failure(reason=reason, message=message)
    )
