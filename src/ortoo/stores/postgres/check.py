"""Verifies a schema without changing it: what opening it would find, and then every row that opening does not read.

All of it as of one snapshot of the database, so a queue may be running: a commit is one transaction, and is there as a whole or
not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ortoo.model.errors import OrtooError
from ortoo.model.names import TopicId, TopicName
from ortoo.stores.disk.crypto import KeyRing

from .address import Address
from .catalog import Catalog
from .connections import PATIENT_S, Connections
from .errors import DatabaseError, failing_while
from .mark import read_mark
from .migrations import refuse_unready
from .reader import Reader
from .recovery import Recovery
from .rows import Row, decode_row
from .shard import identity_of
from .spill import spilled
from .writing import HistoryRow

PROBLEMS_MAX = 100
_ROWS = f"select {', '.join(Row._fields)} from batches order by topic, partition, base"  # noqa: S608  names of columns
_HISTORY = """
    select topic, partition, number, events, first_offset, last_offset, key_name, nonce, records, commit from history
    order by topic, partition, number
"""
_COUNTS = """
    select (select count(*) from batches) as batches, (select coalesce(sum(messages), 0) from batches)::bigint as messages,
           (select count(*) from commits) as commits, (select count(*) from history) as histories
"""
_ROWS_TOGETHER = 8
_TOLD_EVERY = 64
Progress = Callable[[str], None]


class SchemaReport(msgspec.Struct):
    commit: int = 0  # the last one: everything up to it was looked at
    checkpoint: int = 0  # the last commit in it
    commits: int = 0
    batches: int = 0
    messages: int = 0
    histories: int = 0  # rows of history
    read_bytes: int = 0  # of messages and history
    problems: list[str] = []

    def complain(self, problem: str) -> None:
        if problem not in self.problems and len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)


class _Check:
    def __init__(self, connection: Any, ring: KeyRing, bytes_max: int | None, progress: Progress) -> None:
        self._connection = connection
        self._ring = ring
        self._bytes_max = bytes_max
        self._progress = progress
        self._catalog = Catalog(recent_bytes=0)
        self.report = SchemaReport(problems=[])

    async def run(self) -> None:
        known = await self._connection.fetch("select name, check_value from encryption_keys")
        self._ring.bind(dict(map(tuple, known)), lambda _: None)
        counts = await self._connection.fetchrow(_COUNTS)
        for name, count in counts.items():
            setattr(self.report, name, count)
        await self._open()
        await self._read_batches()
        await self._read_history()
        mark = await read_mark(self._connection)
        if mark is not None and mark.is_open:
            self.report.complain(f"{mark.told}: these were not looked at")

    async def _open(self) -> None:
        problems: list[str] = []
        recovery = Recovery(self._connection, self._catalog, self._ring)
        try:
            async for _ in recovery.run():
                self._progress(f"commit {recovery.last}")
        except DatabaseError:
            raise
        except (OrtooError, msgspec.MsgspecError) as error:
            problems.append(f"it cannot be opened: {error}")
        self.report.commit, self.report.checkpoint = recovery.last, recovery.checkpointed
        for problem in (*self._catalog.problems(), *problems):
            self.report.complain(problem)

    async def _read_batches(self) -> None:
        """Without a gap between them that no checkpoint explains; and all of them can be decoded."""
        place, until, commit, rows = (0, 0), 0, 0, 0
        async for fields in self._connection.cursor(_ROWS, prefetch=_ROWS_TOGETHER):
            row = Row(*fields)
            if TopicId(row.topic) not in self._catalog.configs:
                continue  # deleted, and not all removed yet
            if (row.topic, row.partition) == place and row.base != until:
                what = "missing" if row.base > until else "there twice"
                first, last = sorted((row.base, until))
                self._complain(row.topic, row.partition, f"messages {first} to {last - 1} are {what}")
            commit = commit if (row.topic, row.partition) == place else 0
            place, until = (row.topic, row.partition), row.until
            commit = self._follow(*place, f"messages from {row.base} on", row.commit, commit)
            try:
                decode_row(row, self._ring)
            except OrtooError as error:
                self._complain(row.topic, row.partition, str(error))
            rows += 1
            if self._is_enough(len(row.body), f"{rows} of {self.report.batches} batches"):
                return

    async def _read_history(self) -> None:
        reader = Reader(None, self._ring)  # type: ignore[arg-type]  # it only decodes
        ends: dict[tuple[int, int], int] = {}
        rows = commit = 0
        async for row in self._connection.cursor(_HISTORY, prefetch=_ROWS_TOGETHER):
            here = (row["topic"], row["partition"])
            if TopicId(row["topic"]) not in self._catalog.configs:
                continue
            commit = self._follow(
                *here, f"records from {row['number']} of its history on", row["commit"], commit if here in ends else 0
            )
            known = ends.get(here, row["number"])
            if row["number"] != known:
                self._complain(
                    *here, f"records {known} to {row['number'] - 1} of its history are missing, or there twice"
                )
            ends[here] = row["number"] + row["events"]
            try:
                reader.decode(HistoryRow(*row[:-1]))
            except OrtooError as error:
                self._complain(*here, str(error))
            rows += 1
            if self._is_enough(len(row["records"]), f"{rows} of {self.report.histories} rows of history"):
                return
        for place, history in self._catalog.histories.items():
            if (found := ends.get(place, history.first)) != history.end:
                self._complain(*place, f"its history ends at record {found}, not at {history.end}")

    def _follow(self, topic: int, partition: int, what: str, commit: int, before: int) -> int:
        """Rows lie in the order of the commits that brought them. Returns the last one."""
        if commit > self.report.commit:
            self._complain(topic, partition, f"{what} belong to commit {commit}, which is missing")
        elif commit < before:
            self._complain(topic, partition, f"{what} belong to commit {commit}, and those before them to {before}")
        return max(commit, before)

    def _is_enough(self, size: int, detail: str) -> bool:
        self.report.read_bytes += size
        self._progress(detail)
        return self._bytes_max is not None and self.report.read_bytes >= self._bytes_max

    def _complain(self, topic: int, partition: int, what: str) -> None:
        name = self._catalog.names.get(TopicId(topic), TopicName("", f"number {topic}"))
        self.report.complain(f"partition {partition} of topic {str(name)!r}: {what}")


async def check_schema(
    address: Address,
    ring: KeyRing,
    bytes_max: int | None = None,
    progress: Progress = lambda _: None,
    spill: Path | None = None,
) -> SchemaReport:
    """`bytes_max`: after so many bytes of messages, and of history, the rest is not read. `spill`: the folder of all spills."""
    connections = Connections(address, PATIENT_S, is_reader=True)
    try:
        connection = await connections.reconnect()
        await refuse_unready(connection, address)
        with failing_while("checking"):
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                check = _Check(connection, ring, bytes_max, progress)
                await check.run()
        found = None if spill is None else spilled(spill, await identity_of(connection, address))
        if found is not None:
            check.report.complain(
                f"{found} has commits that the database does not have yet, and they were not looked at; start the queue with "
                "that spill, and check again when ortoo_spilled_commits is 0"
            )
        return check.report
    finally:
        await connections.close()
