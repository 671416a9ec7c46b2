"""Run a farm on this machine: gateway, store and worker in one command.

Without --store it keeps artifacts on this disk and needs nothing else. With it, artifacts are read
through the tiers in the order given and written to all:

  compile-farm serve --store redis://HOST:6379/0 --store s3://BUCKET/PREFIX
"""

from __future__ import annotations

import argparse
from pathlib import Path

from compile_farm.cli.common import (
    UsageError,
    add_unconfined_argument,
    device,
    positive,
    server_missing,
)

HELP = "run a farm on this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--listen",
        default="127.0.0.1:8815",
        metavar="HOST:PORT",
        help="where to listen (default %(default)s; port 0 takes a free one)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="artifacts, the signing key and the compiler's caches "
        "(default COMPILE_FARM_DATA, then ~/.local/share/compile-farm)",
    )
    parser.add_argument(
        "--store",
        action="append",
        default=[],
        metavar="URL",
        help="a tier of the store, may be repeated: disk:PATH, redis://HOST:PORT/DB, "
        "s3://BUCKET/PREFIX",
    )
    parser.add_argument(
        "--device",
        type=device,
        default="auto",
        metavar="auto|cpu|cuda:N",
        help="where its worker compiles, verifies and measures (default %(default)s: the first GPU "
        "if there is one)",
    )
    parser.add_argument(
        "--library",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module that registers custom operators which graphs may call, for instance "
        "transformers.integrations.moe; may be repeated",
    )
    add_unconfined_argument(parser)
    parser.add_argument(
        "--job-timeout",
        type=positive,
        default=1800,
        metavar="SECONDS",
        help="a compile that takes longer is stopped (default %(default)s)",
    )
    parser.add_argument(
        "--memory-limit",
        type=positive,
        default=32,
        metavar="GIB",
        help="memory of one compile, its compilers included (default %(default)s)",
    )


def run(given: argparse.Namespace) -> int:
    """Runs until SIGINT or SIGTERM."""
    try:
        from compiler_service import app, config, errors
        from compiler_service.worker.limits import GIB, Limits
    except ImportError as error:
        raise server_missing(error) from error
    try:
        settings = config.ServeConfig(
            listen=given.listen,
            data_dir=given.data or config.default_data_dir(),
            stores=tuple(given.store),
            device=given.device,
            confined=not given.unconfined,
            libraries=tuple(given.library),
            limits=Limits(
                job_seconds=given.job_timeout, memory_bytes=int(given.memory_limit * GIB)
            ),
        )
    except errors.ConfigError as error:
        raise UsageError(str(error)) from error
    return app.main(settings)
