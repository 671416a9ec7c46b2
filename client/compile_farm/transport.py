"""The wire: one gRPC channel to a farm, and its errors in words.

In: an address and requests. Out: responses, streams of events, an artifact's bytes; or an error of
errors.py that says what did not answer and what to do. Nothing above this file sees grpc.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import grpc

from compile_farm.artifact import MAX_ARTIFACT_BYTES, digest_of
from compile_farm.errors import (
    ArtifactNotFoundError,
    CompileFarmError,
    CorruptArtifactError,
    FarmUnavailableError,
    InvalidGraphError,
    InvalidReleaseError,
    ReleaseNotFoundError,
)
from compile_farm.v1 import (
    artifact_pb2,
    compiler_pb2,
    compiler_pb2_grpc,
    release_pb2,
    release_pb2_grpc,
)

# gRPC's own limit is 4 MiB; a capture of thousands of nodes or an inline artifact is more.
MAX_MESSAGE_BYTES = 65 * 2**20
# How often a broken transfer goes on where it stopped without having moved in between.
# Of what nobody waits for.
_REPORT_SECONDS = 2.0
_READ_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 0.1

Message = TypeVar("Message")


class EventStream(Protocol):
    """Events of a job, until Done or Failure; ``cancel`` ends it from another thread."""

    def __iter__(self) -> Iterator[compiler_pb2.Event]: ...

    def cancel(self) -> None: ...


class Address:
    """Where a farm is: "HOST:PORT", "grpc://HOST:PORT", "http://HOST:PORT" or "grpcs://HOST:PORT"."""

    def __init__(self, url: str) -> None:
        """Raises CompileFarmError for what is no such URL."""
        scheme, separator, rest = url.strip().rpartition("://")
        self.secure = scheme in ("grpcs", "https")
        self.target = rest.rstrip("/")
        host, _, port = self.target.rpartition(":")
        self.host = host.strip("[]")
        known = not separator or scheme in ("grpc", "http", "grpcs", "https")
        if not known or not self.host or not port.isdecimal() or int(port) > 65535:
            raise CompileFarmError(
                f"{url!r} is no address of a farm",
                remedy="give HOST:PORT, or grpcs://HOST:PORT for TLS",
            )

    @property
    def is_loopback(self) -> bool:
        """Whether it can only be this host."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return self.target


class Transport:
    """Calls one farm; safe to use from several threads."""

    def __init__(self, address: Address, timeout: float) -> None:
        """``timeout``: seconds for an answer. A stream of events may take as long as it takes."""
        self._address = address
        self._timeout = timeout
        options: list[tuple[str, Any]] = [
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            # A farm that restarts is found again within seconds and not minutes.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
        ]
        if address.is_loopback:
            # A proxy for the outer world can't reach this host's own ports.
            options.append(("grpc.enable_http_proxy", 0))
        if address.secure:
            credentials = grpc.ssl_channel_credentials()
            self._channel = grpc.secure_channel(address.target, credentials, options)
        else:
            self._channel = grpc.insecure_channel(address.target, options)
        # The generated stubs have no types.
        self._compiler: Any = compiler_pb2_grpc.CompilerStub(self._channel)  # type: ignore[no-untyped-call]
        self._releases: Any = release_pb2_grpc.ReleasesStub(self._channel)  # type: ignore[no-untyped-call]
        self._artifacts: Any = compiler_pb2_grpc.ArtifactsStub(self._channel)  # type: ignore[no-untyped-call]

    def capabilities(self) -> compiler_pb2.GetCapabilitiesResponse:
        """What the farm is and serves."""
        answer: compiler_pb2.GetCapabilitiesResponse = self._ask(
            self._compiler.GetCapabilities, compiler_pb2.GetCapabilitiesRequest()
        )
        return answer

    def lookup(self, keys: Sequence[str]) -> compiler_pb2.LookupResponse:
        """Which keys have an artifact."""
        answer: compiler_pb2.LookupResponse = self._ask(
            self._compiler.Lookup, compiler_pb2.LookupRequest(keys=keys)
        )
        return answer

    def nearest(self, request: compiler_pb2.NearestRequest) -> compiler_pb2.NearestResponse:
        """The artifacts most like a request."""
        answer: compiler_pb2.NearestResponse = self._ask(self._compiler.Nearest, request)
        return answer

    def status(self) -> compiler_pb2.GetStatusResponse:
        """Jobs, workers and tiers as they are now."""
        answer: compiler_pb2.GetStatusResponse = self._ask(
            self._compiler.GetStatus, compiler_pb2.GetStatusRequest()
        )
        return answer

    def list(self, limit: int, page_token: str) -> compiler_pb2.ListArtifactsResponse:
        """One page of the index, newest first."""
        request = compiler_pb2.ListArtifactsRequest(limit=limit, page_token=page_token)
        answer: compiler_pb2.ListArtifactsResponse = self._ask(self._artifacts.List, request)
        return answer

    def quarantine(self, key: str, digest: str, reason: str) -> None:
        """No host gets this artifact from now on."""
        request = compiler_pb2.QuarantineRequest(key=key, digest=digest, reason=reason)
        self._ask(self._artifacts.Quarantine, request)

    def lift_quarantine(self, key: str) -> None:
        """Ends a quarantine."""
        self._ask(self._artifacts.LiftQuarantine, compiler_pb2.LiftQuarantineRequest(key=key))

    def report_refusals(self, refusals: Mapping[compiler_pb2.Refusal, int]) -> None:
        """Counts what could not be captured."""
        request = compiler_pb2.ReportRefusalsRequest()
        for refusal, count in refusals.items():
            request.refusals.add(refusal=refusal, count=count)
        self._ask(self._compiler.ReportRefusals, request, _REPORT_SECONDS)

    def publish(self, release: release_pb2.Release) -> release_pb2.PublishResponse:
        """Has the farm sign and keep a release."""
        answer: release_pb2.PublishResponse = self._ask_releases(
            self._releases.Publish, release_pb2.PublishRequest(release=release)
        )
        return answer

    def resolve(self, name: str, revision: str) -> release_pb2.ResolveResponse:
        """A release, and what of it is in quarantine."""
        answer: release_pb2.ResolveResponse = self._ask_releases(
            self._releases.Resolve, release_pb2.ResolveRequest(name=name, revision=revision)
        )
        return answer

    def releases(self, name: str) -> release_pb2.ListReleasesResponse:
        """What was published, of a name or of all."""
        answer: release_pb2.ListReleasesResponse = self._ask_releases(
            self._releases.List, release_pb2.ListReleasesRequest(name=name)
        )
        return answer

    def pin(self, name: str, revision: str) -> None:
        """What the name alone means from now on."""
        self._ask_releases(self._releases.Pin, release_pb2.PinRequest(name=name, revision=revision))

    def rollback(self, name: str) -> release_pb2.RollbackResponse:
        """Back to what was current before."""
        answer: release_pb2.RollbackResponse = self._ask_releases(
            self._releases.Rollback, release_pb2.RollbackRequest(name=name)
        )
        return answer

    def cancel(self, job_id: str) -> bool:
        """Whether the job was stopped; False if others wait for it or it had ended."""
        request = compiler_pb2.CancelRequest(job_id=job_id)
        answer: compiler_pb2.CancelResponse = self._ask(self._compiler.Cancel, request)
        return answer.cancelled

    def compile(self, request: compiler_pb2.CompileRequest) -> EventStream:
        """The job's events; reading them raises the errors of errors.py."""
        return self._stream(self._compiler.Compile, request)

    def watch(self, job_id: str) -> EventStream:
        """The events of a job from its latest on."""
        return self._stream(self._compiler.Watch, compiler_pb2.WatchRequest(job_id=job_id))

    def read(self, ref: artifact_pb2.ArtifactRef) -> bytes:
        """An artifact's bytes, their digest checked; goes on where a transfer broke off."""
        data = bytearray()
        attempts = 0
        while True:
            start = len(data)
            try:
                self._read_from(ref.digest, data)
                break
            except FarmUnavailableError:
                attempts = 1 if len(data) > start else attempts + 1
                if attempts >= _READ_ATTEMPTS:
                    raise
                time.sleep(_FIRST_PAUSE_SECONDS * 2**attempts)
        if digest_of(bytes(data)) != ref.digest:
            raise CorruptArtifactError(
                f"the artifact {ref.digest[:16]} came with other content than its digest says",
                remedy="try again; if it stays so, something between here and the farm alters it",
                retryable=True,
            )
        return bytes(data)

    def close(self) -> None:
        """Ends the channel and every stream on it."""
        self._channel.close()

    def _read_from(self, digest: str, data: bytearray) -> None:
        request = compiler_pb2.ReadRequest(digest=digest, offset=len(data))
        total = None
        try:
            for chunk in self._artifacts.Read(request, timeout=self._timeout):
                total = chunk.total_size or total
                data += chunk.data
                if len(data) > MAX_ARTIFACT_BYTES:
                    raise CorruptArtifactError(f"the artifact is over {MAX_ARTIFACT_BYTES} bytes")
        except grpc.RpcError as error:
            raise self._words(error) from error
        if total is not None and len(data) < total:
            raise FarmUnavailableError(
                f"the farm at {self._address} sent {len(data)} of {total} bytes", retryable=True
            )

    def _stream(self, call: Callable[[Any], Any], request: Any) -> EventStream:
        try:
            return _Stream(call(request), self._words)
        except ValueError as error:  # what grpc says of a channel that was closed
            raise CompileFarmError(f"the connection to {self._address} was closed") from error

    def _ask(
        self, call: Callable[..., Message], request: Any, timeout: float | None = None
    ) -> Message:
        try:
            return call(request, timeout=timeout or self._timeout)
        except grpc.RpcError as error:
            raise self._words(error) from error

    def _ask_releases(self, call: Callable[..., Message], request: Any) -> Message:
        """NOT_FOUND is of a release here."""
        try:
            return self._ask(call, request)
        except ArtifactNotFoundError as error:
            raise ReleaseNotFoundError(
                error.message, remedy="`compile-farm release list` has those that there are"
            ) from error

    def _words(self, error: grpc.RpcError) -> CompileFarmError:
        code: grpc.StatusCode = error.code()
        details = (error.details() or "").strip()[:2000]
        farm = f"the farm at {self._address}"
        if code == grpc.StatusCode.UNAVAILABLE:
            return FarmUnavailableError(
                f"{farm} can't be reached: {details}",
                remedy=f"is `compile-farm serve` running at {self._address}?",
                retryable=True,
            )
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return FarmUnavailableError(
                f"{farm} did not answer within {self._timeout:g} s",
                remedy="try again, or give Farm a longer timeout",
                retryable=True,
            )
        if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return CompileFarmError(
                f"{farm} takes no more: {details}",
                remedy="try later, or send a smaller graph",
                retryable=True,
            )
        if code == grpc.StatusCode.INVALID_ARGUMENT:
            return InvalidGraphError(f"{farm} refused the request: {details}")
        if code == grpc.StatusCode.NOT_FOUND:
            return ArtifactNotFoundError(f"{farm} does not have it: {details}")
        if code in (grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.FAILED_PRECONDITION):
            return InvalidReleaseError(f"{farm} did not do it: {details}")
        if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            return CompileFarmError(f"{farm} does not let this client in: {details}")
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return CompileFarmError(
                f"{self._address} does not know this call: {details}",
                remedy="is it a compile farm, and as new as this client?",
            )
        return CompileFarmError(f"{farm} failed ({code.name.lower()}): {details}")


class _Stream:
    """A response stream whose errors are ours."""

    def __init__(self, call: Any, words: Callable[[grpc.RpcError], CompileFarmError]) -> None:
        self._call = call
        self._words = words

    def __iter__(self) -> Iterator[compiler_pb2.Event]:
        try:
            yield from self._call
        except grpc.RpcError as error:
            raise self._words(error) from error

    def cancel(self) -> None:
        self._call.cancel()
