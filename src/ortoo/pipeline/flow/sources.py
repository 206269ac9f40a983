"""Sources as a file declares them: topics, and tables to join with."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from .document import Entry
from .paths import resolve
from .problems import Place
from .section import Declared, Section, Surroundings, kind_of

Table = Literal["messages", "history", "dead_letters"]
ValueForm = Literal["bytes", "text", "json"]
KeyForm = Literal["bytes", "text"]
FileFormat = Literal["parquet", "csv", "json"]

KINDS = ("topic", "topics", "pattern", "parquet", "csv", "json", "jdbc")


class TopicSource(Declared, frozen=True):
    options: dict[str, str]  # of the format `ortoo`, without those that say where the queue is
    value: ValueForm = "bytes"
    key: KeyForm = "bytes"
    schema: str | None = None
    is_stream: bool = True

    def __str__(self) -> str:
        wanted = self.options.get("subscribe") or f"matching {self.options.get('subscribePattern')}"
        table = self.options.get("table", "messages").replace("_", " ")
        return f"{table} of {wanted}, from {_starting(self.options)}"


class FileSource(Declared, frozen=True):
    format: FileFormat
    path: str
    options: dict[str, str]
    schema: str | None = None
    is_stream: bool = False

    def __str__(self) -> str:
        return f"{self.format} {self.path}{', each new file' if self.is_stream else ''}"


class JdbcSource(Declared, frozen=True):
    url: str
    options: dict[str, str]  # with dbtable or query
    is_stream: bool = False

    def __str__(self) -> str:
        return f"jdbc {self.url.partition('?')[0].partition(';')[0]}, {self.options.get('dbtable') or 'a query'}"


Source = TopicSource | FileSource | JdbcSource


def read_source(name: str, place: Place, entry: Entry, where: Surroundings) -> Source | None:
    section = Section(entry, f"source {name!r}", where.problems)
    kinds = [kind for kind in KINDS if kind in section]
    if not section.is_mapping:
        return None
    if len(kinds) != 1:
        found = f"not {' and '.join(f'`{kind}`' for kind in kinds)}" if kinds else "it has none"
        section.complain("", f"it takes one of {', '.join(f'`{kind}`' for kind in KINDS)}; {found}")
        return None
    kind = kinds[0]
    source: Source
    if kind in ("topic", "topics", "pattern"):
        source = _topic(name, place, section)
    elif kind == "jdbc":
        source = _jdbc(name, place, section)
    else:
        source = _file(name, place, section, kind, where.folder)
    section.finish()
    return source


def _topic(name: str, place: Place, section: Section) -> TopicSource:
    table: Table = section.choice("table", Table, "messages")
    options = {**_wanted(section), "table": table, **_beginning(section)}
    most = section.whole("max_per_trigger")
    if most is not None:
        options["maxOffsetsPerTrigger"] = str(most)
    value: ValueForm = section.choice("value", ValueForm, "bytes")
    key: KeyForm = section.choice("key", KeyForm, "bytes")
    schema = section.schema("schema")
    if value == "json" and schema is None:
        section.complain("value", "`value: json` needs a `schema` such as 'name string, age int'")
    if schema is not None and value != "json":
        section.complain("schema", "`schema` says how a JSON value is read; write `value: json`, too")
    if table == "history" and (value != "bytes" or key != "bytes"):
        section.complain("table", "the history has neither values nor keys, so `value` and `key` mean nothing here")
    return TopicSource(name, place, {**options, **section.table("options")}, value, key, schema)


def _wanted(section: Section) -> dict[str, str]:
    topics = section.texts("topics") or (section.text("topic") or "",)
    if pattern := section.text("pattern"):
        try:
            re.compile(pattern)
        except re.error as error:
            section.complain("pattern", f"`pattern` is not a regular expression: {error}")
        return {"subscribePattern": pattern}
    return {"subscribe": ",".join(topics)}


def _beginning(section: Section) -> dict[str, str]:
    """From the earliest message on, unless the file says otherwise: a pipeline that starts late shall miss nothing."""
    offsets, time = section.entry("starting_offsets"), section.text("starting_timestamp")
    if offsets is not None and time is not None:
        section.complain("starting_timestamp", "give `starting_offsets` or `starting_timestamp`, not both")
    if time:
        _check_time(section, time)
        return {"startingTimestamp": time}
    if offsets is None or offsets.value in ("earliest", "latest"):
        return {"startingOffsets": offsets.value if offsets is not None else "earliest"}
    if isinstance(offsets.value, dict):
        return {"startingOffsets": msgspec.json.encode(_offsets(section, offsets)).decode()}
    section.complain(
        "starting_offsets", "`starting_offsets` must be earliest, latest, or offsets as in {orders: {0: 23, 1: 5}}"
    )
    return {}


def _check_time(section: Section, time: str) -> None:
    try:
        datetime.fromisoformat(time)
    except ValueError:
        if not time.isdigit():
            section.complain("starting_timestamp", f"{time!r} is not a time; write it as 2026-01-31T12:00:00Z")


def _offsets(section: Section, given: Entry) -> dict[str, dict[str, int]]:
    offsets: dict[str, dict[str, int]] = {}
    for topic, (_, partitions) in given.value.items():
        if not isinstance(partitions.value, dict):
            section.problems.add(
                partitions.place,
                f"{section.what}: {topic!r} needs offsets by partition, not {kind_of(partitions.value)}",
            )
            continue
        offsets[topic] = {}
        for partition, (place, offset) in partitions.value.items():
            if partition.isdigit() and isinstance(offset.value, int) and not isinstance(offset.value, bool):
                offsets[topic][partition] = offset.value
            else:
                section.problems.add(place, f"{section.what}: a partition and an offset are two numbers, as in 0: 23")
    return offsets


def _file(name: str, place: Place, section: Section, kind: Any, folder: Path) -> FileSource:
    path = section.text(kind, needed=True)
    schema, is_stream = section.schema("schema"), section.truth("stream") or False
    options = section.table("options")
    if kind == "csv":
        options = {"header": "true", **options}
    if is_stream and schema is None:
        section.complain("stream", "files that are read as they come need a `schema`")
    return FileSource(name, place, kind, resolve(path, folder), options, schema, is_stream)


def _jdbc(name: str, place: Place, section: Section) -> JdbcSource:
    url = section.text("jdbc", needed=True)
    table, query = section.text("table"), section.text("query")
    if (table is None) == (query is None):
        section.complain("table", "give one of `table` and `query`")
    given = {"dbtable": table, "query": query} | {
        key: section.loose_text(key) for key in ("user", "password", "driver")
    }
    options = {key: value for key, value in given.items() if value} | section.table("options")
    if url and not url.startswith("jdbc:"):
        section.complain(
            "jdbc", f"a JDBC address begins with jdbc:, as in jdbc:postgresql://host/database, not {url!r}"
        )
    return JdbcSource(name, place, url, options)


def _starting(options: dict[str, str]) -> str:
    return options.get("startingTimestamp") or options.get("startingOffsets", "earliest")
