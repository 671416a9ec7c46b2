"""How many parts a serialised message has, found out before it is parsed.

In: bytes from a stranger and the type that they are said to be. Out: nothing, or TooManyPartsError:
protobuf's parser makes up to 44 bytes of memory from each byte, and has no limit of its own.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from compile_farm.limits import MAX_MESSAGE_DEPTH, MAX_PARTS

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

# Types on the wire that have a fixed length, and those of fields that are text (FieldDescriptor).
_VARINT, _LENGTH = 0, 2
_FIXED = {1: 8, 5: 4}
_TEXTS = frozenset({9, 12})


class TooManyPartsError(ValueError):
    """The message has more parts than a reader takes."""


class _BrokenError(Exception):
    """Bytes that no parser takes either."""


def check_parts(data: bytes, descriptor: Any, limit: int = MAX_PARTS) -> None:
    """Raises TooManyPartsError; what is no message at all passes, for the parser to refuse."""
    if len(data) <= 2 * limit:
        return  # a part has two bytes at least
    try:
        _count(data, descriptor, limit)
    except (_BrokenError, IndexError):
        return


def _count(data: bytes, descriptor: Descriptor, limit: int) -> None:
    parts = position = 0
    end, fields = len(data), _fields(descriptor)
    # The messages around this one: where each ends, and its fields.
    around: list[tuple[int, dict[int, Descriptor | bool]]] = []
    while True:
        while position == end:
            if not around:
                return
            end, fields = around.pop()
        tag, position = _varint(data, position)
        wire_type = tag & 7
        if wire_type == _LENGTH:
            length, position = _varint(data, position)
            field = fields.get(tag >> 3, True)
            # Of numbers in a row, each byte may be one.
            parts += 1 if field else length
            if parts > limit:
                raise TooManyPartsError(f"it has over {limit} parts")
            if field is True or field is False:
                position += length
            else:
                around.append((end, fields))
                if position + length > end or len(around) > MAX_MESSAGE_DEPTH:
                    raise _BrokenError
                end, fields = position + length, _fields(field)
        elif wire_type == _VARINT:
            _, position = _varint(data, position)
        elif wire_type in _FIXED:
            position += _FIXED[wire_type]
        else:
            raise _BrokenError  # groups, which no proto3 message has
        if position > end:
            raise _BrokenError


@functools.cache
def _fields(descriptor: Descriptor) -> dict[int, Descriptor | bool]:
    """By number: the message that the field holds; True for text, False for numbers."""
    return {field.number: field.message_type or field.type in _TEXTS for field in descriptor.fields}


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift > 63:
            raise _BrokenError
