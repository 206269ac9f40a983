"""A schema seen from outside, while its owner may be at work: everything up to the last commit.

Nothing is claimed, locked or written: connections are read-only, and no statement takes long, so nobody's snapshot is held. What
is seen is one commit's: the checkpoint, and the commits behind it, are read in one transaction. What is only on its way to the
disk is waited for. Rows are merged and removed at any moment, so messages are found by their offsets, never by their rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ortoo.model import records as r
from ortoo.model.errors import OrtooError
from ortoo.model.names import TopicId
from ortoo.model.replies import Columns
from ortoo.ports import StoredHistory
from ortoo.stores.disk.commit import decode_commit
from ortoo.stores.disk.crypto import KeyRing

from . import manifest as manifests
from .address import Address
from .catalog import Catalog
from .connections import PATIENT_S, Connections
from .errors import failing_while
from .migrations import refuse_unready
from .reader import ROWS_FROM, Reader
from .recovery import COMMITS, COMMITS_TOGETHER, READ_BYTES
from .rows import Row, decode_row, unpack_instants, unpacked

_LAST = """
    select coalesce((select max(number) from checkpoints), 0) as checkpoint,
           greatest((select max(number) from commits), (select max(number) from checkpoints), 0) as last
"""
_FIRST_AT = """
    select base, at, times, gaps from batches
    where topic = $1 and partition = $2 and until > $3 and last_at >= $4 order by base limit 1
"""
_ROWS_TOGETHER, _HISTORY_TOGETHER = 8, 2_000
_DURABLE_S, _DURABLE_STEP_S = 5.0, 0.01  # PostgreSQL writes down what it was not asked to within a second
_IS_FLUSHED = "select pg_is_in_recovery() or pg_current_wal_flush_lsn() >= $1::text::pg_lsn"


class OutsideSchema:
    """Connected only inside of `connected`. `begin` is told of a checkpoint, or that there is none, when everything is told
    anew; `take` of each record behind it. What records published is only told, and is in the rows."""

    def __init__(
        self, address: Address, ring: KeyRing, begin: Callable[[bytes | None], None], take: Callable[[r.Record], None]
    ) -> None:
        self._address = address
        self._ring = ring
        self._begin = begin
        self._take = take
        self._connections = Connections(address, PATIENT_S, is_reader=True)
        self._reader = Reader(self._connections, ring)
        self._number = -1  # of the last commit that was seen
        self.catalog = Catalog()
        self.locked: dict[int, OrtooError] = {}  # topics of which something cannot be decrypted

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self._connections.close()

    async def look(self) -> None:
        """What is new since it looked last."""
        connection = await self._connections.reconnect()
        await refuse_unready(connection, self._address)
        with failing_while("looking for commits"):
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                checkpoint, last = await connection.fetchrow(_LAST)
                if last < self._number or self._number < max(checkpoint, 0):
                    await self._start_over(connection, checkpoint)
                await self._follow(connection)
            await _wait_until_durable(connection)

    async def _start_over(self, connection: Any, checkpoint: int) -> None:
        known = await connection.fetch("select name, check_value from encryption_keys")
        self._ring.bind(dict(map(tuple, known)), lambda _: None)
        self.catalog = self._reader.catalog = Catalog()
        self.locked, self._number, snapshot = {}, -1, None  # until all of it is there
        if checkpoint:
            found = await connection.fetchval("select manifest from checkpoints where number = $1", checkpoint)
            manifests.load(manifests.decoder.decode(found), self.catalog)
            pieces = await connection.fetch("select data from snapshots where number = $1 order by piece", checkpoint)
            snapshot = b"".join([data for (data,) in pieces])
        self._begin(snapshot)
        self._number = checkpoint

    async def _follow(self, connection: Any) -> None:
        while rows := await connection.fetch(COMMITS, self._number, COMMITS_TOGETHER, READ_BYTES):
            for number, flags, data in rows:
                for topic, records in decode_commit(number, data, flags, self._ring):
                    if isinstance(records, OrtooError):
                        self.locked[topic] = records
                        continue
                    for record in records:
                        self._absorb(record, number)
                self._number = number

    def _absorb(self, record: r.Record, number: int) -> None:
        if type(record) is r.Published:  # its messages are not in it, and so must not be kept
            self.catalog.log(record.topic, record.partition).end = record.base + record.count
        else:
            self.catalog.absorb(record, number)
        self._take(record)

    # -- what is there

    def bounds(self, topic: TopicId, partition: int) -> tuple[int, int]:
        log = self.catalog.logs.get((topic, partition))
        return (0, 0) if log is None else (log.start, log.end)

    def history_bounds(self, topic: TopicId, partition: int) -> tuple[int, int]:
        history = self.catalog.histories.get((topic, partition))
        return (0, 0) if history is None else (history.first, history.end)

    async def scan(self, topic: TopicId, partition: int, start: int, end: int) -> AsyncIterator[Columns]:
        """The messages of that range that are still there, row by row."""
        at = start
        while at < end:
            async with self._connections.reader("reading messages") as connection:
                rows = await connection.fetch(ROWS_FROM, topic, partition, at, end - 1, _ROWS_TOGETHER)
            if not rows:
                return
            for fields in rows:
                row = Row(*fields)
                if row.until <= at:
                    continue
                columns = decode_row(row, self._ring).to_columns()
                yield _between(columns, at, end)
                at = row.until
            if len(rows) < _ROWS_TOGETHER:
                return

    async def first_at(self, topic: TopicId, partition: int, time_ms: int) -> int:
        """The first message at or after that time; the end when there is none."""
        start, end = self.bounds(topic, partition)
        async with self._connections.reader("looking for a time") as connection:
            found = await connection.fetchrow(_FIRST_AT, topic, partition, start, time_ms)
        if found is None:
            return end
        base, at, times, gaps = found
        row = next(row for row, instant in unpack_instants(at, times) if instant >= time_ms)
        first: int = base + (row if gaps is None else unpacked(gaps)[row])
        return max(start, first)

    async def read_history(self, topic: TopicId, partition: int, start: int, end: int) -> AsyncIterator[StoredHistory]:
        at = start
        while at < end and (known := self.catalog.histories.get((topic, partition))) is not None:
            found = await self._reader.read_history(known, at, _HISTORY_TOGETHER, min(end, known.end))
            if not found.records:
                return
            yield found
            at = found.start + len(found.records)


async def _wait_until_durable(connection: Any) -> None:
    """What a crash of the database could still undo must not be seen by those who remember how far they have read."""
    written = await connection.fetchval(
        "select case when not pg_is_in_recovery() then pg_current_wal_insert_lsn()::text end"
    )
    for _ in range(round(_DURABLE_S / _DURABLE_STEP_S) if written is not None else 0):
        if await connection.fetchval(_IS_FLUSHED, written):
            return
        await asyncio.sleep(_DURABLE_STEP_S)


def _between(columns: Columns, start: int, end: int) -> Columns:
    offsets = columns.offsets
    if start <= offsets[0] and offsets[-1] < end:
        return columns
    return columns.pick([row for row, offset in enumerate(offsets) if start <= offset < end])
