"""Sinks as a file declares them: where rows end up, each in a query of its own."""

from __future__ import annotations

from typing import Literal

from .document import Entry
from .paths import local, resolve
from .problems import Place
from .section import Declared, Section, Surroundings

Mode = Literal["append", "update", "complete"]
SinkValue = Literal["column", "json"]

KINDS = ("topic", "parquet", "console")


class _Sink(Declared, frozen=True):
    reads: str


class TopicSink(_Sink, frozen=True):
    topic: str | None  # None: the column `topic` says
    value: SinkValue
    key: str | None  # the column it comes from
    mode: Mode | None
    options: dict[str, str]

    def __str__(self) -> str:
        where = f"topic {self.topic}" if self.topic else "the topics that the column `topic` names"
        return f"{where}{', as JSON' if self.value == 'json' else ''}{f', key {self.key}' if self.key else ''}, exactly once"


class DirectorySink(_Sink, frozen=True):
    path: str
    partition_by: tuple[str, ...]
    mode: Mode | None
    options: dict[str, str]

    def __str__(self) -> str:
        return f"parquet {self.path}" + (f", by {', '.join(self.partition_by)}" if self.partition_by else "")


class ConsoleSink(_Sink, frozen=True):
    rows: int
    mode: Mode | None

    def __str__(self) -> str:
        return f"console, {self.rows} rows at most"


Sink = TopicSink | DirectorySink | ConsoleSink


def read_sink(name: str, place: Place, entry: Entry, where: Surroundings) -> Sink | None:
    section = Section(entry, f"sink {name!r}", where.problems)
    if not section.is_mapping:
        return None
    kinds = [kind for kind in KINDS if kind in section]
    if len(kinds) != 1:
        found = f"not {' and '.join(f'`{kind}`' for kind in kinds)}" if kinds else "it has none"
        section.complain("", f"it takes one of {', '.join(f'`{kind}`' for kind in KINDS)}; {found}")
        return None
    reads = section.text("from", needed=True)
    if reads:
        reads = where.known(section, "from", reads)
    mode: Mode | None = section.choice("mode", Mode, None)
    sink: Sink
    if kinds[0] == "topic":
        sink = _topic(name, place, section, reads, mode)
    elif kinds[0] == "parquet":
        path = _directory(section, where)
        columns = section.texts("partition_by")
        sink = DirectorySink(name, place, reads, path, columns, mode, section.table("options"))
        if mode == "update":
            section.complain("mode", "a directory cannot take updates: rows would stand there again with each change")
    else:
        if section.truth("console") is False:
            section.complain("console", "write `console: true`")
        sink = ConsoleSink(name, place, reads, section.whole("rows") or 20, mode)
    section.finish()
    return sink


def _directory(section: Section, where: Surroundings) -> str:
    path = resolve(section.text("parquet", needed=True), where.folder)
    here = local(path)
    if here is None:
        section.complain(
            "parquet",
            f"{path} is not a directory of this machine, nor one that is mounted: only there can a batch come into place in one "
            "step. Mount it, or write to a topic",
        )
    return str(path if here is None else here)


def _topic(name: str, place: Place, section: Section, reads: str, mode: Mode | None) -> TopicSink:
    entry = section.entry("topic")
    topic = section.text("topic") if entry is not None and entry.value is not None else None  # `topic:` alone: a column
    if mode == "complete":
        section.complain("mode", "a topic is a log and cannot be replaced as a whole; use append or update")
    value: SinkValue = section.choice("value", SinkValue, "column")
    return TopicSink(name, place, reads, topic, value, section.text("key"), mode, section.table("options"))
