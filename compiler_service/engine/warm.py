"""Pays the one-time costs before the first job: imports, compile workers, precompiled headers.

60 of the first 70 seconds of an AOTInductor compile, even of two layers, are spent on these.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch._inductor import codecache
from torch._inductor.runtime.cache_dir_utils import cache_dir

from compile_farm.key import compute_key
from compile_farm.v1 import graph_pb2, sandbox_pb2, target_pb2
from compiler_service.engine.compile import StageListener, compile_capture
from compiler_service.engine.leftovers import remove_interrupted


def warm_up(target: target_pb2.Target, on_stage: StageListener = lambda _: None) -> None:
    """Compiles, loads and verifies a small graph for ``target``; raises EngineError.

    ``on_stage`` hears how far it came, which matters where loading it ends the process.
    """
    torch.set_grad_enabled(False)
    _keep_headers()
    remove_interrupted(Path(cache_dir()))
    with tempfile.TemporaryDirectory(prefix="warm-up-") as folder:
        compile_capture(small_request(target, Path(folder)), on_stage)


def _keep_headers() -> None:
    """Puts precompiled headers, half of the one-time costs, with the caches that outlive us.

    torch puts them into the folder for temporary files, which a worker empties with each child.
    """
    folder = Path(cache_dir()) / "precompiled_headers"
    codecache._HEADER_DIR = str(folder)
    codecache._HEADER_LOCK_DIR = str(folder / "locks")


def small_request(target: target_pb2.Target, output: Path) -> sandbox_pb2.SandboxCompile:
    """sin(x @ w + b) on 8 by 8 floats: a matrix product, a fused kernel and a broadcast."""
    capture = small_capture("cuda" if target.WhichOneof("hardware") == "cuda" else "cpu")
    options = target_pb2.Options(effort=target_pb2.EFFORT_FAST, numerics=target_pb2.NUMERICS_STRICT)
    return sandbox_pb2.SandboxCompile(
        job_id="warm-up",
        key=compute_key(capture, target, options),
        capture=capture.SerializeToString(),
        target=target,
        options=options,
        output_dir=str(output),
    )


def small_capture(device_type: str) -> graph_pb2.Capture:
    """The graph of ``small_request``; inputs x and w of 8 by 8, b of 8."""

    def tensor(*sizes: int) -> graph_pb2.TensorSpec:
        strides = [8, 1][-len(sizes) :]
        return graph_pb2.TensorSpec(
            dtype="float32",
            device_type=device_type,
            sizes=[graph_pb2.Expr(constant=size) for size in sizes],
            strides=[graph_pb2.Expr(constant=stride) for stride in strides],
        )

    def value(index: int) -> graph_pb2.Argument:
        return graph_pb2.Argument(value=index)

    graph = graph_pb2.Graph(
        schema_version=1,
        input_count=3,
        nodes=[
            graph_pb2.Node(op="aten::mm.default", args=[value(0), value(1)]),
            graph_pb2.Node(op="aten::add.Tensor", args=[value(3), value(2)]),
            graph_pb2.Node(op="aten::sin.default", args=[value(4)]),
        ],
        outputs=[value(5)],
    )
    user, parameter = graph_pb2.ROLE_USER_INPUT, graph_pb2.ROLE_PARAMETER
    signature = graph_pb2.Signature(
        inputs=[
            graph_pb2.Input(name="x", role=user, tensor=tensor(8, 8)),
            graph_pb2.Input(name="w", role=parameter, tensor=tensor(8, 8)),
            graph_pb2.Input(name="b", role=parameter, tensor=tensor(8)),
        ],
        outputs=[graph_pb2.Output(tensor=tensor(8, 8))],
    )
    leaf = graph_pb2.Tree(leaf=graph_pb2.Leaf(input=0))
    container = graph_pb2.Container(kind=graph_pb2.CONTAINER_KIND_TUPLE, children=[leaf])
    convention = graph_pb2.CallingConvention(
        parameters=["x"],
        args=graph_pb2.Tree(container=container),
        kwargs=graph_pb2.Tree(container=graph_pb2.Container(kind=graph_pb2.CONTAINER_KIND_DICT)),
        result=graph_pb2.Tree(leaf=graph_pb2.Leaf(output=0)),
    )
    return graph_pb2.Capture(graph=graph, signature=signature, calling_convention=convention)
