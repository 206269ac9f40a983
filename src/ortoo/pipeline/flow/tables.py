"""The tables that a piece of SQL reads, found cheaply: without Spark, and without knowing all of its grammar.

What follows FROM and JOIN is a table, and so is what follows a comma within a FROM. Left out are names that the text itself
defines (WITH), table functions, names with a dot (which are Spark's own, as in parquet.`dir`), and the FROM of
`extract(year FROM time)` and of `IS DISTINCT FROM`. Where this is in doubt it finds less: Spark looks again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<quote>'(?:\\.|''|[^'\\])*(?:'|\Z)|"(?:\\.|""|[^"\\])*(?:"|\Z))
      | (?P<name>`(?:``|[^`])*`|[^\W\d]\w*)
      | (?P<other>\d\w*|.)""",
    re.VERBOSE | re.DOTALL,
)
_FUNCTIONS_WITH_FROM = {"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION"}
_ENDS_OF_FROM = {
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "SORT",
    "CLUSTER",
    "DISTRIBUTE",
    "LIMIT",
    "OFFSET",
    "UNION",
    "EXCEPT",
}
_ENDS_OF_FROM |= {"INTERSECT", "MINUS", "SELECT", "WINDOW", "LATERAL", "PIVOT", "UNPIVOT", "QUALIFY", "VALUES"}
_NOT_TABLES = {"TABLE", "STREAM", "FROM", "MAP", "REDUCE", "WITH"}


class Word(NamedTuple):
    text: str
    start: int
    is_quoted: bool = False

    @property
    def upper(self) -> str:
        return "" if self.is_quoted else self.text.upper()


class Read(NamedTuple):
    """A table that is read, and where in the text."""

    name: str
    start: int


def tables(sql: str) -> list[Read]:
    words = list(to_words(sql))
    defined = _defined(words)
    return [read for read in _reads(words) if read.name.lower() not in defined]


def to_words(sql: str) -> Iterator[Word]:
    for match in _TOKEN.finditer(sql):
        if match.lastgroup == "name":
            quoted = match[0].startswith("`")
            yield Word(match[0][1:-1].replace("``", "`") if quoted else match[0], match.start(), quoted)
        elif match.lastgroup == "quote":
            yield Word("''", match.start(), True)
        elif match.lastgroup == "other":
            yield Word(match[0], match.start())


def _defined(words: list[Word]) -> set[str]:
    """Names of WITH: `name AS (` or `name (columns) AS (`, if there is a WITH at all."""
    if not any(word.upper == "WITH" for word in words):
        return set()
    names = set()
    for at, word in enumerate(words):
        if word.upper != "AS" or _text(words, at + 1) != "(" or at == 0:
            continue
        before = at - 1
        if words[before].text == ")" and not words[before].is_quoted:
            before = _opening(words, before) - 1
        if before >= 0:
            names.add(words[before].text.lower())
    return names


def _opening(words: list[Word], closing: int) -> int:
    depth = 0
    for at in range(closing, -1, -1):
        depth += {")": 1, "(": -1}.get(words[at].upper, 0)
        if depth == 0:
            return at
    return 0


def _reads(words: list[Word]) -> Iterator[Read]:
    inside: list[str] = [""]  # for each open parenthesis the word before it
    from_clause: list[bool] = [False]  # whether a comma at this depth begins another table
    is_due = False  # a table comes next
    for at, word in enumerate(words):
        upper = word.upper
        if upper == "(":
            inside.append(words[at - 1].upper if at else "")
            from_clause.append(is_due)  # FROM (a, b) is a list of tables, too
            continue
        if upper == ")":
            if len(inside) > 1:
                inside.pop()
                from_clause.pop()
            is_due = False
        elif upper == "FROM":
            is_due = inside[-1] not in _FUNCTIONS_WITH_FROM and (not at or words[at - 1].upper != "DISTINCT")
            from_clause[-1] = is_due
        elif upper == "JOIN" or (upper == "," and from_clause[-1]):
            is_due = True
        elif upper in _ENDS_OF_FROM:
            from_clause[-1] = is_due = False
        elif is_due:
            is_due = upper == "STREAM"
            if _is_table(words, at):
                yield Read(word.text, word.start)


def _is_table(words: list[Word], at: int) -> bool:
    word, follows = words[at], _text(words, at + 1)
    is_name = word.is_quoted or word.text[:1].isalpha() or word.text.startswith("_")
    return is_name and word.text != "''" and word.upper not in _NOT_TABLES and follows not in ("(", ".")


def _text(words: list[Word], at: int) -> str:
    return words[at].upper if at < len(words) else ""
