"""The Releases service over a real connection: publish, resolve, list, pin, roll back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from compile_farm.errors import UntrustedArtifactError
from compile_farm.release.check import open_release
from compile_farm.trust import SIGNATURE_CONTEXT, TrustStore
from compile_farm.v1 import artifact_pb2, compiler_pb2, graph_pb2, release_pb2
from tests import captures
from tests.gateways import SIGNING_KEY, RunningGateway, last, request, running_gateway
from tests.workers import ScriptedWorker

TRUST = TrustStore([SIGNING_KEY.public_bytes])


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway([ScriptedWorker()], tmp_path) as gateway:
        yield gateway


async def compiled(
    gateway: RunningGateway, capture: graph_pb2.Capture | None = None
) -> artifact_pb2.ArtifactRef:
    event = await last(gateway.compiler.Compile(request(capture)))
    reference: artifact_pb2.ArtifactRef = event.done.artifact
    return reference


def release_of(*references: artifact_pb2.ArtifactRef, revision: str = "1") -> release_pb2.Release:
    release = release_pb2.Release(schema_version=1, name="net", revision=revision)
    release.components.add(type_name="Net")
    for reference in references:
        release.entries.add(
            method="forward",
            key=reference.key,
            digest=reference.digest,
            target=captures.target(),
            options=captures.options(),
        )
    return release


async def publish(
    gateway: RunningGateway, release: release_pb2.Release
) -> release_pb2.PublishResponse:
    answer: release_pb2.PublishResponse = await gateway.releases.Publish(
        release_pb2.PublishRequest(release=release)
    )
    return answer


async def current(gateway: RunningGateway) -> str:
    answer = await gateway.releases.Resolve(release_pb2.ResolveRequest(name="net"))
    return open_release(answer.release, TRUST).revision


async def status_of(call: object) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    code: grpc.StatusCode = caught.value.code()
    return code


async def test_what_is_published_is_resolved_signed(gateway: RunningGateway) -> None:
    reference = await compiled(gateway)
    answer = await publish(gateway, release_of(reference))
    assert answer.created
    found = await gateway.releases.Resolve(release_pb2.ResolveRequest(name="net", revision="1"))
    assert found.release == answer.release
    release = open_release(found.release, TRUST)
    assert [(entry.digest, entry.size) for entry in release.entries] == [
        (reference.digest, reference.size)
    ]
    assert release.created > 0


async def test_a_manifests_signature_is_none_of_a_release(gateway: RunningGateway) -> None:
    """What a worker signs can't be shown as a release, nor the other way round."""
    signed = (await publish(gateway, release_of(await compiled(gateway)))).release
    forged = release_pb2.SignedRelease(
        release=signed.release, signature=SIGNING_KEY.sign(signed.release, SIGNATURE_CONTEXT)
    )
    with pytest.raises(UntrustedArtifactError):
        open_release(forged, TRUST)


async def test_publishing_again_is_one_release_and_never_another(gateway: RunningGateway) -> None:
    one = await compiled(gateway)
    other = await compiled(gateway, captures.diamond_capture())
    first = await publish(gateway, release_of(one))
    again = await publish(gateway, release_of(one))
    assert not again.created
    assert again.release == first.release
    code = await status_of(publish(gateway, release_of(one, other)))
    assert code is grpc.StatusCode.ALREADY_EXISTS
    found = await gateway.releases.Resolve(release_pb2.ResolveRequest(name="net", revision="1"))
    assert found.release == first.release


async def test_only_what_is_there_can_be_published(gateway: RunningGateway) -> None:
    reference = await compiled(gateway)
    reference.digest = "0" * 64
    code = await status_of(publish(gateway, release_of(reference)))
    assert code is grpc.StatusCode.FAILED_PRECONDITION


async def test_what_is_in_quarantine_can_not(gateway: RunningGateway) -> None:
    reference = await compiled(gateway)
    await publish(gateway, release_of(reference))
    await gateway.artifacts.Quarantine(
        compiler_pb2.QuarantineRequest(key=reference.key, digest=reference.digest, reason="wrong")
    )
    code = await status_of(publish(gateway, release_of(reference, revision="2")))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    found = await gateway.releases.Resolve(release_pb2.ResolveRequest(name="net"))
    assert [(one.digest, one.reason) for one in found.quarantined] == [(reference.digest, "wrong")]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Net"), ("name", "../net"), ("name", ""), ("revision", ""),
        ("revision", "a b"), ("schema_version", 2),
    ],
)  # fmt: skip
async def test_what_is_no_release_is_refused(
    gateway: RunningGateway, field: str, value: object
) -> None:
    release = release_of(await compiled(gateway))
    setattr(release, field, value)
    assert await status_of(publish(gateway, release)) is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_name_means_the_newest_until_one_is_pinned(gateway: RunningGateway) -> None:
    reference = await compiled(gateway)
    assert await status_of(current(gateway)) is grpc.StatusCode.NOT_FOUND
    for revision in ("1", "2", "3"):
        await publish(gateway, release_of(reference, revision=revision))
    assert await current(gateway) == "3"
    for _ in range(2):
        await gateway.releases.Pin(release_pb2.PinRequest(name="net", revision="2"))
    await publish(gateway, release_of(reference, revision="4"))
    assert await current(gateway) == "2"
    listed = await gateway.releases.List(release_pb2.ListReleasesRequest(name="net"))
    assert [(one.revision, one.current, one.pinned) for one in listed.releases] == [
        ("4", False, False),
        ("3", False, False),
        ("2", True, True),
        ("1", False, False),
    ]
    await gateway.releases.Pin(release_pb2.PinRequest(name="net"))
    assert await current(gateway) == "4"


async def test_rolling_back_goes_through_what_was_pinned_then_published(
    gateway: RunningGateway,
) -> None:
    reference = await compiled(gateway)
    for revision in ("1", "2", "3"):
        await publish(gateway, release_of(reference, revision=revision))
    for revision in ("3", "2"):
        await gateway.releases.Pin(release_pb2.PinRequest(name="net", revision=revision))
    went = []
    for _ in range(3):
        answer = await gateway.releases.Rollback(release_pb2.RollbackRequest(name="net"))
        went.append((answer.before, answer.revision))
        assert await current(gateway) == answer.revision
    assert went == [("2", "3"), ("3", "2"), ("2", "1")]
    rollback = gateway.releases.Rollback(release_pb2.RollbackRequest(name="net"))
    assert await status_of(rollback) is grpc.StatusCode.FAILED_PRECONDITION
    assert await current(gateway) == "1"


async def test_what_is_not_there_is_said_so(gateway: RunningGateway) -> None:
    for call in (
        gateway.releases.Resolve(release_pb2.ResolveRequest(name="none", revision="1")),
        gateway.releases.Pin(release_pb2.PinRequest(name="none", revision="1")),
        gateway.releases.Pin(release_pb2.PinRequest(name="none")),
        gateway.releases.Rollback(release_pb2.RollbackRequest(name="none")),
    ):
        assert await status_of(call) is grpc.StatusCode.NOT_FOUND
    assert not (await gateway.releases.List(release_pb2.ListReleasesRequest())).releases
