"""Answers with many messages, or large ones: written a part at a time, so that others get their turns in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from ortoo.doors.http.answers import JSON, Streaming
from ortoo.model.replies import Columns, LeasedRun

PART_BYTES = 1024 * 1024  # of values that are written at a time
PART_ROWS = 1_000

T = TypeVar("T")
Section = tuple[bytes, list[T]]  # what stands before a list, and the parts of that
_encode = msgspec.json.Encoder().encode


def in_parts(rows: Sequence[T], size_of: Callable[[T], int]) -> list[Sequence[T]]:
    """As many at a time as may be written together; one at least."""
    parts: list[Sequence[T]] = []
    start = size = 0
    for at, row in enumerate(rows):
        size += size_of(row)
        if size >= PART_BYTES or at + 1 - start >= PART_ROWS:
            parts.append(rows[start : at + 1])
            start, size = at + 1, 0
    return [*parts, rows[start:]] if start < len(rows) else parts


def columns_in_parts(columns: Columns) -> list[Columns]:
    """The same of messages that were read."""
    rows = in_parts(range(len(columns)), lambda row: len(columns.values[row]))
    return [columns.part(some[0], some[-1] + 1) for some in rows]


def runs_in_parts(runs: Iterable[LeasedRun]) -> list[list[LeasedRun]]:
    """The same of what was leased."""
    parts: list[list[LeasedRun]] = [[]]
    size = count = 0
    for run in runs:
        values, start = run.columns.values, 0
        for at, value in enumerate(values):
            size, count = size + len(value), count + 1
            if size >= PART_BYTES or count >= PART_ROWS:
                parts[-1].append(LeasedRun(run.taken, run.columns.part(start, at + 1)))
                parts.append([])
                start, size, count = at + 1, 0, 0
        if start < len(values):
            parts[-1].append(LeasedRun(run.taken, run.columns.part(start, len(values))))
    return [part for part in parts if part]


def write_list(
    before: bytes, parts: list[T], render: Callable[[T], list[Any]], after: bytes = b""
) -> bytes | Streaming:
    """A JSON list between these: all of it where it is one part, else as fast as the client reads."""
    return write_lists([(before, parts)], render, after, is_large=len(parts) > 1)


def write_lists(
    sections: list[Section[T]], render: Callable[[T], list[Any]], after: bytes, *, is_large: bool
) -> bytes | Streaming:
    """The same of several lists."""
    if is_large:
        return Streaming(_written(sections, render, after), JSON)
    return b"".join(text for before, parts in sections for text in (before, *_texts(parts, render))) + after


def _texts(parts: list[T], render: Callable[[T], list[Any]]) -> Iterable[bytes]:
    """One message alone may be large."""
    before = b"["
    for part in parts:
        text = _encode(render(part))
        yield before
        for at in range(1, len(text) - 1, PART_BYTES):  # without the brackets of each list
            yield text[at : min(at + PART_BYTES, len(text) - 1)]
        before = b","
    yield b"]" if parts else b"[]"


async def _written(
    sections: list[Section[T]], render: Callable[[T], list[Any]], after: bytes
) -> AsyncGenerator[bytes, None]:
    for before, parts in sections:
        yield before
        for text in _texts(parts, render):
            yield text
            await asyncio.sleep(0)
    yield after
