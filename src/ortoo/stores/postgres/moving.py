"""Schemas as what `ortoo migrate` reads and writes.

A source is read as recovery reads it; its lock is held, so that no queue writes meanwhile, and nothing is claimed. A target has
the table `incoming` until all of it is there: whoever opens it is refused as long as it has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ortoo.model.errors import ExistsError, UnavailableError
from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord, Published, Record, Staged, TopicCreated, Trimmed
from ortoo.model.replies import Columns
from ortoo.ports import StoredHistory
from ortoo.stores.disk.crypto import KeyRing

from . import manifest
from .address import Address
from .catalog import Catalog
from .checkpoints import PIECE_BYTES, PRUNED_TOGETHER, Keeper, take_cut
from .connections import PATIENT_S, Connections
from .errors import failing_while
from .mark import refuse_buffered
from .migrations import migrate, refuse_unready
from .reader import Reader
from .recovery import Recovery
from .shard import identity_of
from .spill import spilled
from .writing import APPEND, encode

_NODE = "ortoo migrate"
_MARK = """
    drop table if exists incoming;
    create table incoming (mark text not null);
    comment on table incoming is 'This schema is half a copy, by a migration that is not finished.';
    comment on column incoming.mark is 'That all of it is there, and which migration was about to finish it.';
"""
_EMPTY = """
    do $$ declare found record; begin
        for found in select tablename from pg_tables
            where schemaname = current_schema() and tablename not in ('migrations', 'owner', 'incoming') loop
            execute format('truncate %I cascade', found.tablename);
        end loop;
    end $$
"""
_HAS_SCHEMA = "select to_regnamespace(quote_ident($1)) is not null"
_IS_HALF = "select to_regclass('incoming') is not null"
_MARK_OF = "select max(to_jsonb(i) ->> 'mark') from incoming i"  # one that an earlier version made has no such column
_PRESENT = """
    select greatest((select max(number) from commits), (select max(number) from checkpoints), 0) as last,
           (select count(*) from topics) as topics, exists (select 1 from batches) as has_batches
"""
# Rows lie in the order of the commits that brought them.
_ODD_COMMITS = """
    select topic, partition, number, commit from (
        select topic, partition, number, commit, lag(commit, 1, 1::bigint) over (partition by topic, partition order by number)
            as before from history
    ) h where commit < before or commit > $1 order by topic, partition, number limit 1
"""
_KEYS = "insert into encryption_keys (name, check_value) values ($1, $2) on conflict (name) do nothing"


async def _take(connections: Connections, address: Address) -> None:
    if not await connections.lock(by_force=False):
        raise UnavailableError(f"{address.shown} is in use by a queue, which is connected; stop that one first")


class PostgresSource:
    def __init__(self, address: Address, ring: KeyRing, is_copied: bool = False, spill: Path | None = None) -> None:
        """`is_copied`: it is what a target has just written, and that one has the lock. `spill`: the folder of all spills."""
        self._spill = spill
        self.problems: list[str] = []
        self._address = address
        self._ring = ring
        self._is_copied = is_copied
        self._connections = Connections(address, PATIENT_S, is_reader=True)
        self._catalog = Catalog(recent_bytes=0)
        self._reader = Reader(self._connections, ring)
        self._reader.catalog = self._catalog

    async def records(self) -> AsyncIterator[list[Record]]:
        connection = await self._connections.reconnect()
        await refuse_unready(connection, self._address, self._is_copied)
        if not self._is_copied:
            await _take(self._connections, self._address)
        await refuse_buffered(connection, self._address)
        if self._spill is not None:
            found = spilled(self._spill, await identity_of(connection, self._address))
            if found is not None:
                raise UnavailableError(
                    f"{found} has commits that {self._address.shown} does not have yet: start the queue with that spill once "
                    "more, and stop it when ortoo_spilled_commits is 0; nothing was moved"
                )
        with failing_while("reading the queue"):
            known = await connection.fetch("select name, check_value from encryption_keys")
            self._ring.bind(dict(map(tuple, known)), lambda _: None)
            recovery = Recovery(connection, self._catalog, self._ring)
            async for records in recovery.run():
                yield records
            odd = await connection.fetchrow(_ODD_COMMITS, recovery.last) if self._is_copied else None
        self.problems += self._catalog.problems()
        if odd is not None:
            topic, partition, number, commit = odd
            where = f"partition {partition} of topic {str(self._catalog.names.get(topic))!r}"
            self.problems.append(f"{where}: record {number} of its history is not of commit {commit}")

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        return await self._reader.scan(topic, partition, start, count)

    async def read_history(self, topic: TopicId, partition: int, start: int, count: int) -> StoredHistory:
        known = self._catalog.histories.get((topic, partition))
        if known is None:
            return StoredHistory([], start, 0, 0)
        return await self._reader.read_history(known, start, count, known.end)

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[Staged]:
        return await self._reader.staged((namespace, transaction), start, bytes_max)

    async def close(self) -> None:
        await self._connections.close()


class PostgresTarget:
    def __init__(self, address: Address, ring: KeyRing) -> None:
        self._address = address
        self._ring = ring
        self._connections = Connections(address, PATIENT_S)
        self._catalog = Catalog(recent_bytes=0)
        self._number = 0  # of the last commit
        self._term = 0
        self._new_keys: dict[str, bytes] = {}  # whose check values are to be written down first

    async def look(self) -> str | None:
        """By beginning, and taking that back."""
        connection = await self._connections.reconnect()
        await _take(self._connections, self._address)
        with failing_while(f"looking at the schema {self._address.schema}"):
            trial = connection.transaction()
            await trial.start()
            try:
                if await connection.fetchval(_HAS_SCHEMA, self._address.schema) and await connection.fetchval(_IS_HALF):
                    found = await connection.fetchval(_MARK_OF)
                    if found is not None:
                        return str(found)
                await self._make(connection)
            finally:
                await trial.rollback()
        return None

    async def _make(self, connection: Any) -> None:
        await migrate(connection, self._address, is_copied=True)
        if await connection.fetchval(_IS_HALF):
            await connection.execute(_EMPTY)
        else:
            last, topics, has_batches = await connection.fetchrow(_PRESENT)
            if last or topics or has_batches:
                raise ExistsError(
                    f"{self._address.shown} has a queue in the schema {self._address.schema!r} already, with {topics} "
                    f"topics and {last} commits; name another one: ?schema=NAME"
                )
        await connection.execute(_MARK)

    async def begin(self) -> None:
        connection = self._connections.writer
        with failing_while(f"preparing the schema {self._address.schema}"):
            async with connection.transaction():
                await self._make(connection)
                self._term = await connection.fetchval("select claim(null, 0, $1)", _NODE)
        self._ring.bind({}, self._new_keys.update)

    def can_encrypt(self) -> bool:
        return self._ring.current is not None

    async def create(self, topic: TopicCreated, starts: Sequence[int]) -> None:
        trims = [Trimmed(topic.at, topic.topic, partition, start) for partition, start in enumerate(starts) if start]
        await self._append([topic, *trims])

    async def publish(self, records: Sequence[Published]) -> None:
        await self._append(records)

    async def tell(self, topic: TopicId, partition: int, number: int, records: Sequence[HistoryRecord]) -> None:
        history = self._catalog.history(topic, partition)
        if history.first == history.end:  # there is nothing yet
            history.first = number
        history.end = number
        if records:
            await self._append(records)

    async def _append(self, records: Sequence[Record]) -> None:
        for record in records:
            self._catalog.learn(record)
        commit = encode(self._number + 1, records, True, self._catalog, self._ring)
        await self._write_keys()
        with failing_while(f"copying to {self._address.shown}"):
            await self._connections.writer.execute(APPEND, self._term, *commit.arguments)
        for record in records:
            self._catalog.absorb(record, commit.number)
        commit.note(self._catalog)
        self._number = commit.number

    async def _write_keys(self) -> None:
        """Before anything that is encrypted with them."""
        if self._new_keys:
            with failing_while("writing check values of keys"):
                await self._connections.writer.executemany(_KEYS, list(self._new_keys.items()))
            self._new_keys.clear()

    async def finish(
        self, snapshot: bytes, at: int, secrets: Mapping[TopicId, bytes], commits: AsyncIterator[list[Record]]
    ) -> None:
        reader = Reader(self._connections, self._ring)
        keeper = Keeper(self._connections, self._catalog, self._ring, self._term, reader.decode)
        pieces = -(-len(snapshot) // PIECE_BYTES)
        known = manifest.take(self._catalog, self._ring, at, secrets, pieces)
        cut = take_cut(self._catalog, self._number, snapshot, known)
        await self._write_keys()
        await keeper.write(cut)
        with failing_while("removing commits"):
            for after in range(0, cut.number, PRUNED_TOGETHER):
                until = min(after + PRUNED_TOGETHER, cut.number)
                await self._connections.writer.fetchval(
                    "select prune_commits($1, $2, $3, '{}')", self._term, after, until
                )
        async for records in commits:
            await self._append(records)
        await self._connections.sync()

    def reopen(self) -> PostgresSource:
        return PostgresSource(self._address, self._ring, is_copied=True)

    async def mark(self, told: str) -> None:
        with failing_while(f"finishing the copy in {self._address.shown}"):
            await self._connections.writer.execute("insert into incoming (mark) values ($1)", told)

    async def release(self) -> None:
        with failing_while(f"finishing the copy in {self._address.shown}"):
            await self._connections.writer.execute("drop table if exists incoming")

    async def close(self) -> None:
        await self._connections.close()
