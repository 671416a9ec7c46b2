"""``compile-farm``: the command line. One file a command; this one finds and runs it.

In: arguments. Out: an exit code (the epilog of --help lists them), results on stdout, progress and
errors on stderr. Loads neither torch nor grpc before a command needs them.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from compile_farm.cli.common import UsageError
from compile_farm.errors import CompileFailedError, CompileFarmError, FarmUnavailableError

EXIT_DONE, EXIT_FAILED, EXIT_MISTAKE, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

COMMANDS = (
    "serve",
    "compile",
    "explain",
    "status",
    "artifacts",
    "quarantine",
    "release",
    "prefetch",
    "report",
    "doctor",
)

_EPILOG = """\
exit codes:
  0    done
  1    it could not be done: the compile failed, the farm lacks it, something is unhealthy
  2    a mistake in the command or in your file
  3    the farm can't be reached; trying again may work
  130  interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; the exit code. Never a traceback for a mistake of the user's."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        code: int = given.run(given)
        # Here, where a reader that has gone is no surprise, and not when the interpreter ends.
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _complain(error, EXIT_MISTAKE)
    except FarmUnavailableError as error:
        return _complain(error, EXIT_UNAVAILABLE)
    except CompileFailedError as error:
        return _complain(error, EXIT_FAILED, f"compile failed ({error.reason})")
    except CompileFarmError as error:
        return _complain(error, EXIT_FAILED)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough; what is left has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="compile-farm",
        description="Compile a PyTorch graph once, and let the whole fleet load it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = importlib.import_module(f"compile_farm.cli.{name}")
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from compile_farm import __version__

        print(f"compile-farm {__version__}")
        parser.exit()


def _complain(error: CompileFarmError, code: int, what: str = "error") -> int:
    print(f"{what}: {error.message}", file=sys.stderr)
    if error.remedy:
        print(f"  what to do: {error.remedy}", file=sys.stderr)
    return code
