"""Single inputs made to exhaust whoever reads them, each read in a process of its own.

``python -m tests.fuzz.hostile NAME`` builds the bytes, then reads them as a farm or a host would.
It prints the typed error that came out ("none" if it was taken), and how many bytes of memory were
taken at most while reading. Anything else that is raised ends it with a traceback.
"""

from __future__ import annotations

import asyncio
import io
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import zstandard

from compile_farm.artifact import digest_of, parse_manifest, unpack
from compile_farm.errors import CompileFarmError
from compile_farm.key import compute_key
from compile_farm.schema import check_capture, check_interface, parse_capture
from compile_farm.v1 import artifact_pb2, compiler_pb2, graph_pb2
from compiler_service.engine.errors import EngineError
from compiler_service.errors import ServiceError
from tests import captures
from tests.fuzz.gateway import first_event, gateway_instance

# What reads the bytes; building them is not measured.
Read = Callable[[], object]

CASES: dict[str, Callable[[], Read]] = {}


def _case(build: Callable[[], Read]) -> Callable[[], Read]:
    CASES[build.__name__] = build
    return build


def _field(number: int, body: bytes) -> bytes:
    """A field with a length, as protobuf writes it. By hand: its own writer refuses what is nested
    too deep."""
    out = bytearray([number << 3 | 2])
    length = len(body)
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes(out) + bytes([length]) + body


def _reads(capture: graph_pb2.Capture) -> Read:
    return _reads_bytes(capture.SerializeToString())


def _reads_bytes(data: bytes) -> Read:
    """As the gateway reads it: the schema, then the key."""
    return lambda: compute_key(parse_capture(data), captures.target(), captures.options())


def _decodes(capture: graph_pb2.Capture) -> Read:
    """As the worker reads it, after that. Only what the schema takes needs torch."""
    import torch

    from compiler_service.engine.decode import decode

    reads, data = _reads(capture), capture.SerializeToString()

    def read() -> None:
        reads()
        decode(parse_capture(data), torch.device("cpu"))

    return read


@_case
def a_million_nodes() -> Read:
    node = graph_pb2.Node(op="aten::sin.default", args=[captures.value(0)]).SerializeToString()
    body = captures.add_capture().SerializeToString()
    return _reads_bytes(body + _field(1, _field(3, node) * 1_000_000))


@_case
def thirty_million_empty_nodes() -> Read:
    return _reads_bytes(_field(1, _field(3, b"") * 30_000_000))


@_case
def thirty_million_empty_inputs() -> Read:
    return _reads_bytes(_field(2, _field(2, b"") * 30_000_000))


@_case
def thirty_million_empty_arguments() -> Read:
    return _reads_bytes(_field(1, _field(3, _field(2, b"") * 30_000_000)))


@_case
def just_under_the_number_of_parts() -> Read:
    return _reads_bytes(_field(2, _field(2, b"") * 2_990_000))


@_case
def an_expression_10000_deep() -> Read:
    body = bytes([1 << 3, 2])
    for _ in range(10_000):
        body = _field(3, bytes([1 << 3, 1]) + _field(2, body))
    return _reads_bytes(_field(2, _field(2, _field(3, _field(3, body)))))


@_case
def a_list_10000_deep() -> Read:
    body = bytes([3 << 3, 1])
    for _ in range(10_000):
        body = _field(12, _field(1, body))
    return _reads_bytes(_field(1, _field(3, _field(2, body))))


@_case
def a_tree_10000_deep() -> Read:
    body = _field(1, bytes([1 << 3, 0]))
    for _ in range(10_000):
        body = _field(2, bytes([1 << 3, 1]) + _field(4, body))
    return _reads_bytes(_field(3, _field(4, body)))


@_case
def a_list_60_deep_made_here() -> Read:
    capture = captures.add_capture()
    argument = capture.graph.nodes[0].args.add()
    for _ in range(60):
        argument = argument.list.items.add()
    argument.integer = 1
    return lambda: check_capture(capture)


@_case
def a_tree_10000_deep_made_here() -> Read:
    convention = graph_pb2.CallingConvention()
    tree = convention.result
    for _ in range(10_000):
        tree.container.kind = graph_pb2.CONTAINER_KIND_LIST
        tree = tree.container.children.add()
    tree.leaf.output = 0
    return lambda: check_interface(captures.add_capture().signature, convention)


@_case
def a_chain_of_subgraphs() -> Read:
    capture = captures.add_capture()
    graph = capture.graph
    for _ in range(20):
        graph = graph.subgraphs.add(schema_version=1)
    return _reads(capture)


@_case
def a_subgraph_that_calls_itself() -> Read:
    capture = captures.add_capture()
    capture.graph.subgraphs.add(schema_version=1, input_count=1).nodes.add(
        op="higher_order::invoke_subgraph", args=[graph_pb2.Argument(subgraph=0)]
    )
    return _reads(capture)


@_case
def many_subgraphs_with_many_inputs() -> Read:
    capture = captures.add_capture()
    for _ in range(5_000):
        capture.graph.subgraphs.add(schema_version=1, input_count=50_000)
    return _reads(capture)


@_case
def a_node_that_takes_itself() -> Read:
    capture = captures.add_capture()
    capture.graph.nodes[0].args[0].value = 2
    return _reads(capture)


@_case
def a_size_of_2_to_the_62() -> Read:
    capture = captures.add_capture()
    capture.signature.inputs[0].tensor.sizes[0].constant = 2**62
    return _reads(capture)


@_case
def sizes_whose_product_overflows() -> Read:
    capture = captures.add_capture()
    for size in capture.signature.inputs[0].tensor.sizes:
        size.constant = 2**33
    return _reads(capture)


@_case
def strides_whose_reach_overflows() -> Read:
    capture = captures.add_capture()
    capture.signature.inputs[0].tensor.strides[0].constant = 2**61
    return _reads(capture)


def _power(base: graph_pb2.Expr, exponent: int) -> graph_pb2.Expr:
    made = graph_pb2.Expr()
    made.operation.operator = graph_pb2.OPERATOR_POWER
    made.operation.operands.extend([base, graph_pb2.Expr(constant=exponent)])
    return made


@_case
def a_size_to_the_power_of_2_to_the_62() -> Read:
    capture = captures.dynamic_capture()
    capture.signature.outputs[0].tensor.sizes[0].CopyFrom(_power(captures.expr(3), 2**62))
    return _reads(capture)


@_case
def a_tower_of_powers() -> Read:
    capture, size = captures.dynamic_capture(), captures.expr("s0")
    for _ in range(20):
        size = _power(size, 8)
    capture.signature.inputs[0].tensor.sizes[1].CopyFrom(size)
    return _reads(capture)


@_case
def a_size_that_overflows_when_it_is_computed() -> Read:
    capture = captures.add_capture()
    size = capture.signature.inputs[0].tensor.sizes[0]
    size.operation.operator = graph_pb2.OPERATOR_MULTIPLY
    size.operation.operands.extend([captures.expr(2**62)] * 4)
    return _decodes(capture)


@_case
def a_hundred_thousand_inputs() -> Read:
    spec = captures.tensor(1)
    inputs = [captures.user_input(spec, f"x{index}") for index in range(100_000)]
    return _reads(captures.capture_of(inputs, [], [0], [spec]))


@_case
def a_hundred_thousand_symbols() -> Read:
    capture = captures.dynamic_capture()
    capture.signature.symbols.extend([capture.signature.symbols[0]] * 100_000)
    return _reads(capture)


@_case
def a_dictionary_of_a_million() -> Read:
    capture = captures.add_capture()
    items = capture.graph.nodes[0].args.add().dictionary.items
    for index in range(1_000_000):
        items.add(name=str(index)).value.boolean = True
    return _reads(capture)


@_case
def a_result_of_a_million() -> Read:
    capture = captures.add_capture()
    container = capture.calling_convention.result.container
    container.kind = graph_pb2.CONTAINER_KIND_DICT
    for index in range(1_000_000):
        container.keys.add(integer=index)
        container.children.add().leaf.output = 0
    return _reads(capture)


@_case
def nan_as_an_index() -> Read:
    """The types of arguments are the operator's, so it is the compiler that refuses."""
    capture = captures.add_capture()
    node = capture.graph.nodes[0]
    node.op = "aten::sum.dim_IntList"
    node.args[1].list.items.add(real=float("nan"))
    node.args[1].list.items.add(real=float("inf"))
    decodes = _decodes(capture)
    import tempfile

    import torch

    from compile_farm.targets import host_target
    from compile_farm.v1 import target_pb2
    from compiler_service.engine.decode import decode
    from compiler_service.engine.lower import lower
    from compiler_service.engine.settings import candidates, inductor_settings

    def read() -> None:
        decodes()
        target = host_target("cpu")
        options = target_pb2.Options(effort=target_pb2.EFFORT_FAST)
        with tempfile.TemporaryDirectory() as folder:
            (candidate, *_) = candidates(target, options)
            settings = inductor_settings(
                target, options, candidate, Path(folder) / "model", random=False
            )
            lower(decode(capture, torch.device("cpu")), settings, Path(folder), target)

    return read


@_case
def a_name_of_10_mb() -> Read:
    capture = captures.add_capture()
    capture.signature.inputs[0].name = "x" * 10_000_000
    return _reads(capture)


@_case
def an_operator_of_10_mb() -> Read:
    capture = captures.add_capture()
    capture.graph.nodes[0].op = "aten::" + "x" * 10_000_000
    return _reads(capture)


def _zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@_case
def a_zip_of_10000_files() -> Read:
    data = _zip({f"file{index}": b"" for index in range(10_000)})
    return lambda: unpack(data)


@_case
def a_zip_whose_directory_has_millions() -> Read:
    """An end that counts two files, and a directory of four million entries before it."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", *[0] * 9, 0, *[0] * 6)
    directory = entry * 4_000_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, len(directory), 0, 0)
    data = directory + end
    return lambda: unpack(data)


@_case
def a_zip_whose_large_directory_has_millions() -> Read:
    """The same, where the size stands in the record for large zips."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", *[0] * 9, 0, *[0] * 6)
    directory = entry * 4_000_000
    size = len(directory)
    large = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 4_000_000, 4_000_000, size, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, size, 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)
    data = directory + large + locator + end
    return lambda: unpack(data)


@_case
def a_manifest_that_unpacks_to_600_mb() -> Read:
    data = _bomb("manifest.pb")
    return lambda: unpack(data)


@_case
def a_signature_that_unpacks_to_600_mb() -> Read:
    data = _bomb("signature.pb")
    return lambda: unpack(data)


@_case
def a_file_that_unpacks_to_600_mb() -> Read:
    """The manifest lists it with another size."""
    data = _bomb("model.so")
    return lambda: unpack(data)


def _bomb(name: str) -> bytes:
    manifest = artifact_pb2.Manifest(schema_version=1, key="ab" * 32)
    manifest.files.add(name="model.so", sha256=digest_of(b"x"), size=1)
    files = {"manifest.pb": manifest.SerializeToString(), "signature.pb": b"", "model.so": b"x"}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for entry, data in files.items():
            with archive.open(entry, "w") as stream:
                if entry == name:
                    for _ in range(600):
                        stream.write(bytes(2**20))
                else:
                    stream.write(data)
    return buffer.getvalue()


@_case
def a_zip_that_holds_more_than_it_promises() -> Read:
    """600 MB behind headers that say one byte, with its true checksum."""
    data = bytearray(_bomb("model.so"))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        where = archive.getinfo("model.so").header_offset
    struct.pack_into("<L", data, where + 22, 1)
    struct.pack_into("<L", data, data.rindex(b"model.so") - 22, 1)
    return lambda: unpack(bytes(data))


@_case
def a_manifest_of_millions_of_kernels() -> Read:
    manifest = artifact_pb2.Manifest(schema_version=1).SerializeToString()
    data = manifest + _field(13, _field(1, b"") * 20_000_000)
    return lambda: parse_manifest(data)


@_case
def a_manifest_of_millions_of_numbers() -> Read:
    """One byte each on the wire."""
    manifest = artifact_pb2.Manifest(schema_version=1).SerializeToString()
    data = manifest + _field(11, _field(2, _field(1, bytes(100_000_000))))
    return lambda: parse_manifest(data)


def _asks(compressed: bytes) -> Read:
    request = compiler_pb2.CompileRequest(key="0" * 64, capture=compressed)
    instance = gateway_instance(64 * 2**20)
    return lambda: asyncio.run(first_event(instance, request))


@_case
def a_zstd_bomb() -> Read:
    made = zstandard.ZstdCompressor().compressobj()
    parts = [made.compress(bytes(2**20)) for _ in range(2_000)]
    return _asks(b"".join(parts) + made.flush())


@_case
def a_zstd_frame_with_a_window_of_gigabytes() -> Read:
    settings = zstandard.ZstdCompressionParameters.from_level(1, window_log=30)
    made = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return _asks(made.compress(bytes(2**20)) + made.flush())


@_case
def a_zstd_frame_that_promises_exabytes() -> Read:
    header = struct.pack("<LBQ", 0xFD2FB528, 0b11100000, 2**62)
    return _asks(header + bytes([1, 0, 0]))


@_case
def a_compressed_capture_of_empty_parts() -> Read:
    return _asks(zstandard.compress(_field(1, _field(3, b"") * 30_000_000)))


@_case
def large_but_valid() -> Read:
    """20,000 calls and 5,000 inputs: what the limits must leave room for."""
    spec = captures.tensor(4, 4)
    inputs = [captures.user_input(spec, f"layers.{index}.weight") for index in range(5_000)]
    nodes = [
        graph_pb2.Node(
            op="aten::add.Tensor",
            args=[captures.value(index % 5_000), captures.value(5_000 + index - 1 if index else 0)],
        )
        for index in range(20_000)
    ]
    return _decodes(captures.capture_of(inputs, nodes, [24_999], [spec]))


@_case
def large_constants() -> Read:
    """Bytes that are no parts: 60 MB of one constant."""
    capture = captures.add_capture()
    entry = capture.signature.inputs[0]
    entry.role, entry.data = graph_pb2.ROLE_CONSTANT, bytes(60_000_000)
    entry.tensor.CopyFrom(captures.tensor(15_000_000))
    return _decodes(capture)


def _peak() -> int:
    """The most memory since the last ``_reset_peak``, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def main(name: str) -> None:
    """Reads one and says what came out, and what it cost."""
    read = CASES[name]()
    _reset_peak()
    before = _peak()
    try:
        read()
    except (CompileFarmError, EngineError, ServiceError) as error:
        ended, words = type(error).__name__, str(error)
    else:
        ended, words = "none", "no error at all"
    assert 10 < len(words) < 20_000, words[:200]
    print(ended, _peak() - before)


if __name__ == "__main__":
    main(sys.argv[1])
