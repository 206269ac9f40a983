"""Every topic setting as an option of a command, beside NAME=VALUE and --set."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from ortoo.model.setting_texts import PLAIN_NUMBERS
from ortoo.model.topic import TopicConfig
from ortoo.model.topic_settings import SETTINGS

from . import parse
from .connection import Target

Settings = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME=VALUE]...", help="settings, e.g. max_attempts=5 lease=1m", show_default=False),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="any setting; repeatable", show_default=False),
]
Chosen = dict[str, str] | None  # the texts of the options that were given, by setting

PANEL = "Settings"
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Gives the command an option for each topic setting, and hands it those that were given as `chosen`."""
    options = {_parameter(name): (name, _option(section, name, text)) for section, name, text in _settings()}

    @functools.wraps(command)
    def run(target: Target, *args: Any, **kwargs: Any) -> None:
        given = {setting: kwargs.pop(parameter) for parameter, (setting, _) in options.items()}
        texts = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in given.items()
            if value is not None
        }
        command(target, *args, **kwargs, chosen=texts)

    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "chosen"]
    more = [
        inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)
        for parameter, (_, annotation) in options.items()
    ]
    run.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    return run


def all_settings(settings: Sequence[str] | None, set_: Sequence[str] | None, chosen: Chosen) -> dict[str, Any]:
    """As values. One that is given twice is a mistake, for nobody could tell which counts."""
    texts = [*(settings or ()), *(set_ or ()), *(f"{name}={value}" for name, value in (chosen or {}).items())]
    names = [text.partition("=")[0] for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(f"{name} is given more than once")
    return parse.topic_settings(texts)


def _settings() -> list[tuple[str, str, str]]:
    return [(section, name, text) for section, found in SETTINGS.items() for name, text in found.items()]


def _parameter(name: str) -> str:
    return f"setting_{name}"


def _option(section: str, name: str, text: str) -> Any:
    word, hint = name.replace("_", "-"), get_type_hints(TopicConfig)[name]
    option = functools.partial(
        typer.Option, help=_help(text), show_default=False, rich_help_panel=f"{PANEL}: {section.lower()}"
    )
    if hint is bool:
        return Annotated[bool | None, option(f"--{word}/--no-{word}")]
    return Annotated[str | None, option(f"--{word}", metavar=_metavar(name, hint))]


def _metavar(name: str, hint: Any) -> str:
    kind = next(kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType)
    if get_origin(hint) is Literal:
        return "|".join(get_args(hint))
    if get_origin(hint) is dict:
        return "NAME=VALUE,…"
    if kind is int:
        return "SIZE" if name.endswith("_bytes") else "N"
    if kind is float:
        return "N" if name in PLAIN_NUMBERS else "DURATION"
    return name.rpartition("_")[2].upper()


def _help(text: str) -> str:
    """Without links, which lead nowhere in a terminal."""
    return _LINK.sub(r"\1", text).replace("`", "")
