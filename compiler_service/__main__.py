"""``python -m compiler_service``: what ``compile-farm serve`` runs, without the client's CLI."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compiler_service.app import main
from compiler_service.config import DEFAULT_LISTEN, ServeConfig, default_data_dir
from compiler_service.errors import ConfigError


def _config(arguments: list[str]) -> ServeConfig:
    parser = argparse.ArgumentParser(prog="python -m compiler_service", description=__doc__)
    parser.add_argument("--listen", default=DEFAULT_LISTEN, metavar="HOST:PORT")
    parser.add_argument("--data", type=Path, default=default_data_dir(), metavar="DIR")
    parser.add_argument("--store", action="append", default=[], metavar="URL")
    parser.add_argument("--device", default="auto", metavar="auto|cpu|cuda:N")
    parser.add_argument("--library", action="append", default=[], metavar="MODULE")
    given = parser.parse_args(arguments)
    return ServeConfig(
        listen=given.listen,
        data_dir=given.data,
        stores=tuple(given.store),
        device=given.device,
        libraries=tuple(given.library),
    )


if __name__ == "__main__":
    try:
        sys.exit(main(_config(sys.argv[1:])))
    except ConfigError as error:
        sys.exit(f"error: {error}")
