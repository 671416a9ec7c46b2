"""Releases from end to end: published from a model, loaded without tracing, here and elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from compile_farm import Farm, InputMismatchError
from compile_farm.cli import main
from compile_farm.errors import (
    BindError,
    FarmUnavailableError,
    InvalidReleaseError,
    ReleaseNotFoundError,
    TargetMismatchError,
)
from compile_farm.v1 import release_pb2
from tests.farms import RunningFarm
from tests.release_models import Net, Pipeline

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

NAME = "tests-net"
REF = f"{NAME}@1"


@pytest.fixture(scope="module")
def release(
    farm_server: RunningFarm, tmp_path_factory: pytest.TempPathFactory
) -> release_pb2.Release:
    """Three signatures of two entry points: a fixed size, a range, and another method."""
    batch = torch.export.Dim("batch", min=2, max=16)
    model = Net().eval()
    with Farm(farm_server.address, cache_dir=tmp_path_factory.mktemp("publisher")) as farm:
        draft = farm.release(REF)
        draft.add(model, (torch.randn(4, 8),))
        draft.add(model, (torch.randn(3, 8),), dynamic_shapes={"x": {0: batch}})
        draft.add(model, (torch.randn(1, 8),), method="decode")
        return draft.publish(280)


@pytest.fixture
def farm(farm_server: RunningFarm, tmp_path: Path) -> Iterator[Farm]:
    with Farm(farm_server.address, cache_dir=tmp_path) as farm:
        yield farm


def _same(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    return torch.allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_each_call_gets_the_artifact_that_takes_it(
    farm: Farm, release: release_pb2.Release
) -> None:
    model = Net().eval()
    loaded = farm.load(REF, model, on_miss="error")
    assert loaded.state == "ready"
    for batch in (4, 2, 16, 3, 4):
        x = torch.randn(batch, 8)
        assert _same(loaded(x), model(x))
    x = torch.randn(1, 8)
    assert _same(loaded.decode(x), model.decode(x))
    assert loaded.layer is model.layer
    assert loaded.fallbacks == 0
    with pytest.raises(InputMismatchError, match="none of the 2 artifacts for forward"):
        loaded(torch.randn(17, 8))
    with pytest.raises(InputMismatchError, match=r"argument .token. has size 2"):
        loaded.decode(torch.randn(2, 8))


@torch.no_grad()
def test_what_no_artifact_takes_runs_eager(farm: Farm, release: release_pb2.Release) -> None:
    model = Net().eval()
    loaded = farm.load(REF, model)
    x = torch.randn(40, 8)
    assert torch.equal(loaded(x), model(x))
    assert torch.equal(loaded(x[:4], factor=3.0), model(x[:4], factor=3.0))
    assert torch.equal(loaded.decode(x), model.decode(x))
    assert loaded.fallbacks == 3
    assert _same(loaded(x[:4]), model(x[:4]))
    assert loaded.fallbacks == 3


@torch.no_grad()
def test_the_weights_are_the_models_own(farm: Farm, release: release_pb2.Release) -> None:
    pipeline = Pipeline().eval()
    loaded = farm.load(REF, pipeline.net, on_miss="error")
    x = torch.randn(4, 8)
    before = loaded(x)
    pipeline.net.layer.weight.mul_(-2)
    assert not _same(loaded(x), before)
    assert _same(loaded(x), pipeline.net(x))


@torch.no_grad()
def test_another_model_is_refused_with_what_differs(
    farm: Farm, release: release_pb2.Release, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(BindError, match=r"layer\.weight"):
        farm.load(REF, Net(9).eval(), on_miss="error")
    with pytest.raises(BindError, match="captured from a Net, this is a Pipeline"):
        farm.load(REF, Pipeline().eval(), on_miss="error")
    # The same class from an edited file.
    edited = tmp_path / "edited.py"
    edited.write_text(Path(sys.modules[Net.__module__].__file__ or "").read_text() + "\n")
    monkeypatch.setattr(sys.modules[Net.__module__], "__file__", str(edited))
    model = Net().eval()
    with pytest.raises(BindError, match=r"tests\.release_models .* is not what it was captured"):
        farm.load(REF, model, on_miss="error")
    loaded = farm.load(REF, model)
    assert loaded.state == "eager"
    assert "tests.release_models" in loaded.reason
    x = torch.randn(4, 8)
    assert torch.equal(loaded(x), model(x))


def test_publishing_what_is_there_compiles_nothing_and_changes_nothing(
    farm: Farm, release: release_pb2.Release
) -> None:
    model = Net().eval()
    compiled = farm.status().compiled
    draft = farm.release(f"{NAME}@again")
    assert draft.add(model, (torch.randn(4, 8),)).wait_for_lookup()
    made = draft.publish(60)
    assert made.entries[0].digest == release.entries[0].digest
    assert farm.status().compiled == compiled
    other = farm.release(REF)
    other.add(model, (torch.randn(4, 8),))
    with pytest.raises(InvalidReleaseError, match="choose another revision"):
        other.publish(60)


def test_a_name_alone_is_what_was_pinned(farm: Farm, release: release_pb2.Release) -> None:
    farm.release(f"{NAME}@2").add(Net().eval(), (torch.randn(4, 8),))
    draft = farm.release(f"{NAME}@2")
    draft.add(Net().eval(), (torch.randn(4, 8),))
    draft.publish(60)
    farm.pin(NAME, "1")
    assert farm.load(NAME, Net().eval()).release == REF
    farm.pin(NAME, "2")
    assert farm.load(NAME, Net().eval()).release == f"{NAME}@2"
    assert farm.rollback(NAME) == ("1", "2")
    assert farm.load(NAME, Net().eval()).release == REF


def test_what_is_not_there_is_said_so(farm: Farm, release: release_pb2.Release) -> None:
    with pytest.raises(ReleaseNotFoundError, match="none@1"):
        farm.load("none@1", Net().eval(), on_miss="error")
    with pytest.raises(ReleaseNotFoundError, match="no component 'unet'"):
        farm.load(REF, Net().eval(), component="unet", on_miss="error")
    with pytest.raises(InvalidReleaseError, match="no release's name"):
        farm.load("No Name", Net().eval())
    assert farm.load("none@1", Net().eval()).state == "eager"


def test_a_host_of_another_kind_gets_nothing(
    farm: Farm, release: release_pb2.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPILE_FARM_ISA", "x86-64-v2")
    with pytest.raises(TargetMismatchError, match="it needs a CPU of level x86-64-v"):
        farm.load(REF, Net().eval(), on_miss="error")


@torch.no_grad()
def test_a_warm_cache_starts_without_the_farm(
    farm_server: RunningFarm, release: release_pb2.Release, tmp_path: Path
) -> None:
    """Offline, and with a farm that is away; a cold one says what to do."""
    with Farm(farm_server.address, cache_dir=tmp_path) as farm:
        assert farm.prefetch(REF).wait(60) == len(release.entries)
        farm.pin(NAME, "1")
        farm.resolve(NAME)
    model, x = Net().eval(), torch.randn(4, 8)
    with Farm(farm_server.address, cache_dir=tmp_path, offline=True) as farm:
        for ref in (REF, NAME):
            loaded = farm.load(ref, model, on_miss="error")
            assert _same(loaded(x), model(x))
    with (
        Farm(farm_server.address, cache_dir=tmp_path / "cold", offline=True) as farm,
        pytest.raises(FarmUnavailableError, match="offline"),
    ):
        farm.load(REF, model, on_miss="error")


HOST = """
import json, sys, torch
from compile_farm import Farm
from compile_farm.transport import Transport
from tests.release_models import Net

fetched, read = [], Transport.read

def counted(self, ref):
    fetched.append(ref.digest)
    return read(self, ref)

Transport.read = counted
with torch.no_grad(), Farm(sys.argv[1]) as farm:
    model = Net().eval()
    loaded = farm.load(sys.argv[2], model, on_miss="error")
    x = torch.randn(4, 8)
    error = (loaded(x) - model(x)).abs().max().item()
slow = [name for name in sys.modules if name.startswith(("torch._dynamo.eval", "torch._inductor"))]
print(json.dumps([error, slow, fetched]))
"""


@pytest.mark.slow
def test_eight_processes_fetch_each_artifact_once(
    farm_server: RunningFarm, release: release_pb2.Release, tmp_path: Path
) -> None:
    """Started at once on an empty cache; none of them traces or compiles."""
    env = {**os.environ, "COMPILE_FARM_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", HOST, farm_server.address, REF]
    hosts = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]
    answers = [host.communicate(timeout=240)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0] * 8
    fetched: list[str] = []
    for answer in answers:
        error, slow, digests = json.loads(answer)
        assert error < 1e-6
        assert slow == []
        fetched += digests
    assert sorted(fetched) == sorted({entry.digest for entry in release.entries})


def test_the_command_line(
    farm_server: RunningFarm,
    release: release_pb2.Release,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COMPILE_FARM_URL", farm_server.address)
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "cache"))
    factory = tmp_path / "cli_net.py"
    factory.write_text(
        "import torch\nfrom tests.release_models import Net\n"
        "def make():\n    return Net().eval(), (torch.ones(4, 8),)\n"
    )
    name = "tests-cli"
    for revision in ("1", "2"):
        assert main(["release", "publish", f"{name}@{revision}", f"{factory}:make"]) == 0
        assert f"published {name}@{revision}: 1 artifacts" in capsys.readouterr().out
    assert main(["release", "list", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["RELEASE", f"{name}@2", f"{name}@1"]
    assert main(["release", "show", f"{name}@1"]) == 0
    shown = capsys.readouterr().out
    assert "tests.release_models" in shown
    assert release.entries[0].digest[:16] in shown
    assert main(["release", "diff", f"{name}@1", f"{name}@2"]) == 0
    assert main(["release", "diff", f"{name}@1", REF]) == 1
    assert "+ decode" in capsys.readouterr().out
    assert main(["release", "pin", f"{name}@1"]) == 0
    assert main(["release", "pin", f"{name}@2"]) == 0
    assert main(["release", "rollback", name]) == 0
    assert f"{name} means {name}@1 from now on" in capsys.readouterr().out
    assert main(["release", "rollback", f"{name}@1"]) == 2
    assert main(["release", "show", "none@1"]) == 1
    assert main(["release", "show", "No Name"]) == 1
    assert main(["prefetch", name]) == 0
    assert f"1 artifacts of {name}" in capsys.readouterr().out
