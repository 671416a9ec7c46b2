"""What several commands share: the farm's address, types of arguments, JSON, and columns."""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from compile_farm.errors import ArtifactNotFoundError, CompileFarmError

if TYPE_CHECKING:
    from compile_farm.farm import Farm


class UsageError(CompileFarmError):
    """A mistake in the command, or in the file that it names."""


def server_missing(error: ImportError) -> UsageError:
    """For a command that needs more than a client has."""
    return UsageError(
        f"the server's packages are not installed ({error.name} is missing)",
        remedy="pip install 'compile-farm[server]'",
    )


def add_farm_arguments(parser: argparse.ArgumentParser) -> None:
    """--url, --trust and --json."""
    parser.add_argument(
        "--url",
        metavar="HOST:PORT",
        help="the farm's address, grpcs://HOST:PORT for TLS (default: COMPILE_FARM_URL, then "
        "127.0.0.1:8815)",
    )
    parser.add_argument(
        "--trust",
        action="append",
        metavar="KEY",
        help="a public key that may sign artifacts, or a file with such; may be repeated "
        "(default: COMPILE_FARM_TRUSTED_KEYS; a farm on this host is trusted at first use)",
    )
    add_json_argument(parser)


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """--json alone."""
    parser.add_argument("--json", action="store_true", help="print JSON for another program")


def add_unconfined_argument(parser: argparse.ArgumentParser) -> None:
    """--unconfined alone."""
    parser.add_argument(
        "--unconfined",
        action="store_true",
        help="let compiles read and write all that this user can: for a GPU driver that needs "
        "files which the sandbox may not open, and only for graphs of people whom you trust",
    )


def add_option_arguments(parser: argparse.ArgumentParser) -> None:
    """--effort and --numerics: what is asked of a compile."""
    parser.add_argument(
        "--effort",
        choices=("fast", "tuned"),
        default="fast",
        help="tuned measures several ways to compile it and takes the fastest (default "
        "%(default)s)",
    )
    parser.add_argument(
        "--numerics",
        choices=("strict", "fast"),
        default="strict",
        help="strict keeps eager's rounding in bfloat16 and float16 (default %(default)s)",
    )


def device(text: str) -> str:
    """ "auto", "cpu", "cuda" or "cuda:N"."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not auto, cpu or cuda:N")
    return text


def positive(text: str) -> float:
    """A finite number over 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number over 0")
    return number


def positive_whole(text: str) -> int:
    """A whole number over 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number over 0")
    return int(text)


def open_farm(given: argparse.Namespace) -> Farm:
    """The farm that the arguments name; raises UsageError for an address or key that is none."""
    from compile_farm.farm import Farm
    from compile_farm.transport import Address

    try:
        farm = Farm(given.url, trusted_keys=given.trust)
        Address(farm.url)
    except CompileFarmError as error:
        raise UsageError(error.message, remedy=error.remedy) from error
    return farm


def whole_key(digits: str, farm: Farm) -> str:
    """The only key of the farm that begins with these digits.

    Raises UsageError for what is no key and for several, ArtifactNotFoundError.
    """
    if not re.fullmatch("[0-9a-f]{1,64}", digits):
        raise UsageError(
            f"{digits[:80]!r} is no key", remedy="a key has 64 hexadecimal digits, in lower case"
        )
    if len(digits) == 64:
        return digits
    found = {one.key for one in farm.artifacts() if one.key.startswith(digits)}
    if not found:
        raise ArtifactNotFoundError(
            f"the farm at {farm.url} has no key that begins with {digits}",
            remedy="compile-farm artifacts lists what it has",
        )
    if len(found) > 1:
        raise UsageError(f"{len(found)} keys begin with {digits}", remedy="give more digits")
    return found.pop()


def print_json(value: Any) -> None:
    """A message or plain values, as JSON."""
    print(json.dumps(_plain(value), indent=2))


def _plain(value: Any) -> Any:
    """Messages as dicts of all their fields.

    Not protobuf's own JSON, which leaves out what is 0 and writes 64-bit numbers as strings: both
    surprise who compares them in a script.
    """
    if isinstance(value, Message):
        return {
            field.name: _named(field.enum_type, _plain(getattr(value, field.name)))
            for field in value.DESCRIPTOR.fields
            if not field.has_presence or value.HasField(field.name)
        }
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value]


def _named(enum: Any, value: Any) -> Any:
    """ROLE_BUFFER and not 2; a value newer than this client stays a number."""
    if enum is None:
        return value
    if isinstance(value, list):
        return [_named(enum, one) for one in value]
    known = enum.values_by_number.get(value)
    return known.name if known else value


def print_table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> None:
    """Columns as wide as their widest cell."""
    every = [header, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(header))]
    for row in every:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def local_time(seconds: int) -> str:
    """A Unix time in this host's time zone, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def readable_bytes(count: float) -> str:
    """1536 is "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def readable_seconds(seconds: float) -> str:
    """0.0012 is "1.20 ms"."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError("unreachable")
