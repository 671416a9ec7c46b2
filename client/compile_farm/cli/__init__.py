"""``compile-farm``: the command line. One file a command; this one finds and runs it.

Exit codes: 0 done; 1 the farm tried and failed, or something is unhealthy; 2 a mistake in the
command or in the user's file; 3 the farm can't be reached; 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from compile_farm.errors import CompileFailedError, CompileFarmError, FarmUnavailableError

EXIT_DONE, EXIT_FAILED, EXIT_MISTAKE, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

_COMMANDS = ("serve", "compile", "status", "artifacts", "report", "doctor")

_EPILOG = """\
exit codes:
  0    done
  1    the farm tried and failed, or something is unhealthy
  2    a mistake in the command or in your file
  3    the farm can't be reached
  130  interrupted

The farm's address comes from --url, else COMPILE_FARM_URL, else 127.0.0.1:8815.
"""


class UsageError(CompileFarmError):
    """A mistake in the command, or in the file that it names."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; the exit code. Never a traceback for a mistake of the user's."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        code: int = given.run(given)
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
        # The reader of a pipe (head, less) has seen enough.
        sys.stderr.close()
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
    for name in _COMMANDS:
        module = importlib.import_module(f"compile_farm.cli.{name}")
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
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
