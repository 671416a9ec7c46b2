from compile_farm.v1 import artifact_pb2 as _artifact_pb2
from compile_farm.v1 import target_pb2 as _target_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSPECIFIED: _ClassVar[Reason]
    REASON_UNSUPPORTED: _ClassVar[Reason]
    REASON_COMPILER_ERROR: _ClassVar[Reason]
    REASON_VERIFICATION_FAILED: _ClassVar[Reason]
    REASON_TIMEOUT: _ClassVar[Reason]
    REASON_OUT_OF_MEMORY: _ClassVar[Reason]
    REASON_CRASHED: _ClassVar[Reason]
    REASON_CANCELLED: _ClassVar[Reason]
    REASON_NO_WORKER: _ClassVar[Reason]
    REASON_INVALID: _ClassVar[Reason]
    REASON_INTERNAL: _ClassVar[Reason]
    REASON_QUARANTINED: _ClassVar[Reason]

class Refusal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSAL_UNSPECIFIED: _ClassVar[Refusal]
    REFUSAL_GRADIENTS: _ClassVar[Refusal]
    REFUSAL_OPERATOR: _ClassVar[Refusal]
    REFUSAL_TENSOR: _ClassVar[Refusal]
    REFUSAL_MEMORY: _ClassVar[Refusal]
    REFUSAL_STATE: _ClassVar[Refusal]
    REFUSAL_VALUE: _ClassVar[Refusal]
    REFUSAL_SIZE: _ClassVar[Refusal]
    REFUSAL_TRACE: _ClassVar[Refusal]
REASON_UNSPECIFIED: Reason
REASON_UNSUPPORTED: Reason
REASON_COMPILER_ERROR: Reason
REASON_VERIFICATION_FAILED: Reason
REASON_TIMEOUT: Reason
REASON_OUT_OF_MEMORY: Reason
REASON_CRASHED: Reason
REASON_CANCELLED: Reason
REASON_NO_WORKER: Reason
REASON_INVALID: Reason
REASON_INTERNAL: Reason
REASON_QUARANTINED: Reason
REFUSAL_UNSPECIFIED: Refusal
REFUSAL_GRADIENTS: Refusal
REFUSAL_OPERATOR: Refusal
REFUSAL_TENSOR: Refusal
REFUSAL_MEMORY: Refusal
REFUSAL_STATE: Refusal
REFUSAL_VALUE: Refusal
REFUSAL_SIZE: Refusal
REFUSAL_TRACE: Refusal

class GetCapabilitiesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCapabilitiesResponse(_message.Message):
    __slots__ = ("version", "graph_schema_versions", "key_version", "targets", "public_keys", "max_capture_bytes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GRAPH_SCHEMA_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    KEY_VERSION_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEYS_FIELD_NUMBER: _ClassVar[int]
    MAX_CAPTURE_BYTES_FIELD_NUMBER: _ClassVar[int]
    version: str
    graph_schema_versions: _containers.RepeatedScalarFieldContainer[int]
    key_version: int
    targets: _containers.RepeatedCompositeFieldContainer[_target_pb2.Target]
    public_keys: _containers.RepeatedScalarFieldContainer[bytes]
    max_capture_bytes: int
    def __init__(self, version: _Optional[str] = ..., graph_schema_versions: _Optional[_Iterable[int]] = ..., key_version: _Optional[int] = ..., targets: _Optional[_Iterable[_Union[_target_pb2.Target, _Mapping]]] = ..., public_keys: _Optional[_Iterable[bytes]] = ..., max_capture_bytes: _Optional[int] = ...) -> None: ...

class LookupRequest(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...

class LookupResponse(_message.Message):
    __slots__ = ("hits", "unavailable_tiers", "quarantined")
    HITS_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_TIERS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[_artifact_pb2.ArtifactRef]
    unavailable_tiers: _containers.RepeatedScalarFieldContainer[str]
    quarantined: _containers.RepeatedCompositeFieldContainer[Quarantined]
    def __init__(self, hits: _Optional[_Iterable[_Union[_artifact_pb2.ArtifactRef, _Mapping]]] = ..., unavailable_tiers: _Optional[_Iterable[str]] = ..., quarantined: _Optional[_Iterable[_Union[Quarantined, _Mapping]]] = ...) -> None: ...

class Quarantined(_message.Message):
    __slots__ = ("key", "digest", "reason")
    KEY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    key: str
    digest: str
    reason: str
    def __init__(self, key: _Optional[str] = ..., digest: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CompileRequest(_message.Message):
    __slots__ = ("key", "capture", "target", "options")
    KEY_FIELD_NUMBER: _ClassVar[int]
    CAPTURE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    key: str
    capture: bytes
    target: _target_pb2.Target
    options: _target_pb2.Options
    def __init__(self, key: _Optional[str] = ..., capture: _Optional[bytes] = ..., target: _Optional[_Union[_target_pb2.Target, _Mapping]] = ..., options: _Optional[_Union[_target_pb2.Options, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: bool
    def __init__(self, cancelled: bool = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("reason", "message", "remedy", "stage", "retryable", "remembered_for_seconds")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_FOR_SECONDS_FIELD_NUMBER: _ClassVar[int]
    reason: Reason
    message: str
    remedy: str
    stage: str
    retryable: bool
    remembered_for_seconds: float
    def __init__(self, reason: _Optional[_Union[Reason, str]] = ..., message: _Optional[str] = ..., remedy: _Optional[str] = ..., stage: _Optional[str] = ..., retryable: bool = ..., remembered_for_seconds: _Optional[float] = ...) -> None: ...

class Queued(_message.Message):
    __slots__ = ("position",)
    POSITION_FIELD_NUMBER: _ClassVar[int]
    position: int
    def __init__(self, position: _Optional[int] = ...) -> None: ...

class Stage(_message.Message):
    __slots__ = ("name", "fraction", "detail")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    fraction: float
    detail: str
    def __init__(self, name: _Optional[str] = ..., fraction: _Optional[float] = ..., detail: _Optional[str] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("artifact", "hit")
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    HIT_FIELD_NUMBER: _ClassVar[int]
    artifact: _artifact_pb2.ArtifactRef
    hit: bool
    def __init__(self, artifact: _Optional[_Union[_artifact_pb2.ArtifactRef, _Mapping]] = ..., hit: bool = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("job_id", "key", "queued", "stage", "done", "failure")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    key: str
    queued: Queued
    stage: Stage
    done: Done
    failure: Failure
    def __init__(self, job_id: _Optional[str] = ..., key: _Optional[str] = ..., queued: _Optional[_Union[Queued, _Mapping]] = ..., stage: _Optional[_Union[Stage, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class NearestRequest(_message.Message):
    __slots__ = ("components", "target", "graph_summary", "limit")
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    GRAPH_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    components: _artifact_pb2.KeyComponents
    target: _target_pb2.Target
    graph_summary: _artifact_pb2.GraphSummary
    limit: int
    def __init__(self, components: _Optional[_Union[_artifact_pb2.KeyComponents, _Mapping]] = ..., target: _Optional[_Union[_target_pb2.Target, _Mapping]] = ..., graph_summary: _Optional[_Union[_artifact_pb2.GraphSummary, _Mapping]] = ..., limit: _Optional[int] = ...) -> None: ...

class NearestResponse(_message.Message):
    __slots__ = ("manifests", "compared", "more")
    MANIFESTS_FIELD_NUMBER: _ClassVar[int]
    COMPARED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    manifests: _containers.RepeatedCompositeFieldContainer[_artifact_pb2.Manifest]
    compared: int
    more: bool
    def __init__(self, manifests: _Optional[_Iterable[_Union[_artifact_pb2.Manifest, _Mapping]]] = ..., compared: _Optional[int] = ..., more: bool = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("job_id", "key", "state", "stage", "fraction", "seconds", "waiters")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    key: str
    state: str
    stage: str
    fraction: float
    seconds: float
    waiters: int
    def __init__(self, job_id: _Optional[str] = ..., key: _Optional[str] = ..., state: _Optional[str] = ..., stage: _Optional[str] = ..., fraction: _Optional[float] = ..., seconds: _Optional[float] = ..., waiters: _Optional[int] = ...) -> None: ...

class WorkerStatus(_message.Message):
    __slots__ = ("name", "target", "state", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    target: _target_pb2.Target
    state: str
    problem: str
    def __init__(self, name: _Optional[str] = ..., target: _Optional[_Union[_target_pb2.Target, _Mapping]] = ..., state: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class TierStatus(_message.Message):
    __slots__ = ("name", "available", "hits", "misses", "corrupt", "unavailable")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    MISSES_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    available: bool
    hits: int
    misses: int
    corrupt: int
    unavailable: int
    def __init__(self, name: _Optional[str] = ..., available: bool = ..., hits: _Optional[int] = ..., misses: _Optional[int] = ..., corrupt: _Optional[int] = ..., unavailable: _Optional[int] = ...) -> None: ...

class ReasonCount(_message.Message):
    __slots__ = ("reason", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: Reason
    count: int
    def __init__(self, reason: _Optional[_Union[Reason, str]] = ..., count: _Optional[int] = ...) -> None: ...

class RefusalCount(_message.Message):
    __slots__ = ("refusal", "count")
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    refusal: Refusal
    count: int
    def __init__(self, refusal: _Optional[_Union[Refusal, str]] = ..., count: _Optional[int] = ...) -> None: ...

class ReportRefusalsRequest(_message.Message):
    __slots__ = ("refusals",)
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    refusals: _containers.RepeatedCompositeFieldContainer[RefusalCount]
    def __init__(self, refusals: _Optional[_Iterable[_Union[RefusalCount, _Mapping]]] = ...) -> None: ...

class ReportRefusalsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("version", "uptime_seconds", "jobs", "workers", "tiers", "compiled", "hits", "failures", "refusals")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    COMPILED_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    version: str
    uptime_seconds: float
    jobs: _containers.RepeatedCompositeFieldContainer[JobStatus]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerStatus]
    tiers: _containers.RepeatedCompositeFieldContainer[TierStatus]
    compiled: int
    hits: int
    failures: _containers.RepeatedCompositeFieldContainer[ReasonCount]
    refusals: _containers.RepeatedCompositeFieldContainer[RefusalCount]
    def __init__(self, version: _Optional[str] = ..., uptime_seconds: _Optional[float] = ..., jobs: _Optional[_Iterable[_Union[JobStatus, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[WorkerStatus, _Mapping]]] = ..., tiers: _Optional[_Iterable[_Union[TierStatus, _Mapping]]] = ..., compiled: _Optional[int] = ..., hits: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[ReasonCount, _Mapping]]] = ..., refusals: _Optional[_Iterable[_Union[RefusalCount, _Mapping]]] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("digest", "offset")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    digest: str
    offset: int
    def __init__(self, digest: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("data", "total_size")
    DATA_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    total_size: int
    def __init__(self, data: _Optional[bytes] = ..., total_size: _Optional[int] = ...) -> None: ...

class ListArtifactsRequest(_message.Message):
    __slots__ = ("limit", "page_token")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    limit: int
    page_token: str
    def __init__(self, limit: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ArtifactSummary(_message.Message):
    __slots__ = ("key", "digest", "size", "created", "quarantined")
    KEY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    key: str
    digest: str
    size: int
    created: int
    quarantined: str
    def __init__(self, key: _Optional[str] = ..., digest: _Optional[str] = ..., size: _Optional[int] = ..., created: _Optional[int] = ..., quarantined: _Optional[str] = ...) -> None: ...

class ListArtifactsResponse(_message.Message):
    __slots__ = ("artifacts", "next_page_token")
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    artifacts: _containers.RepeatedCompositeFieldContainer[ArtifactSummary]
    next_page_token: str
    def __init__(self, artifacts: _Optional[_Iterable[_Union[ArtifactSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class QuarantineRequest(_message.Message):
    __slots__ = ("key", "digest", "reason")
    KEY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    key: str
    digest: str
    reason: str
    def __init__(self, key: _Optional[str] = ..., digest: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class QuarantineResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LiftQuarantineRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class LiftQuarantineResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
