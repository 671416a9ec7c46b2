"""What reads bytes from strangers, each as a check: it succeeds or raises the project's own errors.

In: bytes, altered or not. Out: how far they came; AssertionError, or whatever escaped, if anything
but a typed error came out.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import torch
from google.protobuf.message import DecodeError
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

from compile_farm.artifact import manifest_of, parse_manifest, unpack
from compile_farm.capture.ops import HIGHER_ORDER, NAMESPACES, PYTHON_FUNCTIONS
from compile_farm.errors import ArtifactError, CompileFarmError, InvalidGraphError
from compile_farm.key import compute_key
from compile_farm.runtime.arguments import Arguments
from compile_farm.runtime.checks import CheckCompiler
from compile_farm.runtime.loaded import finisher
from compile_farm.runtime.trees import compile_build
from compile_farm.schema import parse_capture
from compile_farm.summary import summarize
from compile_farm.trust import TrustStore
from compile_farm.v1 import artifact_pb2, compiler_pb2
from compiler_service.engine.decode import DecodedGraph, decode
from compiler_service.engine.errors import EngineError
from compiler_service.engine.expressions import SYMBOLIC
from compiler_service.errors import ServiceError
from tests.captures import options, target
from tests.fuzz.gateway import first_event, gateway_instance
from tests.loadable import PUBLIC_KEY

CPU = torch.device("cpu")
_FUNCTIONS = frozenset(PYTHON_FUNCTIONS.values()) | frozenset(SYMBOLIC.values())


def _readable(error: Exception) -> None:
    assert 0 < len(str(error)) < 20_000, str(error)[:200]


def check_capture_bytes(data: bytes) -> str:
    """The schema, the key, and decoding into a graph on fake tensors."""
    try:
        capture = parse_capture(data)
    except InvalidGraphError:
        return "refused"
    assert len(compute_key(capture, target(), options())) == 64
    summarize(capture.graph)
    try:
        decoded = decode(capture, CPU)
    except (InvalidGraphError, EngineError) as error:
        _readable(error)
        return "not decoded"
    assert_allowed(decoded)
    return "decoded"


def assert_allowed(decoded: DecodedGraph) -> None:
    """Nothing is called, or handed to a call, but operators of the allow-list."""
    for module in decoded.module.modules():
        if not isinstance(module, fx.GraphModule):
            continue
        for node in module.graph.nodes:
            assert node.op in ("placeholder", "get_attr", "call_function", "output"), node.op
            if node.op == "get_attr":
                assert isinstance(getattr(module, node.target), fx.GraphModule)
            if node.op == "call_function":
                assert _is_allowed(node.target), node.target
            fx.node.map_aggregate((node.args, node.kwargs), _assert_plain)


def _assert_plain(value: Any) -> Any:
    plain = (fx.Node, bool, int, float, complex, str, type(None))
    plain = (*plain, torch.dtype, torch.device, torch.layout, torch.memory_format)
    assert isinstance(value, plain) or _is_allowed(value), value
    return value


def _is_allowed(value: Any) -> bool:
    if isinstance(value, OpOverload):
        return value.namespace in NAMESPACES
    if isinstance(value, HigherOrderOperator):
        return value.name() in HIGHER_ORDER
    return any(value is function for function in _FUNCTIONS)


def check_artifact_bytes(data: bytes) -> str:
    """Taking the zip apart, with and without its signature looked at, and binding."""
    for verify in (None, TrustStore([PUBLIC_KEY]).verify):
        try:
            found = unpack(data, verify)
        except ArtifactError as error:
            _readable(error)
            continue
        # What is altered and still verified is altered where it means nothing.
        if verify is not None:
            bind_interface(found.manifest)
            return "verified"
    try:
        manifest_of(data)
    except ArtifactError:
        return "refused"
    return "readable"


def check_manifest_bytes(data: bytes) -> str:
    """The manifest, and all that is compiled from it when an artifact is bound."""
    try:
        manifest = parse_manifest(data)
    except ArtifactError:
        return "refused"
    return bind_interface(manifest)


def bind_interface(manifest: artifact_pb2.Manifest) -> str:
    """The check of inputs, arguments and results, as BoundModel makes them."""
    signature, convention = manifest.signature, manifest.calling_convention
    made = 0
    for make in (
        lambda: CheckCompiler(
            signature, manifest.compiled_inputs, range(len(signature.inputs)), [], CPU
        ).compile(),
        lambda: Arguments(convention, torch.nn.Identity().forward),
        lambda: compile_build(convention.result) if convention.HasField("result") else None,
        lambda: finisher(manifest, []),
    ):
        try:
            make()  # type: ignore[no-untyped-call]
            made += 1
        except CompileFarmError as error:
            _readable(error)
    return f"made {made}"


_gateway = functools.cache(gateway_instance)


@functools.cache
def _loop() -> asyncio.Runner:
    return asyncio.Runner()


def check_request_bytes(data: bytes) -> str:
    """A CompileRequest, up to where the dispatcher would get it."""
    request = compiler_pb2.CompileRequest()
    try:
        request.ParseFromString(data)
    except DecodeError:
        return "no message"  # gRPC answers
    try:
        _loop().run(first_event(_gateway(), request))
    except ServiceError as error:
        _readable(error)
        return "refused"
    return "taken"
