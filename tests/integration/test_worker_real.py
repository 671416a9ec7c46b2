"""A worker with the real engine: hand-built captures in, signed artifacts that run out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import torch

from compile_farm.artifact import UnpackedArtifact, unpack
from compile_farm.key import compute_key
from compile_farm.runtime.native import open_native
from compile_farm.trust import TrustStore
from compile_farm.v1 import compiler_pb2, graph_pb2
from compiler_service.security.signing import SigningKey
from compiler_service.worker.doctor import run_doctor, self_test
from compiler_service.worker.limits import Limits
from compiler_service.worker.plan import SandboxPlan
from compiler_service.worker.protocol import Built, JobSpec, StageListener
from compiler_service.worker.scratch import Scratch
from compiler_service.worker.worker import SandboxWorker
from tests import captures
from tests.compilers import faulty_compiler
from tests.farms import prepare_worker_dir, shared_cache

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Bench:
    """A warm worker, its key, and a folder."""

    worker: SandboxWorker
    key: SigningKey
    folder: Path

    async def run(
        self, capture: graph_pb2.Capture, on_stage: StageListener = lambda _: None
    ) -> Built | compiler_pb2.Failure:
        """Compiles for the worker's own target."""
        target, options = self.worker.status().target, captures.options()
        key = compute_key(capture, target, options)
        return await self.worker.run(
            JobSpec("job", key, capture.SerializeToString(), target, options), on_stage
        )

    async def build(self, capture: graph_pb2.Capture) -> UnpackedArtifact:
        """The same, for a job that must succeed; checks signature and digests."""
        outcome = await self.run(capture)
        assert isinstance(outcome, Built), outcome
        return unpack(outcome.data, TrustStore([self.key.public_bytes]).verify)

    def open(self, artifact: UnpackedArtifact, name: str) -> Path:
        """Its shared object as a file."""
        folder = self.folder / name
        folder.mkdir()
        for file, data in artifact.files.items():
            (folder / file).write_bytes(data)
        return folder / "model.so"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """One worker for all tests here: its first compile takes a while."""
    folder = tmp_path_factory.mktemp("worker")
    key = SigningKey.load_or_create(folder / "keys" / "signing.key")
    worker = SandboxWorker(
        "real", device="cpu", signing_key=key, work_dir=prepare_worker_dir(folder / "worker")
    )
    await worker.start()
    assert worker.status().state == "idle", worker.status().problem
    yield Bench(worker, key, folder)
    await worker.stop()


async def test_an_artifact_runs_and_says_what_it_is(bench: Bench) -> None:
    stages: list[compiler_pb2.Stage] = []
    capture = captures.diamond_capture()
    outcome = await bench.run(capture, stages.append)
    assert isinstance(outcome, Built), outcome
    assert [stage.name for stage in stages] == ["decode", "lower", "verify", "package", "package"]
    fractions = [stage.fraction for stage in stages]
    assert fractions == sorted(fractions)
    artifact = unpack(outcome.data, TrustStore([bench.key.public_bytes]).verify)
    manifest = artifact.manifest
    assert manifest.key == compute_key(capture, manifest.target, manifest.options)
    assert manifest.signature == capture.signature
    assert manifest.verification.runs
    assert {"lower", "verify", "check"} <= {stage.stage for stage in manifest.stages}
    x = torch.randn(4, 4)
    runner = open_native(bench.open(artifact, "diamond"), torch.device("cpu"))
    torch.testing.assert_close(runner.run([x])[0], x.sin() * x.cos())


async def test_a_job_leaves_nothing_to_the_next(bench: Bench) -> None:
    first = await bench.build(captures.diamond_capture())
    dynamic = await bench.build(captures.dynamic_capture())
    again = await bench.build(captures.diamond_capture())
    one, other = first.files["model.so"], again.files["model.so"]
    assert len(one) == len(other)
    differing = [index for index in range(len(one)) if one[index] != other[index]]
    # The linker's build id covers paths that are taken out afterwards; all code is the same.
    assert not differing or differing[-1] - differing[0] < 20
    runner = open_native(bench.open(dynamic, "dynamic"), torch.device("cpu"))
    for rows in (1, 3, 64):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(runner.run([x])[0], x.relu())


async def test_no_folder_of_this_host_stays_in_the_artifact(bench: Bench) -> None:
    artifact = await bench.build(captures.chain_capture(3))
    for data in (artifact.manifest_bytes, *artifact.files.values()):
        assert str(bench.folder).encode() not in data
        assert str(Path(torch.__file__).parent).encode() not in data


async def test_a_graph_that_it_does_not_take_is_a_typed_failure(bench: Bench) -> None:
    capture = captures.diamond_capture()
    capture.graph.nodes[0].op = "aten::of_tomorrow.default"
    told = await bench.run(capture)
    assert isinstance(told, compiler_pb2.Failure)
    assert told.reason == compiler_pb2.REASON_UNSUPPORTED
    assert "of_tomorrow" in told.message
    assert isinstance(await bench.run(captures.add_capture()), Built)


async def test_a_compile_that_is_cancelled_midway_harms_no_other(bench: Bench) -> None:
    lowering = asyncio.Event()

    def on_stage(stage: compiler_pb2.Stage) -> None:
        if stage.name == "lower":
            lowering.set()

    task = asyncio.create_task(bench.run(captures.chain_capture(50), on_stage))
    await lowering.wait()
    await asyncio.sleep(1)  # somewhere inside Inductor or g++
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(await bench.run(captures.chain_capture(50)), Built)


@pytest.fixture
def faulty() -> Path:
    """A folder that stays: headers are compiled anew for each compiler's path, 300 MB of them."""
    return shared_cache() / "libstdcxx-fault"


@pytest.mark.slow
async def test_the_self_test_finds_the_libstdcxx_fault(faulty: Path) -> None:
    """What a worker would run into without the cure."""
    work_dir = faulty / "worker"
    scratch = Scratch(work_dir / "scratch")
    compiler = faulty_compiler(faulty)
    (check,) = await self_test(SandboxPlan("cpu", work_dir, Limits(), str(compiler)), scratch)
    scratch.close()
    assert not check.passed
    assert "when it was loaded or run" in check.detail
    assert "libstdc++" in check.remedy


@pytest.mark.slow
async def test_the_libstdcxx_fault_is_cured(faulty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(faulty_compiler(faulty)))
    report = await asyncio.to_thread(run_doctor, "cpu", faulty / "worker")
    assert report.passed, report.checks
    assert any("cured" in check.detail for check in report.checks)
