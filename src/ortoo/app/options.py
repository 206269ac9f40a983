"""Every server setting by its dotted name: its variable, its flag, what it takes, and how text becomes a value of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect as types

from ortoo.model.errors import ConfigError
from ortoo.model.masking import MASK
from ortoo.model.settings import Settings
from ortoo.model.topic_defaults import TopicDefaults

PREFIX = "ORTOO_"

_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class Option(msgspec.Struct, frozen=True):
    name: str  # "http.port"
    hint: Any  # its annotation, with bounds
    default: Any
    description: str
    secret: bool

    @property
    def variable(self) -> str:
        return PREFIX + self.name.replace(".", "_").upper()

    @property
    def flag(self) -> str:
        return self.flag_of(self.name)

    @staticmethod
    def flag_of(name: str) -> str:
        return "--" + name.replace(".", "-").replace("_", "-")

    @property
    def takes(self) -> str:
        """What is allowed, in words."""
        return _takes(_kind(self))

    def check(self, value: Any, where: str) -> Any:
        """The value as the setting holds it. ConfigError when it is not allowed; `where` names its source."""
        try:
            return msgspec.convert(value, self.hint)
        except msgspec.ValidationError:
            raise ConfigError(f"{where}: {self.name} takes {self.takes}{self._not(value)}") from None

    def parse(self, text: str, where: str) -> Any:
        """The value that a variable or a flag stands for; lists are separated by commas, or written as in a file."""
        kind = _kind(self)
        if isinstance(kind, types.ListType):
            if text.startswith("["):
                return self.check(_list(text, where), where)
            return self.check([item.strip() for item in text.split(",") if item.strip()], where)
        if not text:
            raise ConfigError(f"{where} is empty: {self.name} takes {self.takes}; leave it out to have the default")
        if isinstance(kind, types.BoolType):
            return self.check(_TRUTH.get(text.lower(), text), where)
        if isinstance(kind, types.IntType | types.FloatType):
            return self.check(_number(text), where)
        return self.check(text, where)

    def show(self, value: Any) -> Any:
        return MASK if self.secret and value not in (None, []) else value

    def _not(self, value: Any) -> str:
        """What it is instead. What must have a certain form holds a secret, or may by mistake: it is not repeated."""
        kind = _kind(self)
        return "" if isinstance(kind, types.StrType) and kind.pattern else f", not {value!r}"


@cache
def options() -> dict[str, Option]:
    """All of them, in the order of the documents."""
    return {option.name: option for option in _walk(Settings, Settings(), "")}


@cache
def sections() -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in options() if "." in name)


def _walk(struct: type, defaults: Any, prefix: str) -> Iterator[Option]:
    for name, hint in get_type_hints(struct, include_extras=True).items():
        value = getattr(defaults, name)
        if isinstance(value, TopicDefaults):
            continue  # no option for each: the settings of topics have their own rules
        if isinstance(value, msgspec.Struct):
            yield from _walk(type(value), value, f"{prefix}{name}.")
        else:
            meta = _meta(hint)
            secret = bool(meta.extra and meta.extra.get("secret"))
            yield Option(f"{prefix}{name}", hint, value, meta.description or "", secret)


def _meta(hint: Any) -> msgspec.Meta:
    """The one with the description; it comes last, after the bounds of a named type."""
    return get_args(hint)[-1] if get_origin(hint) is Annotated else msgspec.Meta()


def _kind(option: Option) -> types.Type:
    kind = types.type_info(option.hint)
    if isinstance(kind, types.Metadata):
        kind = kind.type
    return kind.types[0] if isinstance(kind, types.UnionType) else kind


def _list(text: str, where: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise ConfigError(f'{where}: this is not a list; write it as ["one", "two"], or as one,two') from None


def _number(text: str) -> Any:
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    return text


def _takes(kind: types.Type) -> str:
    match kind:
        case types.BoolType():
            return "true or false"
        case types.IntType():
            return f"a whole number from {kind.ge} to {kind.le}"
        case types.FloatType():
            return f"a number from {kind.ge} to {kind.le}"
        case types.LiteralType():
            return "one of " + ", ".join(f"`{value}`" for value in kind.values)
        case types.ListType(item_type=types.LiteralType(values=values)):
            return "a list of " + ", ".join(f"`{value}`" for value in values)
        case types.ListType(item_type=types.StrType(pattern=str(pattern))):
            return f"a list of {_PATTERNS[pattern]}"
        case types.ListType():
            return "a list of texts"
        case types.StrType(pattern=str(pattern)):
            return _PATTERNS[pattern]
    return "a text"


_PATTERNS = {
    r"^[^=]+=[^=]+$": "`FILTER=TOPIC`",
    r"^(file|command):.": "`file:PATH` or `command:CMD`",
    r"^(read|write|admin)(,(read|write|admin))*$": "`read`, `write` or `admin`, or several, with commas",
    r"^[!-~]{16,}$": "a text of at least 16 visible ASCII characters, without spaces",
    r"^[!-~]+$": "a text of visible ASCII characters, without spaces",
    r"^[A-Za-z][A-Za-z0-9+]*://.": "`redis://HOST:PORT` or `redis+sentinel://HOST:PORT,HOST:PORT/SERVICE`",
    r"^(queen|mqueue|goqueue|mqtt-queues)=\d{1,5}$": "`NAME=PORT`",
}
