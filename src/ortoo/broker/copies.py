"""Fills copied messages in. The engine holds no values, so a dead letter's record names its origin, and the value comes here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from ortoo.model.batch import Batch, content_bytes
from ortoo.model.errors import CorruptionError
from ortoo.model.names import MessageRef
from ortoo.model.publishers import Publishers, compact
from ortoo.model.records import Origin, Published, Record
from ortoo.model.replies import Columns
from ortoo.model.topic import DEFAULT_PRIORITY
from ortoo.ports import Store

ORIGIN = "ortoo-origin"  # message id
GROUP = "ortoo-group"
REASON = "ortoo-reason"
ATTEMPTS = "ortoo-attempts"
ERROR = "ortoo-error"
DEAD_HEADERS = (ORIGIN, GROUP, REASON, ATTEMPTS, ERROR)

_TOGETHER = 500  # copies that are filled in one turn of the event loop


def has_copies(records: Sequence[Record]) -> bool:
    for record in records:  # noqa: SIM110  # any() would cost three times as much, with every commit
        if type(record) is Published and record.origins:
            return True
    return False


async def fill_copies(records: list[Record], store: Store) -> list[Record]:
    """The records as they are to be stored."""
    filled: list[Record] = []
    for record in records:
        if isinstance(record, Published) and record.origins:
            rows: list[Row] = []
            size = 0
            for origins in _read_together(record.origins):
                found = await _originals([origin.message for origin in origins], filled, store)
                rows += [_dead(row, origin) for row, origin in zip(found, origins, strict=True)]
                some = rows[-len(origins) :]
                size += content_bytes([row[0] for row in some], [row[1] for row in some], [row[2] for row in some])
                await asyncio.sleep(0)  # others run meanwhile
            publishers = compact([row[-1] for row in rows])
            filled.append(msgspec.structs.replace(record, batch=_batch(rows), size=size, publishers=publishers))
        else:
            filled.append(record)
    return filled


Row = tuple[bytes, str | None, dict[str, str] | None, int, bool, str | None]  # who published the original comes last


def _read_together(origins: list[Origin]) -> Iterator[list[Origin]]:
    """In their order: those of one partition, ascending."""
    for _, same in groupby(origins, key=lambda origin: origin.message[:2]):
        run: list[Origin] = []
        for origin in same:
            if len(run) == _TOGETHER or (run and origin.message.offset <= run[-1].message.offset):
                yield run
                run = []
            run.append(origin)
        yield run


async def _originals(refs: list[MessageRef], before: Sequence[Record], store: Store) -> list[Row]:
    """Of one partition, ascending."""
    topic, partition, _ = refs[0]
    try:
        columns = await store.read(topic, partition, [ref.offset for ref in refs])
    except CorruptionError as error:
        if len(refs) > 1:  # of some only
            return [row for ref in refs for row in await _originals([ref], before, store)]
        # The value is gone for good; the dead letter tells what happened.
        return [(b"", None, {"ortoo-damaged": str(error)}, DEFAULT_PRIORITY, False, None)]
    found = {offset: _row(columns, columns.publishers, at) for at, offset in enumerate(columns.offsets)}
    return [found.get(ref.offset) or _unstored(ref, before) for ref in refs]


def _unstored(ref: MessageRef, before: Sequence[Record]) -> Row:
    for record in before:  # not stored yet: published in this very commit
        if isinstance(record, Published) and (record.topic, record.partition) == (ref.topic, ref.partition):
            at = ref.offset - record.base
            if 0 <= at < record.count:
                return _row(record.batch, record.publishers, at)
    return b"", None, {"ortoo-damaged": f"message {ref} is not in the log any more"}, DEFAULT_PRIORITY, False, None


def _row(columns: Columns | Batch, publishers: Publishers | None, at: int) -> Row:
    return (
        columns.values[at],
        columns.keys[at] if columns.keys else None,
        columns.headers[at] if columns.headers else None,
        columns.priorities[at] if columns.priorities else DEFAULT_PRIORITY,
        columns.json[at] if columns.json else False,
        publishers[at] if isinstance(publishers, list) else publishers,
    )


def _dead(row: Row, origin: Origin) -> Row:
    value, key, headers, priority, json, publisher = row
    return value, key, _headers(headers or {}, origin), priority, json, publisher


def _batch(rows: list[Row]) -> Batch:
    return Batch(*map(list, zip(*[row[:-1] for row in rows], strict=True)))


def _headers(headers: dict[str, str], origin: Origin) -> dict[str, str]:
    plain = {name: value for name, value in headers.items() if name not in DEAD_HEADERS}
    if origin.reason == "redriven":
        return plain
    dead = {ORIGIN: str(origin.message), GROUP: origin.group, REASON: origin.reason, ATTEMPTS: str(origin.attempts)}
    return plain | dead | ({ERROR: origin.error} if origin.error else {})
