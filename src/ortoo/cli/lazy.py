"""Commands that are imported when they run: help and completion need their names and a line each, and start at once."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from .help import unwrap


class Entry(NamedTuple):
    """Where a command is. Without a function it is a group, and stands in `app` of its module."""

    panel: str
    help: str  # the first line of its own help
    module: str
    function: str | None = None
    epilog: str = "EXAMPLES"
    more: tuple[str, ...] = ()  # modules that add commands to the group


class Commands(MutableMapping[str, Any]):
    """By name. Looking one up imports it."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries = entries
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._entries[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands stay")


def _load(name: str, entry: Entry) -> Any:
    module = import_module(f"{__package__}.{entry.module}")
    for more in entry.more:
        import_module(f"{__package__}.{more}")
    parent = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    if entry.function is None:
        parent.add_typer(module.app, name=name, rich_help_panel=entry.panel)
    else:
        epilog = getattr(module, entry.epilog)
        parent.command(name, rich_help_panel=entry.panel, epilog=epilog)(getattr(module, entry.function))
    unwrap(parent)
    return typer.main.get_group(parent).commands[name]


class LazyGroup(TyperGroup):
    """A group of such commands."""

    entries: ClassVar[dict[str, Entry]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = Commands(self.entries)
        self._is_running = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """To be run the command itself; to be listed no more than what is said of it."""
        if cmd_name not in self.entries:
            return None
        if self._is_running:
            return self.commands[cmd_name]
        entry = self.entries[cmd_name]
        return TyperCommand(cmd_name, help=entry.help, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self._is_running = True
        try:
            return super().resolve_command(ctx, args)
        finally:
            self._is_running = False
