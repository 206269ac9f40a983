"""What every command's help has at its end: examples to copy, and the exit codes."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer
from rich.markup import escape

EXIT_CODES = {
    0: "done",
    1: "request refused; the line on standard error says why",
    2: "wrong usage",
    3: "no such topic, group, message or directory",
    4: "server unreachable, or directory in use",
    5: "nobody answered the request in time",
    130: "Ctrl-C",
    141: "the reader of the output closed it, as in `| head`",
    143: "terminated (SIGTERM)",
}
EXAMPLE = "$ "

Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="skip the confirmation")]


def examples(*lines: str) -> str:
    """An epilog: typer gives each paragraph a line of its own."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"[cyan]{EXAMPLE}{escape(line)}[/cyan]" for line in lines)])


def exit_codes() -> str:
    return "Exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())


def unwrap(app: typer.Typer) -> None:
    """Joins the lines of each paragraph, so that the terminal's width decides where they break."""
    for command in app.registered_commands:
        text = inspect.getdoc(command.callback) or ""
        command.help = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            unwrap(group.typer_instance)
