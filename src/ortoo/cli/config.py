"""`ortoo config`: the settings of a server, and where they come from."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from msgspec.structs import asdict
from rich.markup import escape

from . import parse, show
from .help import Json, examples
from .serve import ConfigFile, Set
from .template import Template, check_one, format_option

app = typer.Typer(no_args_is_help=True, help="Show and check the settings of the server.")
Format = Annotated[Template | None, format_option(("name", "value", "source", "default"))]


@app.command("show", epilog=examples("ortoo config show", "ortoo config show --config ortoo.toml --json"))
def show_config(config: ConfigFile = None, set_: Set = None, json: Json = False, template: Format = None) -> None:
    """Show every setting of the server, its value, and where the value came from.

    Flags override the environment, which overrides the file, which overrides the defaults. Secrets are masked.
    What a server runs with, it tells at /v1/settings and as queue.settings(), with the scope admin.
    """
    from ortoo.app.config import load_settings

    check_one(json, template)
    shown = load_settings(config, parse.pairs(set_ or (), "a setting"), os.environ).shown()
    if template is not None:
        template.print([{**asdict(one), "source": str(one.source)} for one in shown])
        return
    if json:
        show.json_document(shown)
        return
    rows = [(setting.name, _plain(setting.value), str(setting.source)) for setting in shown]
    show.table(("setting", "value", "source"), rows)


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@app.command(epilog=examples("ortoo config check", "ortoo config check --config ortoo.toml"))
def check(config: ConfigFile = None, set_: Set = None) -> None:
    """Check the settings of the server, without starting it; the exit code is 1 if something is wrong.

    Looks at the file, the environment and flags, as `ortoo serve` does, and warns of what is allowed and dangerous.
    """
    from ortoo.app.checking import check_settings

    errors, warnings = check_settings(config, parse.pairs(set_ or (), "a setting"), os.environ)
    for error in errors:
        show.line(f"[red]✗[/red] {escape(show.printable(error))}")
    for warning in warnings:
        show.line(f"[yellow]![/yellow] {escape(show.printable(warning))}")
    if errors:
        raise typer.Exit(1)
    show.done("the settings are right" + (f", with {show.count(len(warnings), 'warning')}" if warnings else ""))
