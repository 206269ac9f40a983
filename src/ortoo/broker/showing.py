"""Shows the queue to people who look into its store: what changed, once a second, a little in each turn."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

import msgspec

from ortoo.engine import Engine
from ortoo.engine.feed import Feed
from ortoo.engine.group import Group
from ortoo.engine.leases import LeaseState
from ortoo.engine.topic import Topic
from ortoo.engine.view import delayed_in, group_info, oldest_pending
from ortoo.model.errors import NotOwnerError, OrtooError, StoreFailedError
from ortoo.model.names import TopicId
from ortoo.model.offsets import NOTHING, OffsetSet
from ortoo.model.records import Record
from ortoo.ports import Clock, Store
from ortoo.ports.showing import Showing, ShownFeed, ShownGroup, ShownLease, ShownPartition, ShownTopic

from .commits import Committer, Observer
from .running import Runner
from .turns import Turns
from .wakeup import sleep

EVERY_MS = 1_000
LOOK_ROUNDS = 5
TOPICS_TOGETHER = 100  # the others are shown a second later
STOP_S = 5.0  # for showing the last of it when it ends
RANGES_MAX = 1_000  # of a set of offsets
RANGES_OF_GROUP = 10_000
RANGES_TOGETHER = 50_000  # then topics wait for the next time
LEASES_MAX = 1_000  # of a group
_log = logging.getLogger("ortoo.broker")


class Shown(Protocol):
    store: Store
    clock: Clock
    engine: Engine
    _commits: Committer
    on_commit: list[Observer]

    @property
    def refusal(self) -> OrtooError | None: ...

    def _refuse(self, error: OrtooError) -> None: ...

    def now(self) -> int: ...

    async def flush(self) -> None: ...


class Projection:
    """Runs by itself; what fails is told as a problem, and tried again."""

    def __init__(self, broker: Shown, store: Showing) -> None:
        self._broker = broker
        self._store = store
        self._changed: dict[TopicId, None] = {}
        self._shown: Engine | None = None  # what was shown; of another one, or before, is what may be there still
        self._runner = Runner("ortoo-projection", self._run)
        self._problem: str | None = None
        self._rounds = 0
        broker.on_commit.append(self._note)

    def _note(self, records: list[Record]) -> None:
        for record in records:
            if (topic := getattr(record, "topic", None)) is not None:
                self._changed[topic] = None

    def problems(self) -> list[str]:
        return [] if self._problem is None else [self._problem]

    def start(self) -> None:
        self._shown = None
        self._runner.start()

    async def stop(self) -> None:
        """What has changed last is shown, if that is possible soon."""
        if not await self._runner.stop():
            return
        try:
            async with asyncio.timeout(STOP_S):
                await self._broker.flush()
                while self._broker.refusal is None and self._is_behind:
                    await self.show()
        except Exception as error:  # it is shown when the queue is opened again
            _log.debug("the last changes could not be shown", exc_info=error)

    @property
    def _is_behind(self) -> bool:
        return bool(self._changed) or self._shown is not self._broker.engine

    async def _run(self) -> None:
        while True:
            try:
                if self._broker.refusal is None:
                    await self.show()
                    await self._look()
                self._problem = None
            except NotOwnerError as error:  # who has nothing to commit would not learn it
                self._broker._refuse(error)
            except Exception as error:  # it runs by itself
                self._problem = f"what SQL shows of the queue is not up to date: {error}"
                self._shown = None
                _log.debug("the queue could not be shown", exc_info=error)
            await sleep(self._broker.clock, EVERY_MS)

    async def _look(self) -> None:
        """Whether the store is still ours, every few seconds."""
        self._rounds += 1
        if self._rounds % LOOK_ROUNDS == 0 and not await self._store.check_owner():
            self._broker._commits.give_up(StoreFailedError("what it has is not what it had"))

    async def show(self) -> None:
        """What has changed since the last time, or as much of it as is shown at once."""
        engine = self._broker.engine
        known, is_new = engine.state.topics, self._shown is not engine
        if is_new:
            self._changed = dict.fromkeys([*known, *self._changed])
        if not self._is_behind:
            return
        taken, gone, topics = list[TopicId](), list[int](), list[ShownTopic]()
        ranges = Ranges(RANGES_TOGETHER)
        try:
            for topic_id in list(self._changed)[:TOPICS_TOGETHER]:
                taken.append(topic_id)
                del self._changed[topic_id]
                if (topic := known.get(topic_id)) is None:
                    gone.append(topic_id)
                else:
                    topics.append(await _topic(topic, self._broker.now(), ranges))
                if ranges.left <= 0:
                    break
            await self._store.show(topics, gone, list(known) if is_new else None)
        except BaseException:
            self._changed = dict.fromkeys([*taken, *self._changed])
            raise
        self._shown = engine


class Ranges:
    """How many more may be shown. They are found in turns, so that a set that may change meanwhile is copied before."""

    def __init__(self, left: int, turns: Turns | None = None) -> None:
        self.left = left
        self.turns = turns or Turns()

    async def of(self, offsets: OffsetSet, most: int = RANGES_MAX) -> tuple[str, int | None]:
        """As a multirange; and where it ends, if that is not all of it."""
        found: list[str] = []
        at, end = offsets.first() if offsets else -1, 0
        while at >= 0 and len(found) < most:
            end = _end_of_run(offsets, at)
            found.append(f"[{at},{end})")
            at = offsets.next_from(end)
            await self.turns.worked(1)
        self.left -= len(found)
        return "{" + ",".join(found) + "}", None if at < 0 else end


def projection_of(broker: Shown) -> Projection | None:
    """None where nobody can look into the store."""
    return Projection(broker, broker.store) if isinstance(broker.store, Showing) else None


async def _topic(topic: Topic, now: int, ranges: Ranges) -> ShownTopic:
    groups = [await _group(group, ranges) for group in list(topic.groups.values())]
    partitions = []
    for one in topic.partitions:
        place = (one.index, one.start, one.settled_end, one.bytes_held)
        deleted, _ = await ranges.of(one.deleted.copy())
        partitions.append(ShownPartition(*place, deleted))
        await ranges.turns.worked(1)
    name, config = topic.name, topic.config
    if config.dlq_webhook is not None:  # a URL may hold a password
        config = msgspec.structs.replace(config, dlq_webhook=None)
    return ShownTopic(topic.id, name.namespace, name.name, topic.created, now, config, partitions, groups)


async def _group(group: Group, ranges: Ranges) -> ShownGroup:
    """Others have turns between its partitions: it is a picture."""
    info, oldest = group_info(group), oldest_pending(group)
    counts = (info.ready, info.delayed, info.leased, info.blocked, info.dead)
    await ranges.turns.worked(len(group.feeds))
    own = Ranges(RANGES_OF_GROUP, ranges.turns)
    feeds = [await _feed(group.feeds.look(partition), own) for partition in range(len(group.feeds))]
    leases = [
        await _lease(lease, partition, own)
        for lease in list(group.leases.values())[:LEASES_MAX]
        for partition in list(lease.held)
    ]
    ranges.left -= RANGES_OF_GROUP - own.left
    return ShownGroup(group.id, group.name, group.ephemeral, info.paused, *counts, oldest, feeds, leases)


async def _lease(lease: LeaseState, partition: int, ranges: Ranges) -> ShownLease:
    offsets = lease.held.get(partition, NOTHING).copy()
    told = (lease.id, partition, lease.consumer, lease.at, lease.until, len(offsets))
    await ranges.turns.worked(1)
    text, _ = await ranges.of(offsets, min(RANGES_MAX, max(1, ranges.left)))
    return ShownLease(*told, text)


async def _feed(feed: Feed, ranges: Ranges) -> ShownFeed:
    sets = (feed.open.copy(), feed.leased.copy(), feed.dead.copy(), delayed_in(feed).copy())
    cursor, most = feed.cursor, min(RANGES_MAX, max(1, ranges.left // len(sets)))
    await ranges.turns.worked(1)
    shown = [await ranges.of(one, most) for one in sets]
    (unsettled, leased, dead, delayed), ends = [text for text, _ in shown], [end for _, end in shown]
    unknown = "empty"
    if (known := min((end for end in ends if end is not None), default=None)) is not None:
        # Only messages that are not due yet lie behind the cursor.
        unknown = f"[{known},)" if ends[-1] is not None else f"[{known},{max(known, cursor)})"
    return ShownFeed(feed.partition.index, cursor, unsettled, leased, delayed, dead, unknown)


def _end_of_run(offsets: OffsetSet, start: int) -> int:
    """In steps that double, then halve: a run of a million takes forty."""
    step = 1
    while offsets.count_within(start, start + 2 * step) == 2 * step:
        step *= 2
    end = start + step
    while step > 1:
        step //= 2
        if offsets.count_within(end, end + step) == step:
            end += step
    return end
