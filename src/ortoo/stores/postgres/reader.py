"""Reads messages and history. What was published last, and what was read last, is in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord, Staged, decode_history
from ortoo.model.replies import Columns, join_columns
from ortoo.ports import StoredHistory
from ortoo.stores.disk.commit import decode_commit
from ortoo.stores.disk.crypto import KeyRing, Sealed

from .catalog import Catalog, History, Log, Name, bounds
from .commit_log import GoneError
from .connections import Connections
from .rows import Row, decode_row
from .waiting import Waiting
from .writing import HistoryRow, history_context

_ROW = ", ".join(f"b.{name}" for name in Row._fields)
# The rows that have one of some offsets, and not those between: each is found by itself.
_SCATTERED = f"""
    select {_ROW} from (
        select distinct c.base from unnest($3::bigint[]) o
        cross join lateral (
            select base from batches where topic = $1 and partition = $2 and base <= o order by base desc limit 1
        ) c
    ) f join batches b on b.topic = $1 and b.partition = $2 and b.base = f.base order by b.base limit $4
"""  # noqa: S608  names of columns
ROWS_FROM = f"""
    select {_ROW} from batches b
    where b.topic = $1 and b.partition = $2 and b.base <= $4
    and b.base >= coalesce((select max(base) from batches where topic = $1 and partition = $2 and base <= $3), $3)
    order by b.base limit $5
"""  # noqa: S608  names of columns
_HISTORY = """
    select topic, partition, number, events, first_offset, last_offset, key_name, nonce, records from history
    where topic = $1 and partition = $2 and number >= coalesce(
        (select max(number) from history where topic = $1 and partition = $2 and number <= $3), $3)
    order by number limit $4
"""
_ABOUT = """
    select topic, partition, number, events, first_offset, last_offset, key_name, nonce, records from history
    where topic = $1 and partition = $2 and first_offset <= $4 and last_offset >= $4 and number + events > $3
    and number >= coalesce((select max(number) from history where topic = $1 and partition = $2 and number <= $3), $3)
    and number < $5 order by number limit $6
"""
_STAGED = "select number, flags, records from commits where number = any($1::bigint[]) order by number"
_ROWS_TOGETHER = 8
_SCATTERED_TOGETHER = 1_000  # offsets that are asked for at once
_HISTORY_TOGETHER = 64
_NEVER = 1 << 62
_COMMITS_TOGETHER = 8
_DENSE = 64  # wanted offsets lie closer than that: what is between them is read along


class Reader:
    def __init__(self, connections: Connections, ring: KeyRing, waiting: Waiting | None = None) -> None:
        """`waiting`: what the database does not have yet."""
        self._connections = connections
        self._ring = ring
        self._waiting = waiting
        self.catalog = Catalog()

    # -- messages

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        log = self.catalog.logs.get((topic, partition))
        if log is None:
            return join_columns([])
        start = max(start, log.start)
        return await self.read(topic, partition, range(start, min(start + count, log.end)))

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        log = self.catalog.logs.get((topic, partition))
        if log is None:
            return join_columns([])
        offsets = offsets[bisect_left(offsets, log.start) : bisect_left(offsets, log.end)]
        parts: list[Columns] = []
        at = 0
        while at < len(offsets):
            stretch = log.in_memory(offsets[at])
            if stretch is not None:
                upto = bisect_right(offsets, stretch.end - 1, lo=at)
                parts.append(stretch.read(offsets[at:upto]))
                at = upto
                continue
            found = self.catalog.frames.get(log, offsets[at])
            if found is not None:
                upto = bisect_right(offsets, found.offsets[-1], lo=at)
                parts.append(_pick(found, offsets[at:upto]))
                at = upto
                continue
            upto = self._until_memory(log, offsets, at)
            waiting = None if self._waiting is None else self._waiting.begin_of((topic, partition))
            if waiting is not None and offsets[at] < waiting:
                upto = bisect_left(offsets, waiting, lo=at, hi=upto)
            try:
                if waiting is None or offsets[at] < waiting:
                    rows = await self._fetch(log, offsets[at:upto])
                else:
                    assert self._waiting is not None
                    rows = await self._waiting.rows((topic, partition), offsets[at:upto])
                    upto = bisect_left(offsets, rows[-1].until, lo=at, hi=upto)
            except GoneError:  # the database has them by now
                continue
            if self.catalog.logs.get((topic, partition)) is not log:  # deleted, or recovered, meanwhile
                return await self.read(topic, partition, offsets)
            at = self._take(log, rows, offsets, at, upto, parts)
        return join_columns([part for part in parts if len(part)])

    def _until_memory(self, log: Log, offsets: Sequence[int], at: int) -> int:
        """How far the offsets go that have to be read, and can be asked for at once."""
        later = next((stretch.base for stretch in log.recent if stretch.base > offsets[at]), None)
        upto = len(offsets) if later is None else bisect_left(offsets, later, lo=at)
        return upto if _is_dense(offsets[at:upto]) else min(upto, at + _SCATTERED_TOGETHER)

    async def _fetch(self, log: Log, offsets: Sequence[int]) -> list[Row]:
        first, last, place = offsets[0], offsets[-1], (log.topic, log.partition)
        async with self._connections.reader("reading messages") as connection:
            if _is_dense(offsets):
                found = await connection.fetch(ROWS_FROM, *place, first, last, _ROWS_TOGETHER)
            else:
                found = await connection.fetch(_SCATTERED, *place, list(offsets), _ROWS_TOGETHER)
        return [Row(*row) for row in found]

    def _take(self, log: Log, rows: list[Row], offsets: Sequence[int], at: int, upto: int, parts: list[Columns]) -> int:
        """Returns where to go on. What no row has is not there any more."""
        for row in rows:
            after = bisect_left(offsets, row.until, lo=at, hi=upto)
            if after <= at:
                continue
            columns = decode_row(row, self._ring).to_columns()
            parts.append(_pick(columns, offsets[bisect_left(offsets, row.base, lo=at, hi=upto) : after]))
            if row is rows[-1]:
                self.catalog.frames.put(log, columns, row.size)
            at = after
        return at if len(rows) == _ROWS_TOGETHER else upto

    # -- history

    async def history(self, topic: TopicId, partition: int, offset: int) -> AsyncIterator[list[HistoryRecord]]:
        at, place = 0, (topic, partition)
        while place in self.catalog.histories:
            # Looked up first: what leaves the log meanwhile is found in the database then, or asked for again.
            waiting = [] if self._waiting is None else self._waiting.happened(place, at, offset)
            found: list[HistoryRow] = []
            until = waiting[0].number if waiting else _NEVER
            if until > at:
                async with self._connections.reader("reading history") as connection:
                    rows = await connection.fetch(_ABOUT, *place, at, offset, until, _HISTORY_TOGETHER)
                found = [HistoryRow(*row) for row in rows]
            is_all = len(found) < _HISTORY_TOGETHER
            if waiting and is_all:
                assert self._waiting is not None
                try:
                    found += await self._waiting.histories(place, waiting)
                except GoneError:
                    continue
            records = [
                one for row in found for one in self.decode(row)[max(0, at - row.number) :] if offset in one.offsets
            ]
            if records:
                yield records
            if is_all and not waiting:
                return
            at = found[-1].number + found[-1].events  # where a row begins that was merged meanwhile is no matter

    async def read_history(self, known: History, start: int, count: int, end: int) -> StoredHistory:
        """From one number to before another, until some are missing."""
        start, records = max(start, known.first), list[HistoryRecord]()
        wanted = max(0, min(count, end - start))
        while len(records) < wanted:
            at = start + len(records)
            before = len(records)
            for row in await self._happened(known, at):
                at = start + len(records)
                if row.number + row.events <= at:
                    continue
                if row.number > at:
                    if records:
                        break
                    start = at = row.number
                    wanted = max(0, min(count, end - start))
                records += self.decode(row)[at - row.number :]
            if len(records) == before or len(records) >= wanted:
                break
        return StoredHistory(records[:wanted], start, known.first, end)

    async def _happened(self, known: History, at: int) -> list[HistoryRow]:
        """Some rows from the one with that record on."""
        place = (known.topic, known.partition)
        while self._waiting is not None and (waiting := self._waiting.happened(place, at)) and waiting[0].number <= at:
            with suppress(GoneError):
                return await self._waiting.histories(place, waiting)
        async with self._connections.reader("reading history") as connection:
            return [HistoryRow(*row) for row in await connection.fetch(_HISTORY, *place, at, _HISTORY_TOGETHER)]

    def decode(self, row: HistoryRow) -> list[HistoryRecord]:
        data = row.records
        if row.key_name is not None:
            sealed = Sealed(row.key_name, row.nonce or b"")
            data = self._ring.open(sealed, data, history_context(row.topic, row.partition, row.number))
        found = decode_history(data)
        if len(found) != row.events or bounds(found) != (row.first, row.last):
            raise CorruptionError(
                f"the history of topic {row.topic}, partition {row.partition} at {row.number} is damaged"
            )
        return found

    # -- what was staged

    async def staged(self, name: Name, start: int, bytes_max: int) -> list[Staged]:
        numbers = self.catalog.staging.numbers.get(name)
        found: list[Staged] = []
        while numbers is not None and start < len(numbers) and bytes_max > 0:
            wanted = list(dict.fromkeys(numbers[start : start + 64]))[:_COMMITS_TOGETHER]
            for number, flags, data in await self._commits(wanted):
                first, after = bisect_left(numbers, number), bisect_right(numbers, number)
                records = _staged(number, data, flags, name, self._ring)[first - after :]
                found += records[start - first :]
                start = after
                bytes_max -= len(data)
                if bytes_max <= 0:
                    break
        return found

    async def _commits(self, wanted: list[int]) -> list[tuple[int, int, bytes]]:
        """Some of the first of these: numbers, flags, records."""
        if self._waiting is not None and self._waiting.has(wanted[0]):
            with suppress(GoneError):
                return [commit.told() for commit in await self._waiting.commits(wanted)]
        if self._waiting is not None:
            wanted = [number for number in wanted if not self._waiting.has(number)] or wanted
        async with self._connections.reader("reading what was staged") as connection:
            rows = await connection.fetch(_STAGED, wanted)
        if len(rows) < len(wanted):
            raise CorruptionError(f"commit {wanted[len(rows)]}, which has something that was staged, is missing")
        return [(number, flags, data) for number, flags, data in rows]


def _staged(number: int, data: bytes, flags: int, name: Name, ring: KeyRing) -> list[Staged]:
    found: list[Staged] = []
    for _, records in decode_commit(number, data, flags, ring):
        if isinstance(records, OrtooError):
            raise records
        found += [one for one in records if isinstance(one, Staged) and (one.namespace, one.transaction) == name]
    return found


def _is_dense(offsets: Sequence[int]) -> bool:
    return offsets[-1] - offsets[0] < _DENSE * len(offsets)


def _pick(found: Columns, offsets: Sequence[int]) -> Columns:
    """The columns of those ascending offsets, as far as they are there."""
    if len(offsets) == len(found.offsets) and offsets[0] == found.offsets[0] and offsets[-1] == found.offsets[-1]:
        return found
    if type(found.offsets) is range:
        base = found.offsets[0]
        if offsets[-1] - offsets[0] == len(offsets) - 1:
            return found.pick(slice(offsets[0] - base, offsets[-1] - base + 1))
        rows = [offset - base for offset in offsets]
    else:
        places = {offset: row for row, offset in enumerate(found.offsets)}
        rows = [places[offset] for offset in offsets if offset in places]
    if not rows:
        return join_columns([])
    is_run = rows[-1] - rows[0] + 1 == len(rows)
    return found.pick(slice(rows[0], rows[-1] + 1) if is_run else rows)
