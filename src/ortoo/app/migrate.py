"""A queue moved to another store, whatever both are: its state, its messages, its history, what is staged.

The source's records are folded as a broker folds them, which gives its state; the messages and the history are read piece by
piece, and written in the target; the state comes last, as a checkpoint. Nobody decides anything anew: numbers, offsets, instants,
leases and attempts are what they were, so a receipt is as good as after a restart.

Of messages that are deleted, what they said is left behind; their places, and the dedup ids that may still count, are not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from secrets import token_hex

from ortoo.broker.shards.identity import Identity
from ortoo.engine import Engine
from ortoo.engine.partition import Partition
from ortoo.engine.shares import Shares
from ortoo.engine.snapshot import Snapshot
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.engine.transaction import Name, Transaction, namespace_of
from ortoo.model import records as r
from ortoo.model.errors import ConfigError, OrtooError, UnavailableError
from ortoo.ports import Contents, Source, Target
from ortoo.stores.addresses import is_postgres
from ortoo.stores.disk import open_ring
from ortoo.stores.disk.moving import DirectoryTarget, directory_source

from .compared import compare
from .republished import Republished, how_many
from .retold import began, commits_began
from .stores import place_of, refuse_unknown_store, shown_store
from .targets import Mark, Moved, Targets, identity, named

HISTORY_TOGETHER = 2_000
STAGED_BYTES = 8 << 20
_NAMED_MAX = 5
_QUARANTINED = " is quarantined: "
Keys = str | dict[str, bytes] | None
Progress = Callable[[str], None]


def open_source(where: str, keys: Keys = None, spill: Path | None = None) -> Source:
    ring = open_ring(keys)
    if not is_postgres(where):
        refuse_unknown_store(where)
        return directory_source(Path(where), ring)
    from ortoo.stores.postgres import PostgresSource, parse_address

    return PostgresSource(parse_address(where), ring, spill=spill)


def open_target(where: str, keys: Keys = None) -> Target:
    ring = open_ring(keys)
    if not is_postgres(where):
        refuse_unknown_store(where)
        return DirectoryTarget(Path(where), ring)
    from ortoo.stores.postgres import PostgresTarget, parse_address

    return PostgresTarget(parse_address(where), ring)


async def migrate(
    source: str,
    target: str,
    keys: Keys = None,
    target_keys: Keys = None,
    *,
    verify: bool = True,
    spill: Path | None = None,
    progress: Progress = lambda _: None,
) -> Moved:
    """`target_keys`: where they are not the same. `spill`: the folder in which a database's commits may wait."""
    if place_of(source) == place_of(target):
        raise ConfigError(f"{shown_store(source)} is both where to move from and where to; name another target")
    async with AsyncExitStack() as opened:
        new = open_target(target, keys if target_keys is None else target_keys)
        opened.push_async_callback(new.close)
        targets = Targets([new], [target])
        await targets.look()
        old = open_source(source, keys, spill)
        opened.push_async_callback(old.close)
        engine = await fold(old, progress)
        queue = named([engine.state])
        if (moved := await targets.finish_earlier(queue, [None])) is not None:
            return moved
        targets.refuse_secrets([engine.state])
        moved = await Migration(old, new, progress).run(engine.state, verify)
        moved.problems += old.problems
        if not moved.differences:
            await targets.release(Mark(token_hex(8), queue, moved))
        return moved


async def identities(where: Sequence[str], taken: Sequence[int], keys: Keys) -> list[Identity | None]:
    """Which shards the stores are that have something already."""
    found: list[Identity | None] = [None] * len(where)
    for place in taken:
        store = None
        try:
            store = open_source(where[place], keys)
            found[place] = identity((await fold(store)).state)
        except OrtooError:  # it is none that anybody can read
            continue
        finally:
            if store is not None:
                await store.close()
    return found


async def fold(source: Source, progress: Progress = lambda _: None) -> Engine:
    """The state of what it holds. UnavailableError where some of it cannot be vouched for."""
    engine = Engine()
    async for records in source.records():
        for record in records:
            if isinstance(record, r.Quarantined):
                continue  # it is among the problems
            engine.apply(record)
            engine.confirm(record)
        progress(f"commits: {len(engine.state.topics)} topics")
    found = {
        what: why for what, is_so, why in (one.partition(_QUARANTINED) for one in reversed(source.problems)) if is_so
    }
    if found:
        told = [f"{what}{_QUARANTINED}{why}" for what, why in reversed(found.items())]
        more = f"; and {len(told) - _NAMED_MAX} more" if len(told) > _NAMED_MAX else ""
        raise UnavailableError(
            f"not all of it can be read: {'; '.join(told[:_NAMED_MAX])}{more}. Give the keys (--keys), or repair it first; "
            "nothing was moved"
        )
    return engine


class Migration:
    def __init__(self, source: Contents, target: Target, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._moved = Moved(differences=[], problems=[])

    async def run(self, state: State, verify: bool) -> Moved:
        """The state, and what the source has of its topics. Whoever asked for it releases the target."""
        await self._target.begin()
        for topic in state.topics.values():
            await self._move_topic(topic)
        self._count(state)
        transactions, state.transactions = state.transactions, Shares(namespace_of)
        snapshot = Snapshot(state)
        commits = self._commits(transactions, state.now)
        self._progress("the state of delivery")
        await self._target.finish(snapshot.finish(), snapshot.at, snapshot.secrets, commits)
        state.transactions = transactions
        if verify:
            await self._verify(state)
        return self._moved

    def _count(self, state: State) -> None:
        groups = [group for topic in state.topics.values() for group in topic.groups.values()]
        self._moved.topics, self._moved.groups = len(state.topics), len(groups)
        self._moved.leases = sum(len(group.leases) for group in groups)
        self._moved.transactions = len(state.transactions)

    # -- messages and history

    async def _move_topic(self, topic: Topic) -> None:
        created = r.TopicCreated(topic.created, topic.id, *topic.name, topic.config)
        await self._target.create(created, [partition.start for partition in topic.partitions])
        for partition in topic.partitions:
            async for records in self._published(topic, partition):
                await self._target.publish(records)
                self._progress(f"messages: {self._moved.messages:,} ({topic.name}, partition {partition.index})")
            await self._move_history(topic, partition)

    async def _published(self, topic: Topic, partition: Partition) -> AsyncIterator[list[r.Published]]:
        anew = Republished(topic, partition)
        while anew.at < partition.end:
            count = how_many(partition, anew.at)
            at, until = anew.at, min(anew.at + count, partition.end)
            yield anew.take(await self._source.scan(topic.id, partition.index, at, count), until)
            self._moved.messages += until - at - partition.deleted.count_within(at, until)

    async def _move_history(self, topic: Topic, partition: Partition) -> None:
        at, place = 0, (topic.id, partition.index)
        while True:
            found = await self._source.read_history(*place, at, HISTORY_TOGETHER)
            if not found.records:
                if found.end:
                    await self._target.tell(*place, found.end, [])
                return
            await self._target.tell(*place, found.start, found.records)
            self._moved.history += len(found.records)
            at = found.start + len(found.records)
            self._progress(f"history: {self._moved.history:,} ({topic.name}, partition {partition.index})")

    # -- transactions

    async def _commits(self, open_ones: Mapping[Name, Transaction], now: int) -> AsyncIterator[list[r.Record]]:
        for records in began(open_ones, now):
            yield records
        for name in open_ones:
            at = 0
            while staged := await self._source.staged(*name, at, STAGED_BYTES):
                at += len(staged)
                yield list(staged)
        for records in commits_began(open_ones, now):
            yield records

    # -- afterwards

    async def _verify(self, state: State) -> None:
        written = self._target.reopen()
        try:
            other = await fold(written)
            compared = compare(self._source, state, written, other.state, self._progress)
            self._moved.differences = [*written.problems, *[difference async for difference in compared]]
        finally:
            await written.close()
        self._moved.verified = True
