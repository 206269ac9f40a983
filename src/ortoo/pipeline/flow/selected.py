"""The columns that a piece of SQL gives, where that can be seen without Spark. In doubt it is not known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from .tables import Word, tables, to_words

_ADD_COLUMNS = {"JOIN", "LATERAL", "PIVOT", "UNPIVOT", "TRANSFORM"}


def selected(sql: str, columns_of: Callable[[str], Sequence[str] | None]) -> list[str] | None:
    """`columns_of` tells those of a table that is read."""
    words = list(to_words(sql))
    if any(one.text + other.text == "|>" for one, other in pairwise(words)):
        return None  # a pipe may add and drop columns
    names: list[str] = []
    for item in _items(words):
        found = _star(words, sql, columns_of) if [word.text for word in item] == ["*"] else _name(item)
        if found is None:
            return None
        names += found
    return names or None


def _items(words: list[Word]) -> list[list[Word]]:
    """What stands between the first SELECT that is in no parentheses and its FROM, at the commas."""
    items: list[list[Word]] = []
    depth, inside = 0, False
    for word in words:
        depth += {"(": 1, ")": -1}.get(word.upper, 0)
        if depth == 0 and word.upper == "SELECT":
            if inside:
                break
            inside, items = True, [[]]
        elif depth == 0 and word.upper == "FROM":
            break
        elif inside and depth == 0 and word.upper == ",":
            items.append([])
        elif inside and not (word.upper in ("DISTINCT", "ALL") and items == [[]]):
            items[-1].append(word)
    return items


def _name(item: list[Word]) -> list[str] | None:
    """Of `expression AS name`, `name` or `table.name`."""
    if len(item) > 2 and item[-2].upper == "AS" and _is_name(item[-1]):
        return [item[-1].text]
    if (
        len(item) in (1, 3)
        and all(_is_name(word) for word in item[::2])
        and all(word.text == "." for word in item[1::2])
    ):
        return [item[-1].text]
    return None


def _is_name(word: Word) -> bool:
    return word.text != "''" and (word.is_quoted or word.text[:1].isalpha() or word.text.startswith("_"))


def _star(words: list[Word], sql: str, columns_of: Callable[[str], Sequence[str] | None]) -> list[str] | None:
    read = tables(sql)
    is_plain = len(read) == 1 and not any(word.upper in _ADD_COLUMNS for word in words)
    selects = sum(word.upper == "SELECT" for word in words)
    found = columns_of(read[0].name) if is_plain and selects == 1 else None
    return None if found is None else list(found)
