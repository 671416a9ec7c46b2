from compile_farm.v1 import artifact_pb2 as _artifact_pb2
from compile_farm.v1 import compiler_pb2 as _compiler_pb2
from compile_farm.v1 import target_pb2 as _target_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Source(_message.Message):
    __slots__ = ("module", "sha256")
    MODULE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    module: str
    sha256: str
    def __init__(self, module: _Optional[str] = ..., sha256: _Optional[str] = ...) -> None: ...

class Component(_message.Message):
    __slots__ = ("name", "type_name", "sources")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    name: str
    type_name: str
    sources: _containers.RepeatedCompositeFieldContainer[Source]
    def __init__(self, name: _Optional[str] = ..., type_name: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[Source, _Mapping]]] = ...) -> None: ...

class ReleaseEntry(_message.Message):
    __slots__ = ("component", "method", "key", "digest", "size", "target", "options", "components")
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    component: str
    method: str
    key: str
    digest: str
    size: int
    target: _target_pb2.Target
    options: _target_pb2.Options
    components: _artifact_pb2.KeyComponents
    def __init__(self, component: _Optional[str] = ..., method: _Optional[str] = ..., key: _Optional[str] = ..., digest: _Optional[str] = ..., size: _Optional[int] = ..., target: _Optional[_Union[_target_pb2.Target, _Mapping]] = ..., options: _Optional[_Union[_target_pb2.Options, _Mapping]] = ..., components: _Optional[_Union[_artifact_pb2.KeyComponents, _Mapping]] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("schema_version", "name", "revision", "created", "components", "entries")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    name: str
    revision: str
    created: int
    components: _containers.RepeatedCompositeFieldContainer[Component]
    entries: _containers.RepeatedCompositeFieldContainer[ReleaseEntry]
    def __init__(self, schema_version: _Optional[int] = ..., name: _Optional[str] = ..., revision: _Optional[str] = ..., created: _Optional[int] = ..., components: _Optional[_Iterable[_Union[Component, _Mapping]]] = ..., entries: _Optional[_Iterable[_Union[ReleaseEntry, _Mapping]]] = ...) -> None: ...

class SignedRelease(_message.Message):
    __slots__ = ("release", "signature")
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    release: bytes
    signature: _artifact_pb2.ManifestSignature
    def __init__(self, release: _Optional[bytes] = ..., signature: _Optional[_Union[_artifact_pb2.ManifestSignature, _Mapping]] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("release",)
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    release: Release
    def __init__(self, release: _Optional[_Union[Release, _Mapping]] = ...) -> None: ...

class PublishResponse(_message.Message):
    __slots__ = ("release", "created")
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    release: SignedRelease
    created: bool
    def __init__(self, release: _Optional[_Union[SignedRelease, _Mapping]] = ..., created: bool = ...) -> None: ...

class ResolveRequest(_message.Message):
    __slots__ = ("name", "revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: str
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[str] = ...) -> None: ...

class ResolveResponse(_message.Message):
    __slots__ = ("release", "quarantined")
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    release: SignedRelease
    quarantined: _containers.RepeatedCompositeFieldContainer[_compiler_pb2.Quarantined]
    def __init__(self, release: _Optional[_Union[SignedRelease, _Mapping]] = ..., quarantined: _Optional[_Iterable[_Union[_compiler_pb2.Quarantined, _Mapping]]] = ...) -> None: ...

class ListReleasesRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ReleaseSummary(_message.Message):
    __slots__ = ("name", "revision", "created", "entries", "current", "pinned")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: str
    created: int
    entries: int
    current: bool
    pinned: bool
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[str] = ..., created: _Optional[int] = ..., entries: _Optional[int] = ..., current: bool = ..., pinned: bool = ...) -> None: ...

class ListReleasesResponse(_message.Message):
    __slots__ = ("releases",)
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    releases: _containers.RepeatedCompositeFieldContainer[ReleaseSummary]
    def __init__(self, releases: _Optional[_Iterable[_Union[ReleaseSummary, _Mapping]]] = ...) -> None: ...

class PinRequest(_message.Message):
    __slots__ = ("name", "revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: str
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[str] = ...) -> None: ...

class PinResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RollbackRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RollbackResponse(_message.Message):
    __slots__ = ("revision", "before")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    revision: str
    before: str
    def __init__(self, revision: _Optional[str] = ..., before: _Optional[str] = ...) -> None: ...
