"""docs/format.md names every record and every field that is stored, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from ortoo.engine import dumps, leases
from ortoo.model import records as r
from ortoo.model.batch import Batch
from ortoo.stores.disk import checkpoint, codec, commit, crypto, format, frame, history, log, quarantine, segment
from ortoo.stores.disk.frame import Salt

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
TOLD_ONLY = {r.Restored, r.Quarantined}  # never stored


def fields(kind: Any) -> list[str]:
    return list(getattr(kind, "__struct_fields__", None) or kind._fields)


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> dict[str, str]:
    """The first two columns of its tables."""
    found = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", text, flags=re.MULTILINE)
    return {first.replace("`", ""): second for first, second in found}


def test_every_record_and_its_fields() -> None:
    told = {
        kind: columns.split(", ") for names, columns in rows(section("Records")).items() for kind in names.split(", ")
    }
    told.pop("Kind", None)
    assert told == {kind.__name__: fields(kind) for kind in get_args(r.Record) if kind not in TOLD_ONLY}


def test_every_column_of_a_batch() -> None:
    assert f"map of columns: {', '.join(fields(Batch))}." in PAGE


def test_every_kind_of_frame() -> None:
    told = rows(section("Frames"))
    [kinds] = re.findall(r"\| 5 \| 1 \| kind: (.*) \|", PAGE)
    numbers = {word: int(number) for number, word in re.findall(r"(\d) (\w+)", kinds)}
    assert told
    assert numbers == {
        name: getattr(frame, name.upper()) for name in ("commit", "messages", "history", "checkpoint", "keys")
    }


def test_the_heads_that_have_tables() -> None:
    assert [name for name in rows(section("Messages")) if name != "Field"] == fields(codec.MessageHead)
    head = section("Checkpoints").partition("**Body**")[0]
    assert [name for name in rows(head) if name != "Field"] == fields(checkpoint.Manifest)


def test_the_tables_of_the_state() -> None:
    shapes = {
        "topic": dumps.TopicDump,
        "partition": dumps.PartitionDump,
        "group": dumps.GroupDump,
        "feed": dumps.FeedDump,
        "lease": leases.LeaseDump,
    }
    told = rows(section("Checkpoints").partition("**Body**")[2])
    assert {name: told[name].split(", ") for name in shapes} == {name: fields(dump) for name, dump in shapes.items()}


@pytest.mark.parametrize(
    "kind",
    [
        checkpoint.TopicEntry,
        log.LogEntry,
        segment.SegmentEntry,
        history.HistoryEntry,
        quarantine.Behind,
        dumps.StateDump,
        dumps.WheelDump,
        commit.Section,
        crypto.Sealed,
        crypto.Secret,
        r.Origin,
    ],
    ids=lambda kind: kind.__name__,
)
def test_arrays_within_the_text(kind: type[msgspec.Struct]) -> None:
    assert f"({', '.join(fields(kind))})" in " ".join(PAGE.split())


def test_lists_within_the_text() -> None:
    text = " ".join(PAGE.split())
    assert f"**Body**, an array of: {', '.join(fields(codec.MessageBody))}." in text
    first, last, *rest = fields(history.HistoryHead)
    told = re.sub(r" \([^)]*\)", "", section("History").partition("**Head**, an array of: ")[2].partition(".")[0])
    assert told.split(", ") == [first, last, *rest]


def test_the_version() -> None:
    assert f"**format version {format.NEWEST}**" in PAGE
    written = format._encode(Salt(0x0123456789ABCDEF, has_older=True)).decode()
    assert "".join(f"    {line}\n" for line in written.splitlines()) in PAGE
