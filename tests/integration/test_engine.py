"""The engine through a real farm: what an artifact holds, and what is found before storing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from compile_farm import Farm
from compile_farm.errors import CompileFailedError
from compile_farm.targets import host_target
from compile_farm.v1 import graph_pb2
from tests import captures
from tests.farms import RunningFarm


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8)).eval()


def test_an_artifact_holds_no_weights_no_paths_and_no_sources(
    farm: Farm, farm_server: RunningFarm
) -> None:
    model = _model()
    for weight in model.parameters():
        nn.init.normal_(weight)  # zeros and ones stand everywhere
    artifact = farm.submit(model, (torch.randn(4, 16),)).result(280)
    assert {path.name for path in artifact.folder.iterdir()} == {
        "manifest.pb",
        "signature.pb",
        "model.so",
    }
    everything = b"".join(path.read_bytes() for path in artifact.folder.iterdir())
    for weight in model.state_dict().values():
        data = weight.numpy().tobytes()
        assert not any(data[at : at + 16] in everything for at in range(0, len(data) - 15, 16))
    for prefix in (str(farm_server.data_dir), str(Path.home()), str(Path(torch.__file__).parent)):
        assert prefix.encode() not in everything
    assert re.findall(rb"/(?:home|root|tmp)/[\x21-\x7e]+", everything) == []
    assert b"#include" not in everything


def test_the_manifest_tells_what_was_done(farm: Farm) -> None:
    model, x = _model(), torch.randn(4, 16)
    manifest = farm.submit(model, (x,)).result(280).manifest
    assert manifest.target == host_target("cpu")
    assert manifest.verification.reference_precision == "float64"
    assert len(manifest.verification.runs) == 2
    assert all(run.error <= run.bound for run in manifest.verification.runs)
    assert {stage.stage for stage in manifest.stages} >= {"decode", "lower", "verify"}
    fused = {op for kernel in manifest.report.kernels for op in kernel.ops}
    assert any("addmm" in op for op in fused)
    assert any("erf" in op for op in fused)
    assert manifest.report.peak_bytes_planned > 0
    assert manifest.report.buffers_allocated > 0


def test_both_ends_of_a_dynamic_range_and_its_middle_are_verified(farm: Farm) -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    artifact = farm.submit(_model(), (torch.randn(8, 16),), dynamic_shapes=({0: batch},)).result(
        280
    )
    assert [list(run.symbols) for run in artifact.manifest.verification.runs] == [
        [8],
        [8],
        [1],
        [64],
        [33],
    ]


def test_tuning_records_candidates_and_chooses_one(farm: Farm) -> None:
    model, x = _model(), torch.randn(4, 16)
    artifact = farm.submit(model, (x,), effort="tuned").result(280)
    report = artifact.manifest.report
    assert report.measured_by == "calls"
    assert len(report.candidates) > 1
    assert sum(candidate.chosen for candidate in report.candidates) == 1
    assert all(one.median_seconds > 0 or one.rejected for one in report.candidates)
    torch.testing.assert_close(artifact.bind(model)(x), model(x))


def test_dropout_draws_as_eager_does(farm: Farm) -> None:
    model, x = nn.Dropout(0.5).train(), torch.ones(64)
    run = farm.submit(model, (x,)).result(280).bind(model)
    torch.manual_seed(7)
    given = run(x)
    torch.manual_seed(7)
    assert torch.equal(given, model(x))


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("aten::no_such_operator.default", "has no operator"),
        ("mylib::op.default", "not allowed"),
        ("higher_order::run_anything", "not allowed"),
        ("python::system", "not allowed"),
    ],
)
def test_operators_outside_the_allow_list_are_refused(farm: Farm, op: str, words: str) -> None:
    capture = captures.add_capture()
    capture.graph.nodes[0].op = op
    with pytest.raises(CompileFailedError, match=words) as caught:
        farm.compile(capture, "cpu").result(120)
    assert caught.value.reason == "unsupported"
    assert caught.value.failure.stage == "decode"


def test_wrong_arguments_are_the_jobs_failure_alone(farm: Farm) -> None:
    capture = captures.add_capture()
    capture.graph.nodes[0].args.add(text="what?")
    with pytest.raises(CompileFailedError) as caught:
        farm.compile(capture, "cpu").result(120)
    assert caught.value.reason in ("compiler_error", "unsupported")
    assert caught.value.message
    assert farm.compile(captures.add_capture(), "cpu").result(120).manifest


def _writing_capture(declared: bool) -> graph_pb2.Capture:
    """relu(x), and then x += 1."""
    capture = captures.dynamic_capture(2, 4)
    capture.signature.inputs[0].mutated = declared
    capture.graph.nodes.append(
        graph_pb2.Node(
            op="aten::add_.Scalar",
            args=[captures.value(0), graph_pb2.Argument(integer=1)],
            effect=graph_pb2.EFFECT_MUTATES,
        )
    )
    return capture


def test_a_declared_write_is_compiled(farm: Farm) -> None:
    artifact = farm.compile(_writing_capture(declared=True), "cpu").result(120)
    assert artifact.manifest.signature.inputs[0].mutated


def test_an_undeclared_write_is_found(farm: Farm) -> None:
    """The same graph without saying that it writes to its input: the artifact is not stored."""
    with pytest.raises(CompileFailedError, match="writes to the input") as caught:
        farm.compile(_writing_capture(declared=False), "cpu").result(120)
    assert caught.value.reason == "verification_failed"


def test_a_graph_of_1500_operators(farm: Farm) -> None:
    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for index in range(1500):
                x = torch.sin(x) + 0.001 * index
            return x

    x = torch.randn(16)
    run = farm.submit(Chain(), (x,)).result(280).bind(Chain())
    torch.testing.assert_close(run(x), Chain()(x))
