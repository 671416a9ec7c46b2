"""The whole way on a CUDA GPU: compile, load, run, mutate, refuse, tune."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import compile_farm
from compile_farm import Farm
from compile_farm.errors import BindError, InputMismatchError
from compile_farm.targets import host_target
from tests.comparing import differences
from tests.farms import RunningFarm, start_farm

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU here"),
]

# Of bfloat16 results by norm, several roundings of 2**-8 deep.
LOW_PRECISION = 3e-2


@pytest.fixture(scope="module")
def cuda_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFarm]:
    running = start_farm(tmp_path_factory.mktemp("farm"), device="cuda:0")
    yield running
    running.stop()
    assert running.process.stdout is not None
    running.process.stdout.close()


@pytest.fixture
def cuda_farm(cuda_server: RunningFarm, tmp_path: Path) -> Iterator[Farm]:
    with Farm(cuda_server.address, cache_dir=tmp_path / "cache") as client:
        yield client


def _mlp(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 32))
    return layers.to("cuda", dtype).eval()


def _x(rows: int = 8, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(rows, 64, device="cuda", dtype=dtype)


class Attention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Cache(nn.Module):
    """Writes a row of a buffer at a position, as a decoder writes its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(16, 8, device="cuda"))

    def forward(self, position: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(0, position, key)
        return self.keys.sum(0)


@torch.no_grad()
def test_one_artifact_serves_a_range_of_batches(cuda_farm: Farm) -> None:
    model = _mlp()
    batch = torch.export.Dim("batch", min=1, max=64)
    artifact = cuda_farm.submit(model, (_x(),), dynamic_shapes=({0: batch},)).result(280)
    assert artifact.manifest.target == host_target("cuda")
    run = artifact.bind(model)
    for rows in (1, 2, 5, 64):
        x = _x(rows)
        assert differences(run(x), model(x)) == []
    with pytest.raises(InputMismatchError, match="1 to 64"):
        run(_x(65))
    with pytest.raises(InputMismatchError, match="is on cpu"):
        run(_x().cpu())


@torch.no_grad()
def test_bfloat16_and_other_weights(cuda_farm: Farm) -> None:
    model = _mlp(torch.bfloat16)
    x = _x(dtype=torch.bfloat16)
    run = cuda_farm.submit(model, (x,)).result(280).bind(model)
    assert differences(run(x), model(x), LOW_PRECISION) == []
    for parameter in model.parameters():
        parameter.mul_(1.5)
    assert differences(run(x), model(x), LOW_PRECISION) == []


@torch.no_grad()
def test_a_model_on_the_cpu_is_refused(cuda_farm: Farm) -> None:
    model = _mlp()
    artifact = cuda_farm.submit(model, (_x(),)).result(280)
    with pytest.raises(BindError, match="is on cpu"):
        artifact.bind(copy.deepcopy(model).cpu())


@torch.no_grad()
def test_attention(cuda_farm: Farm) -> None:
    q, k, v = (torch.randn(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    model = Attention()
    run = cuda_farm.submit(model, (q, k, v)).result(280).bind(model)
    assert differences(run(q, k, v), model(q, k, v), LOW_PRECISION) == []


@torch.no_grad()
def test_a_product_of_an_odd_width_keeps_eagers_strides(cuda_farm: Farm) -> None:
    model = nn.Linear(1024, 500, device="cuda", dtype=torch.bfloat16).eval()
    x = torch.randn(2048, 1024, device="cuda", dtype=torch.bfloat16)
    given = cuda_farm.submit(model, (x,)).result(280).bind(model)(x)
    assert given.stride() == model(x).stride()
    assert differences(given, model(x), LOW_PRECISION) == []


@torch.no_grad()
def test_a_buffer_is_written_in_place(cuda_farm: Farm) -> None:
    model, reference = Cache(), Cache()
    position, key = torch.tensor([3], device="cuda"), torch.randn(1, 8, device="cuda")
    run = cuda_farm.submit(copy.deepcopy(model), (position, key)).result(280).bind(model)
    assert differences(run(position, key), reference(position, key)) == []
    assert torch.equal(model.keys, reference.keys)


@torch.no_grad()
def test_a_misaligned_input_gives_equal_numbers(cuda_farm: Farm) -> None:
    model = _mlp()
    run = cuda_farm.submit(model, (_x(),)).result(280).bind(model)
    x = torch.randn(8 * 64 + 1, device="cuda")[1:].view(8, 64)
    assert x.data_ptr() % 16
    assert differences(run(x), model(x)) == []


def test_the_torch_compile_way(cuda_server: RunningFarm, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("COMPILE_FARM_CACHE", str(tmp_path / "cache"))
    torch._dynamo.reset()
    model, x = _mlp(), _x()
    options = {"url": cuda_server.address, "on_miss": "wait", "timeout": 280.0}
    with torch.no_grad():
        run = torch.compile(model, backend="compile_farm", options=options)
        assert differences(run(x), model(x)) == []
    graph = compile_farm.compiled_graphs()[-1]
    assert (graph.state, graph.fallbacks) == ("ready", 0)


@torch.no_grad()
def test_tuning_measures_whole_graphs(cuda_farm: Farm) -> None:
    model, x = _mlp(torch.bfloat16), _x(dtype=torch.bfloat16)
    artifact = cuda_farm.submit(model, (x,), effort="tuned").result(580)
    report = artifact.manifest.report
    assert report.measured_by == "cuda graph"
    assert len(report.candidates) > 1
    assert sum(candidate.chosen for candidate in report.candidates) == 1
    assert all(one.measurements > 0 or one.rejected for one in report.candidates)
    assert differences(artifact.bind(model)(x), model(x), LOW_PRECISION) == []


@torch.no_grad()
def test_threads_and_streams(cuda_farm: Farm) -> None:
    model = _mlp()
    run = cuda_farm.submit(model, (_x(),)).result(280).bind(model)
    inputs = [_x() for _ in range(8)]
    expected = [model(x) for x in inputs]
    torch.cuda.synchronize()
    problems: list[str] = []

    def work(index: int) -> None:
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                given = run(inputs[index])
                torch.cuda.current_stream().synchronize()
                problems.extend(differences(given, expected[index]))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


@torch.no_grad()
def test_no_path_of_the_compiling_host_stays(cuda_farm: Farm) -> None:
    artifact = cuda_farm.submit(_mlp(), (_x(),)).result(280)
    code = (artifact.folder / "model.so").read_bytes()
    assert re.findall(rb"/(?:home|root|tmp|work|opt|usr/lib/python)[\x21-\x7e]*", code) == []


@torch.no_grad()
def test_the_self_test_and_the_cure(tmp_path: Path) -> None:
    from compiler_service.worker.doctor import run_doctor
    from tests.farms import prepare_worker_dir

    report = run_doctor("cuda:0", prepare_worker_dir(tmp_path / "worker"))
    assert report.passed, report.checks
    assert any("sm_" in check.detail for check in report.checks)


def test_a_process_may_end_while_the_gpus_libraries_start() -> None:
    code = (
        "import torch\n"
        "from compile_farm.runtime.preheat import preheat_for_model\n"
        "preheat_for_model(torch.nn.Linear(4, 4, device='cuda'))"
    )
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
