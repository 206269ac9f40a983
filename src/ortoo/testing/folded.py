"""A disk store that is held to what it confirmed: whatever it recovers must be a fold over the records it was given.

What was confirmed and synced is there; of what came after, a beginning is there. Nothing else: no record in part, none twice,
none out of order. Compared are the engine's state, the messages themselves, and how many bytes it takes them for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor, Future
from random import Random
from typing import Any

import msgspec

from ortoo.engine import Engine
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model.batch import content_bytes
from ortoo.model.names import TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Published, Record, TopicDeleted, decode_records, encode_records
from ortoo.stores.disk import DiskStore

from .pieces import in_one

Picture = dict[str, object]
_EVERYTHING = 100_000
_READ_PER_TURN = 10_000
_MEMORY_BYTES = 20_000
_SEGMENT_BYTES = 400


class SteppedExecutor(Executor):
    """Does its work in the event loop, a few turns later: beside everything else, and the same way in each run."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.is_dead = False  # as a thread is whose process was killed

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._later(self._random.choice([0, 1, 3, 20]), future, lambda: work(*args, **kwargs))
        return future

    def _later(self, turns: int, future: Future[Any], work: Callable[[], Any]) -> None:
        asyncio.get_running_loop().call_soon(self._turn, turns, future, work)

    def _turn(self, turns: int, future: Future[Any], work: Callable[[], Any]) -> None:
        if turns:
            self._later(turns - 1, future, work)
        elif not self.is_dead:
            try:
                future.set_result(work())
            except BaseException as error:  # a crash, too, is for the one who waits
                future.set_exception(error)


Values = dict[tuple[TopicId, int], dict[int, bytes]]


class Journal:
    """What every process that had the disk open was given to append, by number of the commit. Survives them all."""

    def __init__(self) -> None:
        self.commits: dict[int, bytes] = {}
        self.certain = 0  # commits up to that number are surely on the disk
        self.faults: list[str] = []

    def fold(self) -> tuple[State, Values]:
        engine = Engine()
        values: Values = {}
        for _, commit in sorted(self.commits.items()):
            for record in decode_records(commit):
                engine.apply(record)
                engine.confirm(record)
                if isinstance(record, Published):
                    rows = enumerate(record.batch.values, record.base)
                    values.setdefault((record.topic, record.partition), {}).update(rows)
        return engine.state, values


class FoldedStore(DiskStore):
    """`reencrypts_at`: after so many appends, what older keys encrypted is written anew."""

    def __init__(
        self, journal: Journal, random: Random, *arguments: Any, reencrypts_at: int | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, in_threads=False, **options)
        self._journal = journal
        self._reencrypts_at = reencrypts_at
        self._appends = 0
        self._stepped = SteppedExecutor(random)
        self._flusher = self._stepped  # type: ignore[assignment]
        self._reader.per_turn = _READ_PER_TURN
        self._reads: set[asyncio.Task[Any]] = set()

    def _reset(self) -> None:
        """Little is kept in memory, so that most is read from the disk."""
        super()._reset()
        self._catalog._shared.recent._bytes_max = self._catalog._shared.frames._bytes_max = _MEMORY_BYTES
        self._catalog._shared.segment_bytes, self._cleaner.few = _SEGMENT_BYTES, 1

    async def append(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, TopicDeleted):
                self._read_beside(record.topic)
        self._journal.commits[self._wal.next_number] = encode_records(list(records))
        await super().append(records)
        self.note_synced()
        self._appends += 1
        if self._appends == self._reencrypts_at and self.ring.current is not None:
            self.keys().reencrypt(None, None, lambda: None)  # the broker looks after each commit

    def _read_beside(self, topic: TopicId) -> None:
        """What is asked for, and read in several turns, while the topic goes."""
        for read in (self.scan(topic, 0, 0, _EVERYTHING), in_one(self.history(topic, 0, 0))):
            task: asyncio.Task[Any] = asyncio.ensure_future(read)
            self._reads.add(task)
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            task.add_done_callback(self._reads.discard)

    def note_synced(self) -> None:
        self._journal.certain = max(self._journal.certain, self._wal._synced)

    async def recover(self) -> AsyncIterator[list[Record]]:
        engine = Engine()
        async for records in super().recover():
            for record in records:
                engine.apply(record)
                engine.confirm(record)
            yield records
        await self._judge(engine.state)

    async def _judge(self, state: State) -> None:
        journal, last = self._journal, self._wal.next_number - 1
        if last < journal.certain:
            journal.faults.append(f"commits {last + 1} to {journal.certain} were confirmed and are lost")
        journal.commits = {number: commit for number, commit in journal.commits.items() if number <= last}
        journal.certain = last
        troubled = {topic.id for topic in state.topics.values() if any(p.quarantine_reason for p in topic.partitions)}
        wanted, values = journal.fold()
        difference = _difference(picture(state, troubled), picture(wanted, troubled))
        difference = difference or await self._lost_values(state, values, troubled)
        if difference is not None:
            journal.faults.append(f"recovered something else than what was confirmed: {difference}")

    async def _lost_values(self, state: State, values: Values, troubled: set[TopicId]) -> str | None:
        for topic in state.topics.values():
            for log in topic.partitions if topic.id not in troubled else ():
                known = values.get((topic.id, log.index), {})
                found = await self.scan(topic.id, log.index, 0, _EVERYTHING)
                gone = log.deleted.copy()
                for group in topic.groups.values():
                    gone.subtract(group.feeds.look(log.index).leased)
                wanted = {
                    offset: value for offset, value in known.items() if offset >= log.start and offset not in gone
                }
                rows = dict(zip(found.offsets, found.values, strict=True))
                if {offset: value for offset, value in rows.items() if offset not in gone} != wanted:
                    return f"messages of {topic.name} {log.index}: {found.offsets}, not {list(wanted)}"
                if log.deleted or log.bytes_gone:  # about how much went is all that is known
                    continue
                size = content_bytes(found.values, found.keys, found.headers)
                if size > log.bytes_held or (
                    log.start == 0 and size != log.bytes_held
                ):  # it knows where instants begin
                    return f"bytes of {topic.name} {log.index}: {log.bytes_held}, not {size}"
        return None

    @property
    def is_checkpointing(self) -> bool:
        return self._checkpointing is not None

    def kill(self) -> None:
        """The process is gone, and what ran beside it."""
        for task in self._reads:
            task.cancel()
        self._stepped.is_dead = True
        if self._checkpointing is not None:
            _end(self._checkpointing)
        reencryptor = self.keys()._reencryptor
        if reencryptor is not None and reencryptor.task is not None:
            _end(reencryptor.task)

    async def close(self) -> None:
        await super().close()
        self.note_synced()

    def complaints(self) -> list[str]:
        """When nothing fails any more, and nobody does anything."""
        status, found = self.status(), list(self._journal.faults)
        if status.full is not None:
            found.append(f"it stays full: {status.full}")
        if self._wal.bytes_unwritten > self._checkpoint_bytes:
            found.append(f"{self._wal.bytes_unwritten} bytes wait for a checkpoint that does not come")
        known = {*self._catalog.logs, *self._catalog.histories}
        if strangers := sorted({topic for topic, _ in known} - self._catalog.configs.keys()):
            found.append(f"topics that were deleted are known again: {strangers}")
        expected = ("quarantined", "never confirmed")
        found += [problem for problem in status.problems if not any(words in problem for words in expected)]
        return found


def _end(task: asyncio.Task[None]) -> None:
    """Nobody asks what became of it."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    task.cancel()


def picture(state: State, without: set[TopicId]) -> Picture:
    """The hard state as one can look at it, whatever was looked at before."""
    topics = {str(topic.name): _topic(state, topic) for topic in state.topics.values() if topic.id not in without}
    return topics | {"transactions": sorted(state.transactions), "epoch": state.epoch}


def _topic(state: State, topic: Topic) -> Picture:
    now, window = state.now, round(topic.config.dedup_window * 1000)
    ids = topic.dedup.seen.items()
    return {
        "id": topic.id,
        "config": msgspec.to_builtins(topic.config),
        "logs": [(p.start, p.end, list(p.deleted), list(p.delayed), list(p.expired)) for p in topic.partitions],
        "groups": {
            group.name: [
                (
                    list(feed.unsettled(OffsetSet.span(feed.partition.start, feed.partition.end))),
                    list(feed.dead),
                    {offset: failure.attempts for offset, failure in feed.failures.items()},
                    list(feed.leased),
                )
                for feed in group.feeds.looks()
            ]
            for group in topic.groups.values()
        },
        "dedup": {key: offset for key, (at, _, offset) in ids if now - at < window},
    }


def _difference(found: Any, wanted: Any, where: str = "") -> str | None:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in dict.fromkeys([*found, *wanted]):
            difference = _difference(found.get(key), wanted.get(key), f"{where} {key}")
            if difference is not None:
                return difference
        return None
    return None if found == wanted else f"{where.strip()}: {found}, not {wanted}"
