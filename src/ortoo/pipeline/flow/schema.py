"""Schemas as Spark writes them, `name string, tags array<string>`, looked at without Spark: their columns, and types it has not.

Spark's own parser is in Java. What this one does not know about a column, such as a comment or NOT NULL, it skips.
"""

from __future__ import annotations

import re

from .problems import nearest

_TOKEN = re.compile(r"`(?:``|[^`])*`|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|\w+|\S")
_NAME = re.compile(r"`.*`|\w+", re.DOTALL)
_TYPES = (
    *("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double"),
    *("decimal", "dec", "numeric", "date", "time", "timestamp", "timestamp_ltz", "timestamp_ntz", "interval", "string"),
    *("char", "character", "varchar", "binary", "void", "variant", "geometry", "geography", "array", "map", "struct"),
)


class SchemaError(Exception):
    """Its text says what is wrong."""


def column_names(schema: str) -> list[str]:
    """In their order; SchemaError if Spark would not take it."""
    reading = _Reading(_TOKEN.findall(schema))
    names = reading.columns()
    if reading.next is not None:
        raise SchemaError(f"there is a {reading.next!r} too many")
    return names


class _Reading:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> str | None:
        token = self.next
        self._at += 1
        return token

    def _expect(self, token: str, kind: str) -> None:
        if self._take() != token:
            raise SchemaError(f"{token!r} is missing in {kind}<…>")

    def columns(self) -> list[str]:
        names = []
        while True:
            name = self._take()
            if name is None or not _NAME.fullmatch(name):
                raise SchemaError("the name of a column is missing" if name is None else f"{name!r} is no column")
            names.append(name[1:-1].replace("``", "`") if name.startswith("`") else name)
            if self.next == ":":
                self._take()
            if self.next is None or self.next in ",>":
                raise SchemaError(f"column {names[-1]!r} has no type, as in '{names[-1]} string'")
            self._type()
            while self.next is not None and self.next not in ",>":
                self._take()  # NOT NULL, COMMENT, and what else there may be
            if self.next != ",":
                return names
            self._take()

    def _type(self) -> None:
        given = self._take() or ""
        kind = given.lower()
        if kind not in _TYPES:
            raise SchemaError(f"there is no type {given!r}{nearest(given, _TYPES)}")
        if kind in ("array", "map"):
            self._expect("<", kind)
            self._type()
            if kind == "map":
                self._expect(",", kind)
                self._type()
            self._expect(">", kind)
        elif kind == "struct":
            self._expect("<", kind)
            if self.next != ">":
                self.columns()
            self._expect(">", kind)
        elif self.next == "(":
            while self._take() not in (")", None):
                pass
