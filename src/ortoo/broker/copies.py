"""Fills copied messages in. The engine holds no values, so a dead letter's record names its origin, and the value comes here."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ortoo.model.batch import Batch, content_bytes
from ortoo.model.errors import CorruptionError
from ortoo.model.names import MessageRef
from ortoo.model.records import Origin, Published, Record
from ortoo.model.replies import Columns
from ortoo.model.topic import ANY_PRIORITY
from ortoo.ports import Store

ORIGIN = "ortoo-origin"  # message id
GROUP = "ortoo-group"
REASON = "ortoo-reason"
ATTEMPTS = "ortoo-attempts"
ERROR = "ortoo-error"
DEAD_HEADERS = (ORIGIN, GROUP, REASON, ATTEMPTS, ERROR)


async def fill_copies(records: list[Record], store: Store) -> list[Record]:
    """The records as they are to be stored."""
    if not any(isinstance(record, Published) and record.origins for record in records):
        return records
    filled: list[Record] = []
    for record in records:
        if isinstance(record, Published) and record.origins:
            rows = [await _original(origin.message, filled, store) for origin in record.origins]
            batch = _batch(rows, record.origins)
            size = content_bytes(batch.values, batch.keys, batch.headers)
            filled.append(msgspec.structs.replace(record, batch=batch, size=size))
        else:
            filled.append(record)
    return filled


Row = tuple[bytes, str | None, dict[str, str] | None, int, bool]


async def _original(ref: MessageRef, before: Sequence[Record], store: Store) -> Row:
    try:
        columns = await store.read(ref.topic, ref.partition, [ref.offset])
    except CorruptionError as error:  # the value is gone for good; the dead letter tells what happened
        return b"", None, {"ortoo-damaged": str(error)}, ANY_PRIORITY, False
    if len(columns):
        return _row(columns, 0)
    for record in before:  # not stored yet: published in this very commit
        if isinstance(record, Published) and (record.topic, record.partition) == (ref.topic, ref.partition):
            at = ref.offset - record.base
            if 0 <= at < record.count:
                return _row(record.batch, at)
    return b"", None, {"ortoo-damaged": f"message {ref} is not in the log any more"}, ANY_PRIORITY, False


def _row(columns: Columns | Batch, at: int) -> Row:
    return (
        columns.values[at],
        columns.keys[at] if columns.keys else None,
        columns.headers[at] if columns.headers else None,
        columns.priorities[at] if columns.priorities else ANY_PRIORITY,
        columns.json[at] if columns.json else False,
    )


def _batch(rows: list[Row], origins: list[Origin]) -> Batch:
    return Batch(
        values=[row[0] for row in rows],
        keys=[row[1] for row in rows],
        headers=[_headers(row[2] or {}, origin) for row, origin in zip(rows, origins, strict=True)],
        priorities=[row[3] for row in rows],
        json=[row[4] for row in rows],
    )


def _headers(headers: dict[str, str], origin: Origin) -> dict[str, str]:
    plain = {name: value for name, value in headers.items() if name not in DEAD_HEADERS}
    if origin.reason == "redriven":
        return plain
    dead = {ORIGIN: str(origin.message), GROUP: origin.group, REASON: origin.reason, ATTEMPTS: str(origin.attempts)}
    return plain | dead | ({ERROR: origin.error} if origin.error else {})
