"""Assembles the command line, and turns whatever goes wrong into one line on standard error and an exit code."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, Any

import typer
from rich.markup import escape

from ortoo.model.errors import NoReplyError, NotFoundError, OrtooError, UnavailableError

from . import show
from .commands import COMMANDS
from .help import exit_codes
from .lazy import LazyGroup


class _Root(LazyGroup):
    entries = COMMANDS


app = typer.Typer(
    cls=_Root,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Ortoo, a message queue.\n\nCommands use the server at --url (or $ORTOO_URL), or of a context (see context); with "
    "--data DIR they open a data directory directly, without a server. COMMAND --help explains each command, with examples.",
    epilog=exit_codes(),
)

# Newer versions of typer bring a click of their own, so its errors are found through one that typer exports.
_UsageError: Any = typer.BadParameter.__mro__[1]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False) -> None:
    if version:
        from ortoo import __version__

        show.line(f"ortoo {__version__}")
        raise typer.Exit


def main() -> None:
    signal.signal(signal.SIGTERM, _end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without our marks is no reason to fail
    sys.exit(run(sys.argv[1:]))


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # so that what is open is closed, and what is leased given back


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    try:
        code = app(arguments, prog_name="ortoo", standalone_mode=False)
        show.flush()
        return code if isinstance(code, int) else 0
    except _UsageError as error:
        return _complain_of_usage(error)
    except typer.Abort:
        return _complain("aborted; nothing was changed", 1)
    except typer.Exit as ended:  # the last flush found the reader gone
        return ended.exit_code
    except NoReplyError as error:
        return _complain(error, 5)
    except NotFoundError as error:
        return _complain(error, 3)
    except UnavailableError as error:
        return _complain(error, 4)
    except (OrtooError, OSError) as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return 130


def _complain(error: Exception | str, code: int) -> int:
    kind = f" ({error.code})" if isinstance(error, OrtooError) else ""
    show.err.print(f"[red]error[/red]{kind}: {escape(show.printable(str(error)))}")
    return code


def _complain_of_usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # a command that needs more, given nothing: its help was printed
        error.show()
        return 2
    command = error.ctx.command_path if error.ctx is not None else "ortoo"
    return _complain(f"{error.format_message().rstrip('.')} (see {command} --help)", 2)
