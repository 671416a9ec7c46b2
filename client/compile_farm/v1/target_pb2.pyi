from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Effort(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFORT_UNSPECIFIED: _ClassVar[Effort]
    EFFORT_FAST: _ClassVar[Effort]
    EFFORT_TUNED: _ClassVar[Effort]

class Numerics(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NUMERICS_UNSPECIFIED: _ClassVar[Numerics]
    NUMERICS_STRICT: _ClassVar[Numerics]
    NUMERICS_FAST: _ClassVar[Numerics]
EFFORT_UNSPECIFIED: Effort
EFFORT_FAST: Effort
EFFORT_TUNED: Effort
NUMERICS_UNSPECIFIED: Numerics
NUMERICS_STRICT: Numerics
NUMERICS_FAST: Numerics

class CudaHardware(_message.Message):
    __slots__ = ("arch", "device_name")
    ARCH_FIELD_NUMBER: _ClassVar[int]
    DEVICE_NAME_FIELD_NUMBER: _ClassVar[int]
    arch: str
    device_name: str
    def __init__(self, arch: _Optional[str] = ..., device_name: _Optional[str] = ...) -> None: ...

class CpuHardware(_message.Message):
    __slots__ = ("isa",)
    ISA_FIELD_NUMBER: _ClassVar[int]
    isa: str
    def __init__(self, isa: _Optional[str] = ...) -> None: ...

class Toolchain(_message.Message):
    __slots__ = ("torch", "torch_git", "triton", "cuda_runtime", "platform")
    TORCH_FIELD_NUMBER: _ClassVar[int]
    TORCH_GIT_FIELD_NUMBER: _ClassVar[int]
    TRITON_FIELD_NUMBER: _ClassVar[int]
    CUDA_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    torch: str
    torch_git: str
    triton: str
    cuda_runtime: str
    platform: str
    def __init__(self, torch: _Optional[str] = ..., torch_git: _Optional[str] = ..., triton: _Optional[str] = ..., cuda_runtime: _Optional[str] = ..., platform: _Optional[str] = ...) -> None: ...

class Target(_message.Message):
    __slots__ = ("cuda", "cpu", "toolchain")
    CUDA_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    TOOLCHAIN_FIELD_NUMBER: _ClassVar[int]
    cuda: CudaHardware
    cpu: CpuHardware
    toolchain: Toolchain
    def __init__(self, cuda: _Optional[_Union[CudaHardware, _Mapping]] = ..., cpu: _Optional[_Union[CpuHardware, _Mapping]] = ..., toolchain: _Optional[_Union[Toolchain, _Mapping]] = ...) -> None: ...

class Options(_message.Message):
    __slots__ = ("effort", "numerics")
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    NUMERICS_FIELD_NUMBER: _ClassVar[int]
    effort: Effort
    numerics: Numerics
    def __init__(self, effort: _Optional[_Union[Effort, str]] = ..., numerics: _Optional[_Union[Numerics, str]] = ...) -> None: ...
