from compile_farm.v1 import artifact_pb2 as _artifact_pb2
from compile_farm.v1 import compiler_pb2 as _compiler_pb2
from compile_farm.v1 import target_pb2 as _target_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SandboxCompile(_message.Message):
    __slots__ = ("job_id", "key", "capture", "target", "options", "output_dir")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CAPTURE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_DIR_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    key: str
    capture: bytes
    target: _target_pb2.Target
    options: _target_pb2.Options
    output_dir: str
    def __init__(self, job_id: _Optional[str] = ..., key: _Optional[str] = ..., capture: _Optional[bytes] = ..., target: _Optional[_Union[_target_pb2.Target, _Mapping]] = ..., options: _Optional[_Union[_target_pb2.Options, _Mapping]] = ..., output_dir: _Optional[str] = ...) -> None: ...

class SandboxHello(_message.Message):
    __slots__ = ("target", "seconds", "notes")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    target: _target_pb2.Target
    seconds: float
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, target: _Optional[_Union[_target_pb2.Target, _Mapping]] = ..., seconds: _Optional[float] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class SandboxReply(_message.Message):
    __slots__ = ("hello", "stage", "done", "failure")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    hello: SandboxHello
    stage: _compiler_pb2.Stage
    done: _artifact_pb2.Manifest
    failure: _compiler_pb2.Failure
    def __init__(self, hello: _Optional[_Union[SandboxHello, _Mapping]] = ..., stage: _Optional[_Union[_compiler_pb2.Stage, _Mapping]] = ..., done: _Optional[_Union[_artifact_pb2.Manifest, _Mapping]] = ..., failure: _Optional[_Union[_compiler_pb2.Failure, _Mapping]] = ...) -> None: ...
