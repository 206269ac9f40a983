"""The commands as Markdown, for docs/cli.md: what `--help` says, once more on paper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from rich.text import Text

from .connection import PANEL
from .help import EXAMPLE, EXIT_CODES
from .main import app
from .setting_options import PANEL as SETTINGS


def commands_reference() -> str:
    sections: list[str] = []
    for path, command in _walk(typer.main.get_command(app), ()):
        if hasattr(command, "commands"):
            sections.append(f"### ortoo {' '.join(path)}\n\n{command.help}")
        else:
            sections.append("\n\n".join(_section(path, command)))
    return "\n\n".join(sections)


def shared_options() -> str:
    """Those that say where the queue is, told once."""
    publish = dict(_walk(typer.main.get_command(app), ()))[("publish",)]
    return _options([option for option in publish.params if _is_shared(option)])


def exit_codes_table() -> str:
    return "\n".join(
        ["| code | |", "|---|---|", *(f"| {code} | {_escaped(meaning)} |" for code, meaning in EXIT_CODES.items())]
    )


def _walk(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from _walk(command, (*path, name))


def _section(path: tuple[str, ...], command: Any) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    own = [parameter for parameter in command.params if parameter not in arguments and not _is_shared(parameter)]
    options = [parameter for parameter in own if not _is_setting(parameter)]
    words = [_argument(argument) for argument in arguments]
    yield f"{'#' * (len(path) + 2)} ortoo {' '.join(path)}"
    yield f"`{' '.join(['ortoo', *path, *words])}`"
    yield _escaped(command.help)
    if options:
        yield _options(options)
    if len(options) < len(own):
        yield "Each [topic setting](topic-settings.md) is an option, too, such as `--max-attempts 5`, `--ttl 1h` and `--no-dlq`."
    examples = [Text.from_markup(line).plain for line in (command.epilog or "").split("\n\n")]
    yield "\n".join(["```sh", *(line.removeprefix(EXAMPLE) for line in examples if line.startswith(EXAMPLE)), "```"])


def _is_shared(parameter: Any) -> bool:
    return getattr(parameter, "rich_help_panel", None) == PANEL


def _is_setting(parameter: Any) -> bool:
    return str(getattr(parameter, "rich_help_panel", None)).startswith(SETTINGS)


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _options(options: list[Any]) -> str:
    rows = ["| option | meaning | default |", "|---|---|---|"]
    rows += [f"| {_names(option)} | {_escaped(option.help)} | {_default(option)} |" for option in options]
    return "\n".join(rows)


def _names(option: Any) -> str:
    takes = "" if option.is_flag else f" {option.metavar or option.name.rstrip('_').upper()}"
    names = [*(name for name in option.opts if name.startswith("--")), *option.secondary_opts]
    short = [name for name in option.opts if not name.startswith("--")]
    return ", ".join(f"`{name}{takes}`".replace("|", "\\|") for name in [*short, *names])


def _default(option: Any) -> str:
    shown = option.show_default if isinstance(option.show_default, str) else None
    if shown is None and option.show_default and option.default not in (None, False):
        shown = str(option.default)
    variable = f"`${option.envvar}`" if option.envvar else ""
    return ", ".join(part for part in (variable, f"`{shown}`" if shown else "") if part)


def _escaped(text: str) -> str:
    """A bar would end a table's cell, and a bare pair of angle brackets would be taken for HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;")
