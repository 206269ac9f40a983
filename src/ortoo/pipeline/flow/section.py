"""One mapping of a pipeline's file, asked for key by key. Whatever was not asked for by the end is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Protocol, get_args, overload

import msgspec

from .document import Entry, Field
from .intervals import INTERVALS, to_interval
from .problems import Place, Problems, nearest
from .schema import SchemaError, column_names

_WORDS = {str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a mapping"}


def kind_of(value: Any) -> str:
    return _WORDS.get(type(value), "nothing")


class Surroundings(Protocol):
    """What a reader of one part needs to know of the whole."""

    problems: Problems
    folder: Path  # where relative paths begin

    def known(self, section: Section, key: str, name: str) -> str:
        """The source or step of that name, which `key` asks for."""


class Declared(msgspec.Struct, frozen=True):
    """What a file says of a source, a step or a sink, whichever it is."""

    name: str
    place: Place


class Section:
    def __init__(self, entry: Entry, what: str, problems: Problems) -> None:
        self.what = what
        self.place = entry.place
        self.problems = problems
        self._asked: list[str] = []
        self._fields: dict[str, Field] = {}
        self.is_mapping = isinstance(entry.value, dict)
        if self.is_mapping:
            self._fields = entry.value
        else:
            problems.add(entry.place, f"{what} must be a mapping (key: value), not {kind_of(entry.value)}")

    def __contains__(self, key: str) -> bool:
        return key in self._fields

    def unread(self) -> list[str]:
        return [key for key in self._fields if key not in self._asked]

    def place_of(self, key: str) -> Place:
        return self._fields[key].place if key in self._fields else self.place

    def complain(self, key: str, text: str) -> None:
        """About the value of a key; about the whole section if the key is not there."""
        place = self._fields[key].entry.place if key in self._fields else self.place
        self.problems.add(place, f"{self.what}: {text}")

    def entry(self, key: str, needed: bool = False) -> Entry | None:
        self._asked.append(key)
        if key in self._fields:
            return self._fields[key].entry
        if needed and self.is_mapping:
            self.complain(key, f"`{key}` is missing")
        return None

    def section(self, key: str, what: str, needed: bool = False) -> Section | None:
        entry = self.entry(key, needed)
        return Section(entry, what, self.problems) if entry is not None else None

    @overload
    def text(self, key: str, needed: Literal[True]) -> str: ...
    @overload
    def text(self, key: str, needed: bool = False) -> str | None: ...
    def text(self, key: str, needed: bool = False) -> str | None:
        """Not empty; '' stands for one that is wrong or missing though needed."""
        entry = self.entry(key, needed)
        if entry is None:
            return "" if needed else None
        if isinstance(entry.value, str) and entry.value.strip():
            return entry.value
        found = "an empty one" if isinstance(entry.value, str) else kind_of(entry.value)
        self.complain(key, f"`{key}` must be a text, not {found}")
        return ""

    def loose_text(self, key: str) -> str | None:
        """A text that may be empty, for what often comes from the environment."""
        entry = self.entry(key)
        if entry is None or entry.value is None or entry.value == "":
            return None
        if isinstance(entry.value, str):
            return entry.value
        self.complain(key, f"`{key}` must be a text, not {kind_of(entry.value)}; put it in quotes")
        return None

    def whole(self, key: str, least: int = 1) -> int | None:
        entry = self.entry(key)
        if entry is None:
            return None
        value = entry.value
        if isinstance(value, str) and value.isascii() and value.isdigit():  # from the environment
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        self.complain(key, f"`{key}` must be a whole number from {least} on, not {_shown(entry)}")
        return None

    def truth(self, key: str) -> bool | None:
        entry = self.entry(key)
        if entry is None:
            return None
        if isinstance(entry.value, bool) or entry.value in ("true", "false"):
            return entry.value in (True, "true")
        self.complain(key, f"`{key}` must be true or false, not {_shown(entry)}")
        return None

    def choice(self, key: str, choices: Any, default: Any) -> Any:
        """One of the words of a Literal type."""
        words: tuple[str, ...] = get_args(choices)
        entry = self.entry(key)
        if entry is None:
            return default
        if entry.value in words:
            return entry.value
        meant = nearest(entry.value, words) if isinstance(entry.value, str) else ""
        self.complain(key, f"`{key}` must be {' or '.join(words)}, not {_shown(entry)}{meant}")
        return default

    def interval(self, key: str, needed: bool = False) -> str | None:
        entry = self.entry(key, needed)
        if entry is None:
            return "" if needed else None
        found = to_interval(entry.value) if isinstance(entry.value, str) else None
        if found is None:
            self.complain(key, f"`{key}` must be an interval such as {INTERVALS}, not {_shown(entry)}")
        return found or ""

    def schema(self, key: str) -> str | None:
        """Of columns, as Spark writes it."""
        text = self.text(key)
        if text:
            try:
                column_names(text)
            except SchemaError as error:
                self.complain(key, f"`{key}` is none that Spark takes: {error}")
        return text

    def texts(self, key: str, needed: bool = False) -> tuple[str, ...]:
        """A list of texts, or one alone."""
        entry = self.entry(key, needed)
        if entry is None:
            return ()
        items = entry.value if isinstance(entry.value, list) else [entry]
        wrong = [item for item in items if not (isinstance(item.value, str) and item.value.strip())]
        for item in wrong:
            self.problems.add(item.place, f"{self.what}: `{key}` takes texts, not {_shown(item)}")
        if not items:
            self.complain(key, f"`{key}` is an empty list")
        return () if wrong else tuple(item.value for item in items)

    def table(self, key: str, needed: bool = False) -> dict[str, str]:
        """Names and plain values, as Spark takes its options: all of them become texts."""
        section = self.section(key, f"{self.what}, `{key}`", needed)
        if section is None:
            return {}
        table: dict[str, str] = {}
        for name, (_, entry) in section._fields.items():
            if isinstance(entry.value, list | dict) or entry.value is None:
                section.complain(name, f"`{name}` must be a plain value, not {kind_of(entry.value)}")
            else:
                table[name] = str(entry.value).lower() if isinstance(entry.value, bool) else str(entry.value)
        return table

    def finish(self) -> None:
        known = list(dict.fromkeys(self._asked))
        for key in self.unread():
            meant = nearest(key, known, f"; it takes {', '.join(known)}")
            if " " in key.strip() and self._fields[key].entry.value is None:  # as of {sql: SELECT a, b FROM c}
                meant = "; if it belongs to the text before the comma, put that in quotes"
            self.problems.add(self.place_of(key), f"{self.what} has no {key!r}{meant}")


def _shown(entry: Entry) -> str:
    return repr(entry.value) if isinstance(entry.value, str | int | float) else kind_of(entry.value)
