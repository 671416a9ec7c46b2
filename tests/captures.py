"""Small captures, built by hand or from small models, for the tests of several rooms."""

from __future__ import annotations

from collections.abc import Callable

from compile_farm.v1 import graph_pb2, target_pb2


def expr(value: int | str) -> graph_pb2.Expr:
    """A number, or a symbol written "s0"."""
    if isinstance(value, str):
        return graph_pb2.Expr(symbol=int(value[1:]))
    return graph_pb2.Expr(constant=value)


def tensor(
    *sizes: int | str, dtype: str = "float32", strides: tuple[int | str, ...] | None = None
) -> graph_pb2.TensorSpec:
    """A contiguous tensor on the CPU; give ``strides`` where sizes are symbols."""
    if strides is None:
        steps: list[int | str] = []
        step = 1
        for size in reversed(sizes):
            steps.insert(0, step)
            step *= size if isinstance(size, int) else 1
        strides = tuple(steps)
    return graph_pb2.TensorSpec(
        dtype=dtype,
        device_type="cpu",
        sizes=[expr(size) for size in sizes],
        strides=[expr(stride) for stride in strides],
    )


def value(index: int) -> graph_pb2.Argument:
    """The result of an input or node."""
    return graph_pb2.Argument(value=index)


def user_input(spec: graph_pb2.TensorSpec, name: str = "") -> graph_pb2.Input:
    """An argument of the model."""
    return graph_pb2.Input(name=name, role=graph_pb2.ROLE_USER_INPUT, tensor=spec)


def capture_of(
    inputs: list[graph_pb2.Input],
    nodes: list[graph_pb2.Node],
    outputs: list[int],
    output_specs: list[graph_pb2.TensorSpec],
    symbols: list[graph_pb2.Symbol] | None = None,
) -> graph_pb2.Capture:
    """A capture of these parts, without a calling convention."""
    return graph_pb2.Capture(
        graph=graph_pb2.Graph(
            schema_version=1,
            input_count=len(inputs),
            nodes=nodes,
            outputs=[value(index) for index in outputs],
        ),
        signature=graph_pb2.Signature(
            symbols=symbols or [],
            inputs=inputs,
            outputs=[graph_pb2.Output(tensor=spec) for spec in output_specs],
        ),
    )


def add_capture(rows: int = 4, dtype: str = "float32") -> graph_pb2.Capture:
    """x + y on ``rows`` by 4."""
    spec = tensor(rows, 4, dtype=dtype)
    node = graph_pb2.Node(op="aten::add.Tensor", args=[value(0), value(1)])
    return capture_of([user_input(spec, "x"), user_input(spec, "y")], [node], [2], [spec])


def diamond_capture() -> graph_pb2.Capture:
    """sin(x) * cos(x): two nodes that don't depend on each other."""
    spec = tensor(4, 4)
    nodes = [
        graph_pb2.Node(op="aten::sin.default", args=[value(0)]),
        graph_pb2.Node(op="aten::cos.default", args=[value(0)]),
        graph_pb2.Node(op="aten::mul.Tensor", args=[value(1), value(2)]),
    ]
    return capture_of([user_input(spec, "x")], nodes, [3], [spec])


def dynamic_capture(minimum: int = 1, maximum: int | None = 64) -> graph_pb2.Capture:
    """relu(x) on s0 by 4."""
    symbol = graph_pb2.Symbol(minimum=minimum, hint=8)
    if maximum is not None:
        symbol.maximum = maximum
    spec = tensor("s0", 4, strides=(4, 1))
    node = graph_pb2.Node(op="aten::relu.default", args=[value(0)])
    return capture_of([user_input(spec, "x")], [node], [1], [spec], [symbol])


def chain_capture(length: int) -> graph_pb2.Capture:
    """``length`` calls of sin, one after the other."""
    spec = tensor(4, 4)
    nodes = [graph_pb2.Node(op="aten::sin.default", args=[value(index)]) for index in range(length)]
    return capture_of([user_input(spec, "x")], nodes, [length], [spec])


def target(**changes: str) -> target_pb2.Target:
    """A CPU target; ``isa`` and the toolchain's fields may be given."""
    isa = changes.pop("isa", "x86-64-v3")
    toolchain = {"torch": "2.13.0+cpu", "torch_git": "cf30153", "platform": "linux-x86_64"}
    return target_pb2.Target(
        cpu=target_pb2.CpuHardware(isa=isa),
        toolchain=target_pb2.Toolchain(**{**toolchain, **changes}),
    )


def options(
    effort: target_pb2.Effort = target_pb2.EFFORT_FAST,
    numerics: target_pb2.Numerics = target_pb2.NUMERICS_STRICT,
) -> target_pb2.Options:
    """What a client asks for by default."""
    return target_pb2.Options(effort=effort, numerics=numerics)


Change = Callable[[graph_pb2.Capture], None]
