from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Operator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPERATOR_UNSPECIFIED: _ClassVar[Operator]
    OPERATOR_ADD: _ClassVar[Operator]
    OPERATOR_MULTIPLY: _ClassVar[Operator]
    OPERATOR_FLOOR_DIVIDE: _ClassVar[Operator]
    OPERATOR_MODULO: _ClassVar[Operator]
    OPERATOR_MINIMUM: _ClassVar[Operator]
    OPERATOR_MAXIMUM: _ClassVar[Operator]
    OPERATOR_POWER: _ClassVar[Operator]

class Effect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFECT_NONE: _ClassVar[Effect]
    EFFECT_MUTATES: _ClassVar[Effect]
    EFFECT_RANDOM: _ClassVar[Effect]
    EFFECT_ASSERTS: _ClassVar[Effect]

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_USER_INPUT: _ClassVar[Role]
    ROLE_PARAMETER: _ClassVar[Role]
    ROLE_BUFFER: _ClassVar[Role]
    ROLE_CONSTANT: _ClassVar[Role]

class ContainerKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTAINER_KIND_UNSPECIFIED: _ClassVar[ContainerKind]
    CONTAINER_KIND_TUPLE: _ClassVar[ContainerKind]
    CONTAINER_KIND_LIST: _ClassVar[ContainerKind]
    CONTAINER_KIND_DICT: _ClassVar[ContainerKind]
    CONTAINER_KIND_NAMED_TUPLE: _ClassVar[ContainerKind]
    CONTAINER_KIND_RETURN_TYPE: _ClassVar[ContainerKind]
    CONTAINER_KIND_RECORD: _ClassVar[ContainerKind]
OPERATOR_UNSPECIFIED: Operator
OPERATOR_ADD: Operator
OPERATOR_MULTIPLY: Operator
OPERATOR_FLOOR_DIVIDE: Operator
OPERATOR_MODULO: Operator
OPERATOR_MINIMUM: Operator
OPERATOR_MAXIMUM: Operator
OPERATOR_POWER: Operator
EFFECT_NONE: Effect
EFFECT_MUTATES: Effect
EFFECT_RANDOM: Effect
EFFECT_ASSERTS: Effect
ROLE_UNSPECIFIED: Role
ROLE_USER_INPUT: Role
ROLE_PARAMETER: Role
ROLE_BUFFER: Role
ROLE_CONSTANT: Role
CONTAINER_KIND_UNSPECIFIED: ContainerKind
CONTAINER_KIND_TUPLE: ContainerKind
CONTAINER_KIND_LIST: ContainerKind
CONTAINER_KIND_DICT: ContainerKind
CONTAINER_KIND_NAMED_TUPLE: ContainerKind
CONTAINER_KIND_RETURN_TYPE: ContainerKind
CONTAINER_KIND_RECORD: ContainerKind

class Expr(_message.Message):
    __slots__ = ("constant", "symbol", "operation")
    CONSTANT_FIELD_NUMBER: _ClassVar[int]
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    constant: int
    symbol: int
    operation: Operation
    def __init__(self, constant: _Optional[int] = ..., symbol: _Optional[int] = ..., operation: _Optional[_Union[Operation, _Mapping]] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("operator", "operands")
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    operator: Operator
    operands: _containers.RepeatedCompositeFieldContainer[Expr]
    def __init__(self, operator: _Optional[_Union[Operator, str]] = ..., operands: _Optional[_Iterable[_Union[Expr, _Mapping]]] = ...) -> None: ...

class Symbol(_message.Message):
    __slots__ = ("minimum", "maximum", "hint", "unbacked")
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    UNBACKED_FIELD_NUMBER: _ClassVar[int]
    minimum: int
    maximum: int
    hint: int
    unbacked: bool
    def __init__(self, minimum: _Optional[int] = ..., maximum: _Optional[int] = ..., hint: _Optional[int] = ..., unbacked: bool = ...) -> None: ...

class TensorSpec(_message.Message):
    __slots__ = ("dtype", "device_type", "sizes", "strides")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZES_FIELD_NUMBER: _ClassVar[int]
    STRIDES_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    device_type: str
    sizes: _containers.RepeatedCompositeFieldContainer[Expr]
    strides: _containers.RepeatedCompositeFieldContainer[Expr]
    def __init__(self, dtype: _Optional[str] = ..., device_type: _Optional[str] = ..., sizes: _Optional[_Iterable[_Union[Expr, _Mapping]]] = ..., strides: _Optional[_Iterable[_Union[Expr, _Mapping]]] = ...) -> None: ...

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Literal(_message.Message):
    __slots__ = ("none", "boolean", "integer", "real", "text")
    NONE_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    none: Nothing
    boolean: bool
    integer: int
    real: float
    text: str
    def __init__(self, none: _Optional[_Union[Nothing, _Mapping]] = ..., boolean: bool = ..., integer: _Optional[int] = ..., real: _Optional[float] = ..., text: _Optional[str] = ...) -> None: ...

class Complex(_message.Message):
    __slots__ = ("real", "imaginary")
    REAL_FIELD_NUMBER: _ClassVar[int]
    IMAGINARY_FIELD_NUMBER: _ClassVar[int]
    real: float
    imaginary: float
    def __init__(self, real: _Optional[float] = ..., imaginary: _Optional[float] = ...) -> None: ...

class ArgumentList(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Argument]
    def __init__(self, items: _Optional[_Iterable[_Union[Argument, _Mapping]]] = ...) -> None: ...

class NamedArgument(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: Argument
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[Argument, _Mapping]] = ...) -> None: ...

class ArgumentDictionary(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NamedArgument]
    def __init__(self, items: _Optional[_Iterable[_Union[NamedArgument, _Mapping]]] = ...) -> None: ...

class Argument(_message.Message):
    __slots__ = ("none", "boolean", "integer", "real", "complex", "text", "value", "dtype", "device_type", "layout", "memory_format", "list", "tuple", "dictionary", "subgraph", "operator", "expression")
    NONE_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    COMPLEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TYPE_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FORMAT_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    TUPLE_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    SUBGRAPH_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    none: Nothing
    boolean: bool
    integer: int
    real: float
    complex: Complex
    text: str
    value: int
    dtype: str
    device_type: str
    layout: str
    memory_format: str
    list: ArgumentList
    tuple: ArgumentList
    dictionary: ArgumentDictionary
    subgraph: int
    operator: str
    expression: Expr
    def __init__(self, none: _Optional[_Union[Nothing, _Mapping]] = ..., boolean: bool = ..., integer: _Optional[int] = ..., real: _Optional[float] = ..., complex: _Optional[_Union[Complex, _Mapping]] = ..., text: _Optional[str] = ..., value: _Optional[int] = ..., dtype: _Optional[str] = ..., device_type: _Optional[str] = ..., layout: _Optional[str] = ..., memory_format: _Optional[str] = ..., list: _Optional[_Union[ArgumentList, _Mapping]] = ..., tuple: _Optional[_Union[ArgumentList, _Mapping]] = ..., dictionary: _Optional[_Union[ArgumentDictionary, _Mapping]] = ..., subgraph: _Optional[int] = ..., operator: _Optional[str] = ..., expression: _Optional[_Union[Expr, _Mapping]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("op", "args", "kwargs", "effect")
    OP_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    KWARGS_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    op: str
    args: _containers.RepeatedCompositeFieldContainer[Argument]
    kwargs: _containers.RepeatedCompositeFieldContainer[NamedArgument]
    effect: Effect
    def __init__(self, op: _Optional[str] = ..., args: _Optional[_Iterable[_Union[Argument, _Mapping]]] = ..., kwargs: _Optional[_Iterable[_Union[NamedArgument, _Mapping]]] = ..., effect: _Optional[_Union[Effect, str]] = ...) -> None: ...

class Graph(_message.Message):
    __slots__ = ("schema_version", "input_count", "nodes", "outputs", "single_output", "subgraphs")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    INPUT_COUNT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    SINGLE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SUBGRAPHS_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    input_count: int
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    outputs: _containers.RepeatedCompositeFieldContainer[Argument]
    single_output: bool
    subgraphs: _containers.RepeatedCompositeFieldContainer[Graph]
    def __init__(self, schema_version: _Optional[int] = ..., input_count: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[Argument, _Mapping]]] = ..., single_output: bool = ..., subgraphs: _Optional[_Iterable[_Union[Graph, _Mapping]]] = ...) -> None: ...

class ValueRange(_message.Message):
    __slots__ = ("minimum", "maximum")
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    minimum: int
    maximum: int
    def __init__(self, minimum: _Optional[int] = ..., maximum: _Optional[int] = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ("name", "role", "tensor", "scalar", "mutated", "data", "value_range")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    SCALAR_FIELD_NUMBER: _ClassVar[int]
    MUTATED_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    VALUE_RANGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: Role
    tensor: TensorSpec
    scalar: Expr
    mutated: bool
    data: bytes
    value_range: ValueRange
    def __init__(self, name: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., tensor: _Optional[_Union[TensorSpec, _Mapping]] = ..., scalar: _Optional[_Union[Expr, _Mapping]] = ..., mutated: bool = ..., data: _Optional[bytes] = ..., value_range: _Optional[_Union[ValueRange, _Mapping]] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("tensor", "scalar", "none")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    SCALAR_FIELD_NUMBER: _ClassVar[int]
    NONE_FIELD_NUMBER: _ClassVar[int]
    tensor: TensorSpec
    scalar: Expr
    none: Nothing
    def __init__(self, tensor: _Optional[_Union[TensorSpec, _Mapping]] = ..., scalar: _Optional[_Union[Expr, _Mapping]] = ..., none: _Optional[_Union[Nothing, _Mapping]] = ...) -> None: ...

class Signature(_message.Message):
    __slots__ = ("symbols", "inputs", "outputs")
    SYMBOLS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    symbols: _containers.RepeatedCompositeFieldContainer[Symbol]
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    outputs: _containers.RepeatedCompositeFieldContainer[Output]
    def __init__(self, symbols: _Optional[_Iterable[_Union[Symbol, _Mapping]]] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[Output, _Mapping]]] = ...) -> None: ...

class Alias(_message.Message):
    __slots__ = ("input", "sizes", "strides", "storage_offset", "identity", "dtype")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    SIZES_FIELD_NUMBER: _ClassVar[int]
    STRIDES_FIELD_NUMBER: _ClassVar[int]
    STORAGE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    input: int
    sizes: _containers.RepeatedCompositeFieldContainer[Expr]
    strides: _containers.RepeatedCompositeFieldContainer[Expr]
    storage_offset: Expr
    identity: bool
    dtype: str
    def __init__(self, input: _Optional[int] = ..., sizes: _Optional[_Iterable[_Union[Expr, _Mapping]]] = ..., strides: _Optional[_Iterable[_Union[Expr, _Mapping]]] = ..., storage_offset: _Optional[_Union[Expr, _Mapping]] = ..., identity: bool = ..., dtype: _Optional[str] = ...) -> None: ...

class Leaf(_message.Message):
    __slots__ = ("input", "output", "literal", "alias")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    input: int
    output: int
    literal: Literal
    alias: Alias
    def __init__(self, input: _Optional[int] = ..., output: _Optional[int] = ..., literal: _Optional[_Union[Literal, _Mapping]] = ..., alias: _Optional[_Union[Alias, _Mapping]] = ...) -> None: ...

class Container(_message.Message):
    __slots__ = ("kind", "type_name", "keys", "children")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TYPE_NAME_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    kind: ContainerKind
    type_name: str
    keys: _containers.RepeatedCompositeFieldContainer[Literal]
    children: _containers.RepeatedCompositeFieldContainer[Tree]
    def __init__(self, kind: _Optional[_Union[ContainerKind, str]] = ..., type_name: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[Literal, _Mapping]]] = ..., children: _Optional[_Iterable[_Union[Tree, _Mapping]]] = ...) -> None: ...

class Tree(_message.Message):
    __slots__ = ("leaf", "container")
    LEAF_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    leaf: Leaf
    container: Container
    def __init__(self, leaf: _Optional[_Union[Leaf, _Mapping]] = ..., container: _Optional[_Union[Container, _Mapping]] = ...) -> None: ...

class CallingConvention(_message.Message):
    __slots__ = ("parameters", "args", "kwargs", "result", "modules", "subclasses")
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    KWARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MODULES_FIELD_NUMBER: _ClassVar[int]
    SUBCLASSES_FIELD_NUMBER: _ClassVar[int]
    parameters: _containers.RepeatedScalarFieldContainer[str]
    args: Tree
    kwargs: Tree
    result: Tree
    modules: _containers.RepeatedCompositeFieldContainer[ModuleState]
    subclasses: _containers.RepeatedCompositeFieldContainer[Subclass]
    def __init__(self, parameters: _Optional[_Iterable[str]] = ..., args: _Optional[_Union[Tree, _Mapping]] = ..., kwargs: _Optional[_Union[Tree, _Mapping]] = ..., result: _Optional[_Union[Tree, _Mapping]] = ..., modules: _Optional[_Iterable[_Union[ModuleState, _Mapping]]] = ..., subclasses: _Optional[_Iterable[_Union[Subclass, _Mapping]]] = ...) -> None: ...

class Setting(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: Literal
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[Literal, _Mapping]] = ...) -> None: ...

class ModuleState(_message.Message):
    __slots__ = ("path", "type_name", "training", "settings")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TYPE_NAME_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    path: str
    type_name: str
    training: bool
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, path: _Optional[str] = ..., type_name: _Optional[str] = ..., training: bool = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class Subclass(_message.Message):
    __slots__ = ("path", "type_name", "settings")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TYPE_NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    path: str
    type_name: str
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, path: _Optional[str] = ..., type_name: _Optional[str] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class Library(_message.Message):
    __slots__ = ("namespace", "module", "version")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    module: str
    version: str
    def __init__(self, namespace: _Optional[str] = ..., module: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Capture(_message.Message):
    __slots__ = ("graph", "signature", "calling_convention", "libraries")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CALLING_CONVENTION_FIELD_NUMBER: _ClassVar[int]
    LIBRARIES_FIELD_NUMBER: _ClassVar[int]
    graph: Graph
    signature: Signature
    calling_convention: CallingConvention
    libraries: _containers.RepeatedCompositeFieldContainer[Library]
    def __init__(self, graph: _Optional[_Union[Graph, _Mapping]] = ..., signature: _Optional[_Union[Signature, _Mapping]] = ..., calling_convention: _Optional[_Union[CallingConvention, _Mapping]] = ..., libraries: _Optional[_Iterable[_Union[Library, _Mapping]]] = ...) -> None: ...
