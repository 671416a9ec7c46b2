from compile_farm.v1 import graph_pb2 as _graph_pb2
from compile_farm.v1 import target_pb2 as _target_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class KeyComponents(_message.Message):
    __slots__ = ("version", "graph", "signature", "calling_convention", "target", "options")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CALLING_CONVENTION_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    version: int
    graph: str
    signature: str
    calling_convention: str
    target: str
    options: str
    def __init__(self, version: _Optional[int] = ..., graph: _Optional[str] = ..., signature: _Optional[str] = ..., calling_convention: _Optional[str] = ..., target: _Optional[str] = ..., options: _Optional[str] = ...) -> None: ...

class File(_message.Message):
    __slots__ = ("name", "sha256", "size")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    name: str
    sha256: str
    size: int
    def __init__(self, name: _Optional[str] = ..., sha256: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class CompiledInput(_message.Message):
    __slots__ = ("input", "size_carrier")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    SIZE_CARRIER_FIELD_NUMBER: _ClassVar[int]
    input: int
    size_carrier: int
    def __init__(self, input: _Optional[int] = ..., size_carrier: _Optional[int] = ...) -> None: ...

class StageSeconds(_message.Message):
    __slots__ = ("stage", "seconds")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    stage: str
    seconds: float
    def __init__(self, stage: _Optional[str] = ..., seconds: _Optional[float] = ...) -> None: ...

class VerificationRun(_message.Message):
    __slots__ = ("symbols", "error", "eager_error", "bound")
    SYMBOLS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    EAGER_ERROR_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    symbols: _containers.RepeatedScalarFieldContainer[int]
    error: float
    eager_error: float
    bound: float
    def __init__(self, symbols: _Optional[_Iterable[int]] = ..., error: _Optional[float] = ..., eager_error: _Optional[float] = ..., bound: _Optional[float] = ...) -> None: ...

class Verification(_message.Message):
    __slots__ = ("reference_precision", "runs")
    REFERENCE_PRECISION_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    reference_precision: str
    runs: _containers.RepeatedCompositeFieldContainer[VerificationRun]
    def __init__(self, reference_precision: _Optional[str] = ..., runs: _Optional[_Iterable[_Union[VerificationRun, _Mapping]]] = ...) -> None: ...

class Kernel(_message.Message):
    __slots__ = ("name", "kind", "ops", "bytes_read", "bytes_written")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    BYTES_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    ops: _containers.RepeatedScalarFieldContainer[str]
    bytes_read: int
    bytes_written: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., ops: _Optional[_Iterable[str]] = ..., bytes_read: _Optional[int] = ..., bytes_written: _Optional[int] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("name", "settings", "median_seconds", "spread_seconds", "measurements", "chosen", "rejected")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEASUREMENTS_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    settings: _containers.ScalarMap[str, str]
    median_seconds: float
    spread_seconds: float
    measurements: int
    chosen: bool
    rejected: str
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ..., median_seconds: _Optional[float] = ..., spread_seconds: _Optional[float] = ..., measurements: _Optional[int] = ..., chosen: bool = ..., rejected: _Optional[str] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("kernels", "peak_bytes_planned", "buffers_allocated", "buffers_reused", "candidates", "measured_by")
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    PEAK_BYTES_PLANNED_FIELD_NUMBER: _ClassVar[int]
    BUFFERS_ALLOCATED_FIELD_NUMBER: _ClassVar[int]
    BUFFERS_REUSED_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    MEASURED_BY_FIELD_NUMBER: _ClassVar[int]
    kernels: _containers.RepeatedCompositeFieldContainer[Kernel]
    peak_bytes_planned: int
    buffers_allocated: int
    buffers_reused: int
    candidates: _containers.RepeatedCompositeFieldContainer[Candidate]
    measured_by: str
    def __init__(self, kernels: _Optional[_Iterable[_Union[Kernel, _Mapping]]] = ..., peak_bytes_planned: _Optional[int] = ..., buffers_allocated: _Optional[int] = ..., buffers_reused: _Optional[int] = ..., candidates: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ..., measured_by: _Optional[str] = ...) -> None: ...

class GraphSummary(_message.Message):
    __slots__ = ("operators", "nodes", "effects", "subgraphs")
    class OperatorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    SUBGRAPHS_FIELD_NUMBER: _ClassVar[int]
    operators: _containers.ScalarMap[str, int]
    nodes: int
    effects: int
    subgraphs: int
    def __init__(self, operators: _Optional[_Mapping[str, int]] = ..., nodes: _Optional[int] = ..., effects: _Optional[int] = ..., subgraphs: _Optional[int] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("schema_version", "key", "components", "signature", "calling_convention", "target", "options", "files", "compiled_inputs", "compiled_outputs", "verification", "stages", "report", "created", "builder", "libraries", "graph_summary")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CALLING_CONVENTION_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    COMPILED_INPUTS_FIELD_NUMBER: _ClassVar[int]
    COMPILED_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    VERIFICATION_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    BUILDER_FIELD_NUMBER: _ClassVar[int]
    LIBRARIES_FIELD_NUMBER: _ClassVar[int]
    GRAPH_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    key: str
    components: KeyComponents
    signature: _graph_pb2.Signature
    calling_convention: _graph_pb2.CallingConvention
    target: _target_pb2.Target
    options: _target_pb2.Options
    files: _containers.RepeatedCompositeFieldContainer[File]
    compiled_inputs: _containers.RepeatedCompositeFieldContainer[CompiledInput]
    compiled_outputs: _containers.RepeatedScalarFieldContainer[int]
    verification: Verification
    stages: _containers.RepeatedCompositeFieldContainer[StageSeconds]
    report: Report
    created: int
    builder: str
    libraries: _containers.RepeatedCompositeFieldContainer[_graph_pb2.Library]
    graph_summary: GraphSummary
    def __init__(self, schema_version: _Optional[int] = ..., key: _Optional[str] = ..., components: _Optional[_Union[KeyComponents, _Mapping]] = ..., signature: _Optional[_Union[_graph_pb2.Signature, _Mapping]] = ..., calling_convention: _Optional[_Union[_graph_pb2.CallingConvention, _Mapping]] = ..., target: _Optional[_Union[_target_pb2.Target, _Mapping]] = ..., options: _Optional[_Union[_target_pb2.Options, _Mapping]] = ..., files: _Optional[_Iterable[_Union[File, _Mapping]]] = ..., compiled_inputs: _Optional[_Iterable[_Union[CompiledInput, _Mapping]]] = ..., compiled_outputs: _Optional[_Iterable[int]] = ..., verification: _Optional[_Union[Verification, _Mapping]] = ..., stages: _Optional[_Iterable[_Union[StageSeconds, _Mapping]]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., created: _Optional[int] = ..., builder: _Optional[str] = ..., libraries: _Optional[_Iterable[_Union[_graph_pb2.Library, _Mapping]]] = ..., graph_summary: _Optional[_Union[GraphSummary, _Mapping]] = ...) -> None: ...

class ManifestSignature(_message.Message):
    __slots__ = ("key_id", "ed25519")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    ED25519_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    ed25519: bytes
    def __init__(self, key_id: _Optional[str] = ..., ed25519: _Optional[bytes] = ...) -> None: ...

class ArtifactRef(_message.Message):
    __slots__ = ("key", "digest", "size", "inline", "tier")
    KEY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    INLINE_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    key: str
    digest: str
    size: int
    inline: bytes
    tier: str
    def __init__(self, key: _Optional[str] = ..., digest: _Optional[str] = ..., size: _Optional[int] = ..., inline: _Optional[bytes] = ..., tier: _Optional[str] = ...) -> None: ...
