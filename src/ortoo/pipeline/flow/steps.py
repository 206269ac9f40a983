"""Steps as a file declares them, each made of what stands before it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from .document import Entry
from .functions import find_function
from .intervals import milliseconds
from .problems import nearest
from .section import Declared, Section, Surroundings
from .tables import tables

How = Literal["inner", "left", "right", "full", "semi", "anti"]

KINDS = ("sql", "python", "watermark", "window", "dedupe", "join")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Step(Declared, frozen=True):
    reads: tuple[str, ...]


class SqlStep(_Step, frozen=True):
    sql: str

    def __str__(self) -> str:
        return f"sql: {' '.join(self.sql.split())}"


class PythonStep(_Step, frozen=True):
    path: str  # module:function
    function: Callable[..., Any]

    def __str__(self) -> str:
        return f"python: {self.path}"


class WatermarkStep(_Step, frozen=True):
    column: str
    delay: str

    def __str__(self) -> str:
        return f"watermark: {self.column} may be {self.delay} late"


class WindowStep(_Step, frozen=True):
    column: str
    size: str
    slide: str | None
    group_by: tuple[str, ...]
    aggregates: dict[str, str]

    def __str__(self) -> str:
        every = f" every {self.slide}" if self.slide else ""
        groups = f" by {', '.join(self.group_by)}" if self.group_by else ""
        made = ", ".join(f"{name} = {text}" for name, text in self.aggregates.items())
        return f"window: {self.size} of {self.column}{every}{groups}: {made}"


class DedupeStep(_Step, frozen=True):
    columns: tuple[str, ...]
    within: str | None
    column: str

    def __str__(self) -> str:
        return f"dedupe: {', '.join(self.columns)}{f' within {self.within} of {self.column}' if self.within else ''}"


class JoinStep(_Step, frozen=True):  # reads left and right
    on: tuple[str, ...]  # columns; or empty
    condition: str | None
    how: How

    def __str__(self) -> str:
        return f"join: {self.how}, on {self.condition or ', '.join(self.on)}"


Step = SqlStep | PythonStep | WatermarkStep | WindowStep | DedupeStep | JoinStep


def read_step(name: str, entry: Entry, where: Surroundings) -> Step | None:
    section = Section(entry, f"step {name!r}", where.problems)
    section.entry("name")
    kinds = [kind for kind in KINDS if kind in section]
    if len(kinds) != 1:
        found = f"not {' and '.join(f'`{kind}`' for kind in kinds)}" if kinds else _meant(section)
        section.complain("", f"it takes one of {', '.join(f'`{kind}`' for kind in KINDS)}; {found}")
        return None
    step = _READERS[kinds[0]](name, section, where)
    section.finish()
    return step


def _meant(section: Section) -> str:
    unknown = [key for key in section.unread() if key not in ("name", "from")]
    return f"{unknown[0]!r} is none of them{nearest(unknown[0], KINDS)}" if unknown else "it has none"


def _from(section: Section, where: Surroundings) -> tuple[str, ...]:
    names = section.texts("from", needed=True)
    return tuple(where.known(section, "from", name) for name in names)


def _single(section: Section, where: Surroundings) -> tuple[str, ...]:
    reads = _from(section, where)
    if len(reads) > 1:
        section.complain("from", "this kind of step reads one source or step")
    return reads


def _sql(name: str, section: Section, where: Surroundings) -> SqlStep:
    sql = section.text("sql", needed=True)
    if "from" in section:
        section.entry("from")
        section.complain("from", "a SQL step says in its own FROM what it reads; leave `from` out")
    reads = [where.known(section, "sql", read.name) for read in tables(sql)]
    return SqlStep(name, section.place, tuple(dict.fromkeys(reads)), sql.strip().rstrip(";"))


def _python(name: str, section: Section, where: Surroundings) -> PythonStep | None:
    path, reads = section.text("python", needed=True), _from(section, where)
    function, problem = find_function(path, where.folder, len(reads)) if path else (None, None)
    if problem is not None:
        section.complain("python", problem)
    return PythonStep(name, section.place, reads, path, function) if function is not None else None


def _watermark(name: str, section: Section, where: Surroundings) -> WatermarkStep | None:
    reads, own = _single(section, where), section.section("watermark", f"{section.what}, `watermark`")
    if own is None:
        return None
    step = WatermarkStep(
        name, section.place, reads, own.text("column", needed=True), own.interval("delay", needed=True) or ""
    )
    own.finish()
    return step


def _window(name: str, section: Section, where: Surroundings) -> WindowStep | None:
    reads, own = _single(section, where), section.section("window", f"{section.what}, `window`")
    if own is None:
        return None
    column = own.text("column", needed=True)
    size, slide = own.interval("size", needed=True), own.interval("slide")
    if size and slide and milliseconds(slide) > milliseconds(size):
        own.complain("slide", f"`slide` ({slide}) is longer than `size` ({size}): what falls between would be lost")
    groups, aggregates = own.texts("group_by"), own.table("aggregates", needed=True)
    for made in aggregates:
        if made in (*groups, "window_start", "window_end"):
            own.complain("aggregates", f"there is a column {made!r} already; call it something else")
    if not aggregates and "aggregates" in own:
        own.complain("aggregates", "`aggregates` needs at least one, as in {orders: count(*)}")
    own.finish()
    return WindowStep(name, section.place, reads, column, size or "", slide, groups, aggregates)


def _dedupe(name: str, section: Section, where: Surroundings) -> DedupeStep | None:
    reads, own = _single(section, where), section.section("dedupe", f"{section.what}, `dedupe`")
    if own is None:
        return None
    columns, within, column = own.texts("columns", needed=True), own.interval("within"), own.text("column")
    if column is not None and within is None:
        own.complain("column", "`column` says which time `within` counts in; give `within`, too")
    own.finish()
    return DedupeStep(name, section.place, reads, columns, within, column or "timestamp")


def _join(name: str, section: Section, where: Surroundings) -> JoinStep | None:
    own = section.section("join", f"{section.what}, `join`")
    if own is None:
        return None
    sides = [where.known(own, side, own.text(side, needed=True)) for side in ("left", "right")]
    if sides[0] and sides[0] == sides[1]:
        own.complain("right", f"{sides[0]!r} is joined with itself; do that in SQL, where it can have two names")
    on = own.texts("on", needed=True)
    condition = on[0] if len(on) == 1 and not _NAME.fullmatch(on[0]) else None
    how: How = own.choice("how", How, "inner")
    own.finish()
    return JoinStep(name, section.place, tuple(sides), () if condition else on, condition, how)


_READERS: dict[str, Callable[[str, Section, Surroundings], Step | None]] = {
    "sql": _sql,
    "python": _python,
    "watermark": _watermark,
    "window": _window,
    "dedupe": _dedupe,
    "join": _join,
}
