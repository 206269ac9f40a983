"""What happened to the messages of a partition, from a position on.

A record may speak of millions of messages, each of which becomes an event. So an answer has a bounded number of them, and is
written while it is sent. Records are told whole: a position is that of a record, and who goes on asks for the next one. Where one
record alone has more events than that, the answer is that record, as slowly as the client reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from ortoo.model import limits
from ortoo.model.history import each_of, first_records, split, to_events
from ortoo.model.queries import ScanHistory
from ortoo.model.records import HistoryRecord
from ortoo.model.replies import HistoryPage

from .answers import JSON, Streaming
from .call import Call
from .shapes import HistoryQuery
from .topic_shapes import HistoryList

_PART_EVENTS, _PART_BYTES = 1_000, 256 * 1024  # that are written before others run
_EVENT_BYTES = 256  # about, without its error

_encode = msgspec.json.Encoder().encode


async def history(call: Call) -> Streaming:
    query: HistoryQuery = call.query
    page = await call.link.ask(ScanHistory(call.topic, query.partition, query.from_position, query.limit))
    records = first_records(each_of(page.records), limits.HISTORY_EVENTS_MAX)
    return Streaming(_written(page, records), JSON)


async def _written(page: HistoryPage, records: list[HistoryRecord]) -> AsyncGenerator[bytes, None]:
    """As a `HistoryList`."""
    before, _, after = _encode(HistoryList([], page.start + len(records), page.end)).partition(b"[]")
    lead = before + b"["
    async for part in _parts(page, records):
        yield lead + part
        lead = b","
    yield (lead if lead != b"," else b"") + b"]" + after


async def _parts(page: HistoryPage, records: list[HistoryRecord]) -> AsyncIterator[bytes]:
    written: list[bytes] = []
    size = count = 0
    for position, record in enumerate(records, page.start):
        each = _EVENT_BYTES + len(getattr(record, "error", None) or "")
        for piece in split(record, max(1, min(_PART_EVENTS, _PART_BYTES // each))):
            written.append(_encode(to_events([piece], position, page.groups))[1:-1])
            size, count = size + len(written[-1]), count + len(piece.offsets)
            if size >= _PART_BYTES or count >= _PART_EVENTS:
                yield b",".join(written)
                written, size, count = [], 0, 0
                await asyncio.sleep(0)
    if written:
        yield b",".join(written)
