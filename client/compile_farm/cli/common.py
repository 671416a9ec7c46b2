"""What several commands share: the farm's address, JSON, and columns."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

if TYPE_CHECKING:
    from compile_farm.farm import Farm


def add_farm_arguments(parser: argparse.ArgumentParser) -> None:
    """--url, --trust and --json."""
    parser.add_argument("--url", metavar="HOST:PORT", help="the farm's address")
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


def open_farm(given: argparse.Namespace) -> Farm:
    """The farm that the arguments name."""
    from compile_farm.farm import Farm

    return Farm(given.url, trusted_keys=given.trust)


def print_json(value: Any) -> None:
    """A message or plain values, as JSON."""
    if isinstance(value, Message):
        value = MessageToDict(value, preserving_proto_field_name=True)
    print(json.dumps(value, indent=2))


def print_table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> None:
    """Columns as wide as their widest cell."""
    every = [header, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(header))]
    for row in every:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


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
