"""The columns of sources and steps, as far as they can be known without Spark, and what asks for one that is not there."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import assert_never

from ortoo.pipeline.source.schema import TABLES

from .paths import local
from .problems import Place, Problems, nearest
from .schema import SchemaError, column_names
from .selected import selected
from .sinks import DirectorySink, Sink, TopicSink
from .sources import FileSource, Source, TopicSource
from .steps import DedupeStep, JoinStep, PythonStep, SqlStep, Step, WatermarkStep, WindowStep

Columns = list[str] | None  # None: only Spark knows
_PLAIN_CSV = {"header", "sep", "delimiter", "inferSchema"}
_HEADER_BYTES_MAX = 1 << 20


def check_columns(sources: Iterable[Source], steps: Iterable[Step], sinks: Iterable[Sink], problems: Problems) -> None:
    found: dict[str, Columns] = {source.name: _source(source) for source in sources}
    for step in steps:
        read = [found.get(name) for name in step.reads] or [None]
        for column, what, columns in _asked(step, read):
            _check(problems, step.place, f"step {step.name!r}", column, what, columns)
        found[step.name] = _step(step, read, found)
    for sink in sinks:
        columns = found.get(sink.reads)
        for column, what in _wanted(sink):
            _check(problems, sink.place, f"sink {sink.name!r}", column, what, columns)


def _check(problems: Problems, place: Place, who: str, column: str, what: str, columns: Columns) -> None:
    if columns is None or "." in column or "`" in column:  # a field of a struct, or an expression
        return
    if column.lower() not in {name.lower() for name in columns}:
        there = f"; there are {', '.join(columns)}"
        problems.add(place, f"{who}: there is no column {column!r} {what}{nearest(column, columns, there)}")


def _wanted(sink: Sink) -> list[tuple[str, str]]:
    if isinstance(sink, TopicSink):
        asked = [(sink.key, "for the key")] if sink.key else []
        return asked + ([("topic", "that would say which topic to write to")] if sink.topic is None else [])
    return [(name, "to partition by") for name in sink.partition_by] if isinstance(sink, DirectorySink) else []


def _asked(step: Step, read: Sequence[Columns]) -> list[tuple[str, str, Columns]]:
    match step:
        case WatermarkStep():
            return [(step.column, "for the watermark", read[0])]
        case WindowStep():
            return [
                (step.column, "for the window", read[0]),
                *((name, "to group by", read[0]) for name in step.group_by),
            ]
        case DedupeStep():
            return [(name, "to tell rows apart by", read[0]) for name in step.columns]
        case JoinStep():
            sides = list(zip(step.reads, read, strict=True))
            return [(name, f"in {side!r} to join on", columns) for name in step.on for side, columns in sides]
        case SqlStep() | PythonStep():
            return []
        case _:
            assert_never(step)


def _step(step: Step, read: Sequence[Columns], found: dict[str, Columns]) -> Columns:
    match step:
        case SqlStep():
            by_lower = {name.lower(): columns for name, columns in found.items()}
            return selected(step.sql, lambda name: by_lower.get(name.lower()))
        case PythonStep():
            return None
        case WatermarkStep() | DedupeStep():
            return read[0]
        case WindowStep():
            return ["window_start", "window_end", *step.group_by, *step.aggregates]
        case JoinStep():
            left, right = read
            if left is None or step.how in ("semi", "anti"):
                return left
            on = {name.lower() for name in step.on}
            return None if right is None else left + [name for name in right if name.lower() not in on]
        case _:
            assert_never(step)


def _source(source: Source) -> Columns:
    try:
        if isinstance(source, TopicSource):
            return _topic(source)
        return _file(source) if isinstance(source, FileSource) else None
    except SchemaError:
        return None  # told where it stands


def _topic(source: TopicSource) -> list[str]:
    headers = source.options.get("includeHeaders", "true").lower() != "false"
    own = [column.name for column in TABLES[source.options["table"]] if headers or column.name != "headers"]
    if source.schema is None:
        return own
    fields = column_names(source.schema)
    taken = {name.lower() for name in fields}
    return [*fields, *(f"message_{name}" if name in taken else name for name in ("malformed", *own))]


def _file(source: FileSource) -> Columns:
    """Of a single file: a directory may have more columns, in the names of its folders."""
    path = local(source.path)
    if path is None or not path.is_file():
        return None
    if source.schema is not None:
        return column_names(source.schema)
    if source.format != "csv" or source.options.get("header") != "true" or source.options.keys() - _PLAIN_CSV:
        return None
    separator = source.options.get("sep") or source.options.get("delimiter") or ","
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header = next(csv.reader([file.readline(_HEADER_BYTES_MAX)], delimiter=separator), [])
    except (OSError, UnicodeDecodeError, TypeError, csv.Error):
        return None
    names = [name.lower() for name in header]
    return header if header and all(names) and len(set(names)) == len(names) else None
