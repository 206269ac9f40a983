"""The PostgreSQL store: a commit is one call of a function in the database, which stores batches, not messages.

    append      encode ─▶ append(term, number, …) ─▶ committed: what it promises is the database's promise
    checkpoint  snapshot, in pieces ─▶ checkpoint(term, …) ─▶ commits that it contains go, small rows are merged
    recover     checkpoint ─▶ heads of batches ─▶ the commits that followed
    outage      append ─▶ the spill, under the same number, until the database has it all again (`front.py`)
    buffer      append ─▶ Redis, under the same number; the database gets it soon after (`buffering.py`)

A shard is a schema. Who owns it is a term, which every write names: a function refuses the term of an owner that another one has
followed (`fence`), and that is final. When a connection breaks in a commit, whether it was made can be told by its number.
"""

from __future__ import annotations

import asyncio
import logging
import re
from array import array
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic, perf_counter

from msgspec.json import encode as to_json

from ortoo.model import records as r
from ortoo.model.errors import NotOwnerError, OrtooError, UnavailableError
from ortoo.model.histogram import Histogram
from ortoo.model.metrics import ShardHealth, StoreFigures
from ortoo.model.names import TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Columns
from ortoo.ports import StoredHistory, StoreStatus
from ortoo.ports.buffer import CommitBuffer
from ortoo.ports.showing import ShownTopic
from ortoo.stores.disk.crypto import KeyRing, open_ring
from ortoo.stores.disk.wal_writer import INTERVAL_S, sync_needed

from . import manifest
from .address import Address, parse_address
from .ahead import Ahead
from .backlog import CHECKPOINT_BYTES, CHECKPOINT_COMMITS, Backlog
from .buffering import BUFFER_BYTES
from .catalog import Catalog
from .checkpoints import PIECE_BYTES, Cut, Keeper, take_cut
from .commit_log import CommitLog
from .connections import AWAY_S, Connections
from .errors import DatabaseError, WentBackError, failing_while
from .keys import PostgresKeys
from .reader import Reader
from .recovery import Recovery
from .report import NOT_SYNCHRONOUS, lost
from .shard import Shard
from .spill import LIMIT_BYTES, Spill
from .writing import encode

CHECKPOINT_PAUSE_S = 5.0  # after one that failed
SYNC_S = 0.2  # how long commits that promise nothing may be lost in a crash of the database, while there is a spill
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # in JSON: what texts in PostgreSQL cannot hold
_log = logging.getLogger("ortoo.postgres")


def open_postgres(
    url: str,
    keys: str | dict[str, bytes] | None = None,
    spill: str | Path | None = None,
    spill_bytes: int = LIMIT_BYTES,
    buffer: CommitBuffer | None = None,
    buffer_bytes: int = BUFFER_BYTES,
) -> PostgresStore:
    """`spill`: the folder in which shards have theirs; None: while the database is away, nothing is taken. `buffer`: commits are
    confirmed from there."""
    address = parse_address(url)
    log = None if spill is None else Spill(Path(spill), address, limit_bytes=spill_bytes)
    return PostgresStore(address, open_ring(keys), log, buffer=buffer, buffer_bytes=buffer_bytes)


class PostgresStore:
    def __init__(
        self,
        address: Address,
        ring: KeyRing | None = None,
        log: CommitLog | None = None,
        *,
        buffer: CommitBuffer | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        checkpoint_commits: int = CHECKPOINT_COMMITS,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """`log`: for commits while the database is away."""
        self.address = address
        self.ring = ring or KeyRing({})
        self._now = now
        self._backlog = Backlog(checkpoint_commits, checkpoint_bytes, now)
        self.connections = Connections(address)
        self.shard = Shard(address, self.connections)
        self.shard.confirmed = lambda: self._ahead.confirmed(self._hard)
        self._keys = PostgresKeys(self.connections, self.ring)
        self._ahead = Ahead(self.shard, log, buffer, buffer_bytes, self._keys.write_down, self._note_problem)
        self.front, self.buffering = self._ahead.front, self._ahead.buffering
        self.connections.is_away = self._ahead.is_away
        self._reader = Reader(self.connections, self.ring, self._ahead.waiting)
        self._number = 0  # of the last commit that was confirmed
        self._hard = 0  # of the last one that was confirmed as durable
        self._known_before = Catalog()  # what was known before the last recovery
        self._losses: list[str] = []  # that cannot be made good, as long as this process can tell of them
        self._checkpoint_seconds = Histogram()
        self._reset()

    def _reset(self) -> None:
        self.catalog = self._reader.catalog = Catalog()
        self._is_soft = False  # something was committed that need not be durable yet
        self._syncing: asyncio.TimerHandle | None = None
        self._checkpointing: asyncio.Task[None] | None = None
        self._found: list[str] = []  # problems that stay
        self._failing: dict[str, str] = {}  # problems that go when what failed succeeds
        self._paused_until = 0.0
        self._told: tuple[object, StoreStatus] | None = None  # the last status without a problem
        self._keeper: Keeper | None = None
        self.shard.stale = None

    # -- who owns it

    @property
    def term(self) -> int | None:
        return self.shard.term

    async def claim(self, term: int | None = None) -> None:
        """Takes the shard. Without a term, only when nobody else has it; with one, from whoever has a lower one. What waits in
        the log was made under the term before, and is moved under it."""
        await self.shard.enter(by_force=term is not None)
        await self._ahead.settle(by_force=term is not None)
        await self.shard.claim(term)

    async def check_owner(self) -> bool:
        if self._ahead.is_away():
            self.shard.check_lost()
        else:
            await self.shard.watch()
            if self.front is not None and self.front.is_soft:
                await self._sync()
        return self.shard.stale is None and (self.front is None or not self.front.is_broken)

    # -- recovery

    async def recover(self) -> AsyncIterator[list[r.Record]]:
        await self._stop()
        await self._ahead.stop()
        self.shard.check_lost()
        if self._keeper is not None:
            self._known_before = self.catalog
        self._reset()
        try:
            await self._enter()
            await self._keys.bind()
            recovery = Recovery(self.connections.writer, self.catalog, self.ring)
            with failing_while("recovering"):
                async for records in recovery.run():
                    yield records
        except NotOwnerError as error:
            self.shard.lost = error
            raise
        self._backlog.recovered(recovery.last, recovery.checkpointed, recovery.size)
        self._found += [NOT_SYNCHRONOUS] if self.connections.synchronous_commit == "off" else []
        assert self.term is not None
        self._keeper = Keeper(self.connections, self.catalog, self.ring, self.term, self._reader.decode)
        self._keys.attach(self.catalog, self.term, self._reader.decode)
        if (found := recovery.last) < self._number:
            self._losses.append(lost(found, self._number, self._known_before, self.catalog, found < self._hard))
            _log.error("the database went back", extra={"found": found, "confirmed": self._number})
        self._hard = self._number = found

    async def _enter(self) -> None:
        try:
            if self.term is not None:
                try:
                    await self.shard.come_back()
                    await self._ahead.settle()
                    await self.shard.check_last(self._ahead.confirmed(self._hard))
                except WentBackError:  # what it was may go on elsewhere: another term tells the two from each other
                    self.shard.term = None
            if self.term is None:
                await self.claim()
        except DatabaseError as error:
            if self.front is None or not self.front.log.is_waiting:
                raise
            raise DatabaseError(
                f"{error}; commits that were confirmed wait in {self.front.log.where} until it is back"
            ) from error

    def _note_problem(self, problem: str) -> None:
        if problem not in self._found:
            self._found.append(problem)

    # -- writing

    def appends_at_once(self, records: Sequence[r.Record]) -> bool:
        return False

    async def append(self, records: Sequence[r.Record]) -> None:
        self.shard.check()
        for record in records:
            self.catalog.learn(record)
        sync = "now" if self.buffering is not None else sync_needed(records, self.catalog.configs)
        commit = encode(self._number + 1, records, sync != "now", self.catalog, self.ring)
        try:
            await self._ahead.commit(commit, sync)
        except NotOwnerError as error:
            self.shard.lost = error
            raise
        except DatabaseError as error:
            if error.is_full:
                self._backlog.note_full()
            raise
        if commit.rows:
            self._backlog.note_room()
        for record in records:
            self.catalog.absorb(record, commit.number)
        commit.note(self.catalog)
        self._number = commit.number
        self._backlog.add(commit.number, commit.size)
        if sync == "now":
            self._hard, self._is_soft = commit.number, False
            return
        self._is_soft = True
        if self._syncing is None and (sync == "soon" or self.front is not None):
            delay = INTERVAL_S if sync == "soon" else SYNC_S
            self._syncing = asyncio.get_running_loop().call_later(delay, self._sync_beside)

    def _sync_beside(self) -> None:
        self._syncing = None
        task = asyncio.ensure_future(self._sync())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _sync(self) -> None:
        """All that was committed so far is durable, wherever it is."""
        upto = self._number
        if self.front is not None and self.front.is_open:
            await self.front.log.sync()
            return
        last = await self.connections.sync()
        if self.front is not None:
            await self.front.synced(upto, last)

    # -- reading

    async def staged(self, namespace: str, transaction: str, start: int, bytes_max: int) -> list[r.Staged]:
        name = (namespace, transaction)
        if (lost := self.catalog.staging.lost.get(name)) is not None:
            raise UnavailableError(f"commit {lost}, which may have staged some of it, cannot be decrypted")
        return await self._reader.staged(name, start, bytes_max)

    async def read(self, topic: TopicId, partition: int, offsets: Sequence[int]) -> Columns:
        return await self._reader.read(topic, partition, offsets)

    async def scan(self, topic: TopicId, partition: int, start: int, count: int) -> Columns:
        return await self._reader.scan(topic, partition, start, count)

    def history(self, topic: TopicId, partition: int, offset: int) -> AsyncIterator[list[r.HistoryRecord]]:
        return self._reader.history(topic, partition, offset)

    async def read_history(self, topic: TopicId, partition: int, start: int, count: int) -> StoredHistory:
        """What is committed softly is visible before it is durable. Who follows the history must not see what might never have
        been."""
        known = self.catalog.histories.get((topic, partition))
        if known is None:
            return StoredHistory([], start, 0, 0)
        end = known.end
        if self._is_soft:
            await self._sync()
        if self.buffering is not None:
            await self.buffering.flusher.reached(self._number, AWAY_S)
        return await self._reader.read_history(known, start, count, end)

    # -- checkpoints

    def status(self) -> StoreStatus:
        """Asked for with every command: what is always the same is made once."""
        idle = (
            self._checkpointing is None and not self.catalog.is_locked and self.shard.is_ours and self._ahead.is_clear
        )
        is_due = self._backlog.is_due or self._keys.wants_checkpoint
        full, room = self._ahead.room() or (self._backlog.full(self._waits_for), None)
        told = (
            idle and is_due and self._now() >= self._paused_until,
            idle and self._backlog.commits > 0,
            full,
            room,
            self.ring.current is not None,
        )
        if problems := self._problems():
            return StoreStatus(*told, problems, can_copy=not self._ahead.is_away())
        if self._told is None or self._told[0] != told:
            self._told = told, StoreStatus(*told)
        return self._told[1]

    def _problems(self) -> tuple[str, ...]:
        found = [*self._losses, *self._found, *self.catalog.problems(), *self._failing.values()]
        if self.shard.stale is not None:
            found.append(str(self.shard.stale))
        found += self._ahead.problems()
        return tuple(dict.fromkeys(found))

    def _waits_for(self) -> str:
        found = (*self.catalog.problems(), "a checkpoint is being written")
        return self._failing.get("checkpoint", found[0])

    def health(self) -> ShardHealth:
        return self._ahead.health()

    def figures(self) -> StoreFigures:
        syncs = Histogram() if self.front is None else self.front.log.sync_seconds
        return StoreFigures(syncs, self._checkpoint_seconds, shards={"0": self.health()})

    def keys(self) -> PostgresKeys:
        return self._keys

    async def checkpoint(self, snapshot: bytes, at: int, secrets: Mapping[TopicId, bytes] | None = None) -> None:
        if self.catalog.is_locked or self._keeper is None or not self._ahead.is_clear:
            return
        if self._checkpointing is not None:
            await asyncio.gather(self._checkpointing, return_exceptions=True)
        known = manifest.take(self.catalog, self.ring, at, secrets or {}, -(-len(snapshot) // PIECE_BYTES))
        wish, self._keys.wants_checkpoint = self._keys.wants_checkpoint, False
        cut = take_cut(self.catalog, self._number, snapshot, known, self._backlog.bytes, wish)
        self._checkpointing = asyncio.create_task(self._run_checkpoint(self._keeper, cut), name="ortoo-checkpoint")

    async def _run_checkpoint(self, keeper: Keeper, cut: Cut) -> None:
        began = perf_counter()
        try:
            self._failing.pop("keys", None)
            if (problem := await self._keys.refresh()) is not None:
                self._failing["keys"] = problem
            await self._keys.write_down()
            await self._ahead.reached(cut.number)
            await keeper.write(cut)
            self._backlog.contained(cut.number, cut.size)
            await keeper.clean_up(cut)
            await keeper.merge(cut)
            self._failing.pop("checkpoint", None)
            self._checkpoint_seconds.observe(perf_counter() - began)
        except NotOwnerError as error:
            self.shard.lost = error
        except Exception as error:  # the commits still have it all; the next checkpoint tries again
            if isinstance(error, WentBackError):
                self.shard.go_stale(error)
            self._failing["checkpoint"] = f"a checkpoint failed: {error}"
            self._paused_until = self._now() + CHECKPOINT_PAUSE_S
            self._keys.wants_checkpoint |= cut.is_wanted
            self.catalog.doomed += [topic for topic in cut.doomed if topic not in self.catalog.doomed]
            if not isinstance(error, OrtooError):
                _log.exception("a checkpoint failed")
        finally:
            self._checkpointing = None

    async def show(self, topics: Sequence[ShownTopic], gone: Sequence[int], only: Sequence[int] | None) -> None:
        text = _NUL.sub(r"\1\\ufffd", to_json(topics).decode())
        async with self.connections.worker("showing the queue") as connection:
            await connection.execute("select show_topics($1, $2, $3, $4)", self.term, text, gone, only)

    def discard(self, topic: TopicId, partition: int, offsets: OffsetSet) -> None:
        log = self.catalog.logs.get((topic, partition))
        if log is not None:
            log.discarded |= offsets.within(log.start, log.end)

    def page_out(self, numbers: array[int]) -> memoryview | None:
        return None

    # -- the end

    async def _stop(self) -> None:
        if self._syncing is not None:
            self._syncing.cancel()
            self._syncing = None
        await self._keys.stop()
        if self._checkpointing is not None:
            await asyncio.gather(self._checkpointing, return_exceptions=True)
        await self.shard.rest()

    async def close(self) -> None:
        await self._stop()
        if self._is_soft and self.shard.lost is None:
            try:
                await self._sync()
            except OrtooError as error:
                _log.warning("the last commits may not be durable", extra={"error": str(error)})
        await self._ahead.close()
        await self.connections.close()
        self.shard.term = self.shard.lost = None
