"""Answers queries: infos, replay, single messages, traces; and reads what leases took. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec

from ortoo.engine.lease import resolve
from ortoo.engine.publish import check_healthy
from ortoo.engine.topic import Topic
from ortoo.engine.view import offsets_in_state, state_of
from ortoo.model import limits
from ortoo.model import queries as q
from ortoo.model.browsing import GroupsFound, TopicsFound
from ortoo.model.commands import Position
from ortoo.model.errors import CorruptionError, InvalidError, NotFoundError
from ortoo.model.keys import KeysInfo
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.publishers import spread
from ortoo.model.queries import Query
from ortoo.model.replies import (
    Columns,
    Counters,
    HistoryPage,
    KeysFound,
    MessageFound,
    MessageState,
    NamespaceInfo,
    Page,
    Stats,
    Taken,
    TopicInfo,
    Trace,
    filter_columns,
    join_columns,
)
from ortoo.model.shards import ShardInfo

from .blocked import blocked_in_turns
from .by_id import Settling
from .due_times import with_times
from .inspecting import INSPECTORS
from .keys import keys_of
from .keys_lister import KeysLister
from .listing import browse_groups, browse_topics, look_at
from .namespaces import list_namespaces
from .portion import bound_count, encode_fitting, fit, left_of
from .trace import Timeline
from .turns import Turns
from .view import View, visible
from .watching import Watched, Watching

_MISSING_MAX = 100
_METHODS: dict[type, str] = {  # that answer queries; their arguments are the fields of the query
    q.ListTopics: "topics",
    q.BrowseTopics: "browse_topics",
    q.BrowseGroups: "browse_groups",
    q.ListNamespaces: "namespaces",
    q.GetTopic: "topic",
    q.GetStats: "stats",
    q.GetMe: "me",
    q.GetSettings: "settings",
    q.ListShards: "shards",
    q.GetMetrics: "metrics",
    q.GetSeries: "series",
    q.GetOverview: "overview",
    q.GetActivity: "activity",
    q.ListPipelines: "list_pipelines",
    q.GetKeys: "keys",
    q.Scan: "scan",
    q.GetOffsets: "offsets",
    q.ScanHistory: "scan_history",
    q.GetMessage: "message",
    q.ListMessages: "messages",
    q.ListKeys: "message_keys",
    q.GetTrace: "trace",
    q.FindMessages: "find_messages",
    q.Search: "search",
    q.BrowseMessages: "browse",
    q.PreviewSeek: "preview_seek",
}
# Answered with no more than whoever asks may see:
_VIEWED = (
    q.ListTopics,
    q.BrowseTopics,
    q.ListNamespaces,
    q.GetStats,
    q.GetMetrics,
    q.GetSeries,
    q.GetOverview,
    q.GetActivity,
    q.ListPipelines,
)

A = TypeVar("A")


class Shell(Watched, Protocol):
    """What the reader needs of the broker."""

    @property
    def by_id(self) -> Settling: ...

    async def flush(self) -> None:
        """Returns when everything submitted so far is durable: a history is made of that."""


class Reader(Watching):
    def __init__(self, broker: Shell) -> None:
        super().__init__(broker)
        self._broker = broker
        self.missing: list[str] = []  # messages that the store should have, in words
        self._keys_lister = KeysLister(broker)

    async def ask(self, query: Query[A], view: View | None = None) -> A:
        if (inspect := INSPECTORS.get(type(query))) is not None:
            found: A = await inspect(self._broker, query)
            return found
        method = getattr(self, _METHODS[type(query)])
        more = {} if view is None or type(query) not in _VIEWED else {"view": view}
        answer: A = await method(*msgspec.structs.astuple(query), **more)
        return answer

    async def topics(self, namespace: str | None = None, view: View | None = None) -> list[TopicInfo]:
        """In turns, each topic as it is when its turn comes."""
        turns, now = Turns(), self._broker.now()
        found = await visible(self._broker.state, view, turns, namespace)
        return [await look_at(topic, now, turns) for topic in sorted(found, key=lambda topic: topic.name)]

    async def browse_topics(
        self, namespace: str | None = None, after: TopicName | None = None, count: int = 100, view: View | None = None
    ) -> TopicsFound:
        query = q.BrowseTopics(namespace, after, count)
        return await browse_topics(self._broker.state, query, view, self._broker.now())

    async def browse_groups(self, name: TopicName, after: str | None = None, count: int = 100) -> GroupsFound:
        return await browse_groups(
            self._broker.state.topic(name), q.BrowseGroups(name, after, count), self._broker.now()
        )

    async def namespaces(self, namespace: str | None = None, view: View | None = None) -> list[NamespaceInfo]:
        return await list_namespaces(self._broker.state, namespace, view, Turns())

    async def topic(self, name: TopicName) -> TopicInfo:
        """In turns, each group as it is when its turn comes."""
        return await look_at(self._broker.state.topic(name), self._broker.now(), Turns())

    async def stats(self, view: View | None = None) -> Stats:
        """In turns, each topic as it is when its turn comes. Who may not see everything is told of its topics only."""
        state, turns = self._broker.state, Turns()
        topics = await visible(state, view, turns)
        groups = depth = leases = 0
        counters = state.past_counters() if view is None else Counters()
        for topic in topics:
            counters.add(topic.counters)
            groups += len(topic.groups)
            depth += topic.depth()
            leases += sum(len(group.leases) for group in topic.groups.values())
            await turns.worked(len(topic.partitions) * (1 + len(topic.groups)))
        return Stats(
            topics=len(topics),
            groups=groups,
            depth=depth,
            leases=leases,
            waiters=len(self._broker.waiters) if view is None else 0,
            transactions=len(state.transactions) if view is None else 0,
            epoch=state.epoch,
            counters=counters,
            problems=self._broker.problems() if view is None else [],
        )

    async def shards(self) -> list[ShardInfo]:
        """The only one there is, or what this one knows of itself."""
        state, turns, is_ready = self._broker.state, Turns(), self._broker.store.status().full is None
        topics = depth = messages = size = 0
        for topic in await visible(state, None, turns):
            topics, depth, messages = topics + 1, depth + topic.depth(), messages + topic.messages()
            size += sum(partition.bytes_held for partition in topic.partitions)
            await turns.worked(len(topic.partitions) * (1 + len(topic.groups)))
        return [ShardInfo(0, "the only store", is_ready, topics, depth, messages, size, self._broker.problems())]

    async def message_keys(self, name: TopicName, group: str, count: int = 1000) -> KeysFound:
        return await self._keys_lister.list(name, group, count)

    async def keys(self, with_uses: bool = True) -> KeysInfo:
        self._broker.state  # noqa: B018  # OrtooError while nothing is taken: the store is being recovered
        return await keys_of(self._broker.store).info(with_uses)

    async def read(self, run: Taken, offsets: Sequence[int]) -> Columns:
        if not offsets:
            return Columns([], [], [])
        try:
            columns = await self._broker.store.read(run.topic_id, run.partition, offsets)
        except CorruptionError:
            columns = await self._readable(run, offsets)
            if not len(columns):
                raise
        else:
            if len(columns) < len(offsets):
                self._check_missing(run, set(offsets) - set(columns.offsets), is_all=not len(columns))
        return columns

    def _check_missing(self, run: Taken, offsets: set[int], is_all: bool) -> None:
        """A store leaves out what is gone: trimmed or deleted since it was leased. What the engine counts on must be there."""
        topic = self._broker.engine.state.topics.get(run.topic_id)
        log = topic.partitions[run.partition] if topic is not None else None
        lost = sorted(
            offset for offset in offsets if log is not None and offset >= log.start and offset not in log.deleted
        )
        if not lost:
            return
        problem = (
            f"message {MessageRef(run.topic_id, run.partition, lost[0])} is missing in the store; check the directory"
        )
        if problem not in self.missing and len(self.missing) < _MISSING_MAX:
            self.missing.append(problem)
        if is_all:
            raise CorruptionError(problem)

    async def _readable(self, run: Taken, offsets: Sequence[int]) -> Columns:
        """What can be read of them. The others fail by themselves, and end among the dead letters, which tell why."""
        try:
            return await self._broker.store.read(run.topic_id, run.partition, offsets)
        except CorruptionError:
            if len(offsets) == 1:
                return Columns([], [], [])
        half = len(offsets) // 2
        return join_columns([await self._readable(run, offsets[:half]), await self._readable(run, offsets[half:])])

    async def scan(
        self, name: TopicName, partition: int, start: Position, until: Position | None = None, count: int = 1000
    ) -> Page:
        """Messages from `start` on, up to the end of what is durable: replay, without a group."""
        topic = self._to_scan(name, partition, count)
        log = topic.partitions[partition]
        first = resolve(log, start)
        end = log.durable if until is None else min(resolve(log, until), log.durable)
        count = bound_count(topic, partition, min(count, end - first))
        if count <= 0:
            columns, after = await self._broker.store.read(topic.id, partition, []), max(first, end)
        else:
            wanted, after = left_of(log, first, count, end)
            columns = await self._broker.store.read(topic.id, partition, wanted)
            fitting = fit(columns, limits.ANSWER_BYTES_MAX)[0]
            if fitting < len(columns):
                columns = columns.part(0, fitting)
                after = columns.offsets[-1] + 1
        if log.deleted:  # perhaps meanwhile
            columns = filter_columns(columns, log.deleted)
        columns = msgspec.structs.replace(columns, offsets=list(columns.offsets))  # as whoever is connected gets them
        return Page(name, topic.id, partition, columns, after, end)

    async def offsets(self, name: TopicName, position: Position) -> list[int]:
        """What the position means in each partition, and never beyond what is durable. Cheap enough to be asked all the time."""
        topic = self._broker.state.topic(name)
        for log in topic.partitions:
            check_healthy(topic, log.index)
        found = [min(resolve(log, position), log.durable) for log in topic.partitions]
        await Turns().worked(len(found))
        return found

    async def scan_history(self, name: TopicName, partition: int, start: int, count: int = 1000) -> HistoryPage:
        """What happened to a partition's messages, from the record of that number on: for whoever follows it."""
        await self._broker.flush()
        topic = self._to_scan(name, partition, count)
        if start < 0:
            raise InvalidError(f"a position in a history is 0 or more, not {start}")
        found = await self._broker.store.read_history(topic.id, partition, start, count)
        taken, records = await encode_fitting(found.records, limits.ANSWER_BYTES_MAX, Turns())
        groups = {int(group.id): group.name for group in topic.groups.values()}
        after = found.start + taken
        return HistoryPage(name, topic.id, partition, records, found.start, after, found.first, found.end, groups)

    def _to_scan(self, name: TopicName, partition: int, count: int) -> Topic:
        topic = self._broker.state.topic(name)
        if not 0 <= partition < len(topic.partitions):
            raise InvalidError(f"topic {str(name)!r} has partitions 0 to {len(topic.partitions) - 1}, not {partition}")
        if not 1 <= count <= limits.BATCH_MESSAGES_MAX:
            raise InvalidError(f"count must be 1 to {limits.BATCH_MESSAGES_MAX}, not {count}")
        check_healthy(topic, partition)
        return topic

    async def message(self, ref: MessageRef) -> MessageFound:
        topic, log = self._broker.state.message(ref)
        columns = await self._broker.store.read(ref.topic, ref.partition, [ref.offset])
        if not len(columns):
            raise NotFoundError(f"there is no message {ref}; it is not durable yet, or retention removed it")
        page = Page(topic.name, topic.id, ref.partition, columns, ref.offset + 1, ref.offset + 1)
        page = await with_times(page, log, Turns(), most=None)
        return MessageFound(page, await self._states(topic, ref))

    async def _states(self, topic: Topic, ref: MessageRef) -> dict[str, MessageState]:
        """In turns, each group as it is when its turn comes."""
        turns = Turns()
        states: dict[str, MessageState] = {}
        for group in list(topic.groups.values()):
            state = state_of(group.feeds.look(ref.partition), ref.offset)
            if state is not None:
                states[group.name] = state
            await turns.worked(1)
        return states

    async def messages(self, name: TopicName, group: str, state: MessageState, count: int = 100) -> list[Page]:
        """Messages in one state for a group, a page per partition; fewer than asked for where they are large."""
        topic = self._broker.state.topic(name)
        feeds = self._broker.state.group(topic, group).feeds
        if not 0 <= count <= limits.BATCH_MESSAGES_MAX:
            raise InvalidError(f"count must be 0 to {limits.BATCH_MESSAGES_MAX}, not {count}")
        pages: list[Page] = []
        room, turns = limits.ANSWER_BYTES_MAX, Turns()
        for feed in feeds.looks():
            log = feed.partition
            most = bound_count(topic, log.index, count) if room > 0 else 0
            waiting = await blocked_in_turns(feed, turns) if state in ("ready", "blocked") else None
            offsets = offsets_in_state(feed, state, most, waiting).to_sequence()
            columns = await self._broker.store.read(topic.id, log.index, offsets)
            fitting, size = fit(columns, room) if len(columns) else (0, 0)
            if size > room and room < limits.ANSWER_BYTES_MAX:  # only the very first may be too large by itself
                fitting = 0
            if fitting < len(columns):
                columns, offsets, size = columns.part(0, fitting), columns.offsets[:fitting], room
            room -= size
            count -= len(offsets)
            after = offsets[-1] + 1 if offsets else log.settled_end
            page = Page(name, topic.id, log.index, columns, after, log.settled_end)
            pages.append(await with_times(page, log, Turns()))
        return pages

    async def find_messages(
        self, namespace: str, ids: list[str], topic: str | None = None, group: str | None = None
    ) -> list[MessageRef | None]:
        return await self._broker.by_id.find(namespace, ids, topic, group)

    async def trace(self, ref: MessageRef) -> Trace:
        await self._broker.flush()
        topic = self._topic_of(ref)
        if ref.offset >= topic.partitions[ref.partition].durable:
            raise NotFoundError(f"nothing is known of message {ref}; it never was, or is not durable yet")
        timeline = Timeline(topic, ref)
        async for records in self._broker.store.history(ref.topic, ref.partition, ref.offset):
            await timeline.add(records)
        try:
            columns = await self._broker.store.read(ref.topic, ref.partition, [ref.offset])
        except CorruptionError:  # what happened to it is known all the same
            if not timeline.count:
                raise
            columns = Columns([], [], [])
        if not len(columns) and not timeline.count:
            raise NotFoundError(
                f"nothing is known of message {ref}; it never was, or retention removed it and its history"
            )
        published = (columns.timestamps[0], spread(columns.publishers, 1)[0]) if len(columns) else None
        return timeline.finish(published, self._broker.state.now)

    def _topic_of(self, ref: MessageRef) -> Topic:
        topic = self._broker.state.topic_by_id(ref.topic)
        if ref.partition >= len(topic.partitions):
            raise NotFoundError(f"there is no message {ref}: its topic has {len(topic.partitions)} partitions")
        check_healthy(topic, ref.partition)
        return topic
