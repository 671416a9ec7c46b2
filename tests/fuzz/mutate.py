"""Alters messages and bytes at random, in ways that a reader could stumble over.

In: a valid message or its bytes, and a ``random.Random`` that decides everything, so that a seed
(or hypothesis) reproduces it. Out: an altered copy, which may be valid, invalid or no message at
all.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_NUMBERS = [
    0, 1, -1, 2, 3, 7, 40, 64, 255, 1000, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**47,
    2**61, 2**62, 2**62 + 1, 2**63 - 1, -(2**62), -(2**63),
]  # fmt: skip
_REALS = [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324]
_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}
TEXTS = [
    "", " ", "\0", "\n", "x", "self", "class", "None", "__debug__", "__class__", "__import__",
    "a b", "../model.so", "/etc/passwd", "ä", "名", "\u202e", "𝔞", "x" * 300, "x" * 5000,
    "float32", "int64", "complex64", "float8_e8m0fnu", "cpu", "cuda", "cuda:1", "meta", "strided",
    "sparse_coo", "channels_last", "aten::add.Tensor", "aten::sin.default", "aten::sum.dim_IntList",
    "aten::copy_.default", "aten::rand.default", "aten::cat.default", "aten::no_such.default",
    "aten::random_.from",
    "aten::__init__.default", "aten::__class__.__doc__", "aten::_dir.append", "aten::add.op",
    "aten::add.__call__", "aten::add._schema", "aten.add.Tensor", "::", "aten::", "aten::add.",
    "prims::sin.default", "os::system.default", "torch::hub.load", "builtins::eval.default",
    "python::getitem", "python::eval", "python::__import__", "python::add", "python::pow",
    "higher_order::cond", "higher_order::while_loop", "higher_order::scan",
    "higher_order::map_impl",
    "higher_order::flex_attention", "higher_order::invoke_subgraph", "higher_order::__class__",
    "higher_order::triton_kernel_wrapper_mutation", "higher_order::auto_functionalized",
    "higher_order::call_torchbind", "higher_order::print", "inductor::_mm_plus_mm.default",
    "torchvision::nms.default", "collections:OrderedDict", "os:system", "builtins:eval",
    "ast:Call", "subprocess:Popen", "torch.return_types:max", "tests.loadable:Pair",
    "compile_farm:Farm", "transformers:LlamaModel", "module:", ":", "torch.nn:Module",
]  # fmt: skip

# Changes of one copy: few, so that most of it stays valid.
_HOW_MANY = (1, 1, 1, 1, 2, 2, 3, 4, 6, 9)


def altered_message(
    message: Message, rng: random.Random, donors: Sequence[Message] = ()
) -> Message:
    """A copy with one to nine changes anywhere in it; parts may come from ``donors``."""
    copy = type(message)()
    copy.CopyFrom(message)
    for _ in range(rng.choice(_HOW_MANY)):
        _change(copy, rng, donors)
    return copy


def _change(root: Message, rng: random.Random, donors: Sequence[Message]) -> None:
    """One change, in any of the messages with the same chance or on a walk from the outermost."""
    message = root
    if rng.random() < 0.7:
        message = rng.choice(_all_messages(root))
    else:
        for _ in range(rng.randrange(14)):
            inner = _messages_in(message)
            if not inner:
                break
            message = rng.choice(inner)
    fields = list(message.DESCRIPTOR.fields)
    if not fields:
        return
    # Mostly what is there: a field that is added to a oneof removes what was.
    present = [field for field, _ in message.ListFields()]
    field = rng.choice(present if present and rng.random() < 0.7 else fields)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        message.ClearField(field.name)
    elif field.is_repeated:
        _change_list(getattr(message, field.name), field, message, rng, donors)
    elif rng.random() < 0.15:
        message.ClearField(field.name)
    elif field.message_type is not None:
        _replace(getattr(message, field.name), message, rng, donors)
    else:
        _set(message, field, rng)


def _messages_in(message: Message) -> list[Message]:
    found: list[Message] = []
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        if field.is_repeated:
            found.extend(value)
        else:
            found.append(value)
    return found


def _all_messages(message: Message) -> list[Message]:
    found = [message]
    for one in found:
        found.extend(_messages_in(one))
        if len(found) > 5000:
            break
    return found


def _replace(part: Message, owner: Message, rng: random.Random, donors: Sequence[Message]) -> None:
    """By another of its type from anywhere, by its own owner, or by nothing."""
    others = [m for donor in (owner, *donors) for m in _all_of(donor, part.DESCRIPTOR.full_name)]
    if others and rng.random() < 0.8:
        chosen = type(part)()
        chosen.CopyFrom(rng.choice(others))
        part.CopyFrom(chosen)
    else:
        part.Clear()
        part.SetInParent()


def _all_of(message: Message, name: str) -> list[Message]:
    return [one for one in _all_messages(message) if one.DESCRIPTOR.full_name == name]


def _change_list(
    items: Any, field: Any, owner: Message, rng: random.Random, donors: Sequence[Message]
) -> None:
    action = rng.randrange(6)
    if not items or action == 0:
        if field.message_type is not None:
            _replace(items.add(), owner, rng, donors)
        else:
            items.append(_value(field, rng))
        return
    index = rng.randrange(len(items))
    if action == 1:
        del items[index]
    elif action == 2:
        # From a few to many: what is a limit at 1000 is met at times.
        times = rng.choice([1, 1, 1, 2, 5, 70, 1100])
        size = items[index].ByteSize() if field.message_type is not None else 8
        items.extend([items[index]] * min(times, 1 + 20_000 // (size + 1)))
    elif action == 3 and field.message_type is not None:
        other = rng.randrange(len(items))
        one = type(items[index])()
        one.CopyFrom(items[index])
        items[index].CopyFrom(items[other])
        items[other].CopyFrom(one)
    elif field.message_type is not None:
        _replace(items[index], owner, rng, donors)
    else:
        items[index] = _value(field, rng)


def _set(message: Message, field: Any, rng: random.Random) -> None:
    value = _value(field, rng)
    near = field.cpp_type in _RANGES and rng.random() < 0.5
    if near:
        low, high = _RANGES[field.cpp_type]
        value = min(max(getattr(message, field.name) + rng.choice([-1, 1, 2]), low), high)
    setattr(message, field.name, value)


def _value(field: Any, rng: random.Random) -> Any:
    kind = field.cpp_type
    if kind in _RANGES:
        low, high = _RANGES[kind]
        if kind == FieldDescriptor.CPPTYPE_ENUM and rng.random() < 0.8:
            low, high = 0, 8
        return rng.choice([number for number in _NUMBERS if low <= number <= high])
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return rng.choice(_REALS)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.randbytes(rng.choice([0, 1, 4, 64, 1000]))
    if rng.random() < 0.002:
        return "x" * 2**20
    return rng.choice(TEXTS)


def altered_bytes(data: bytes, rng: random.Random, donors: Sequence[bytes] = ()) -> bytes:
    """A copy with flipped bits, bytes cut out, cut off, repeated or put in from a donor."""
    out = bytearray(data)
    for _ in range(rng.choice(_HOW_MANY)):
        action = rng.randrange(7)
        at = rng.randrange(len(out) + 1)
        end = min(at + rng.choice([1, 1, 2, 4, 16, 100]), len(out))
        if action <= 2 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif action == 3:
            out[at:end] = rng.randbytes(end - at)
        elif action == 4:
            del out[at:end]
        elif action == 5:
            source = rng.choice(donors) if donors else bytes(out)
            start = rng.randrange(len(source) + 1)
            out[at:at] = source[start : start + rng.choice([1, 4, 30, 300])]
        elif rng.random() < 0.3:
            del out[at:]
    return bytes(out)
