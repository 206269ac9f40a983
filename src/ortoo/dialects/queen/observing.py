"""Queues as they are looked at: which there are, what waits in them, and what is known of their partitions.

A queue stands as its group does that is furthest behind, unless one is named; before its first pop everything waits. The names
of partitions have to be read from messages: the newest, so many in one request, of one queue after the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.turns import Turns
from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.call import Call
from ortoo.model import limits
from ortoo.model.access import DLQ_SUFFIX
from ortoo.model.commands import Position
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.names import DEFAULT_GROUP, TopicId, TopicName, is_inbox
from ortoo.model.queries import GetTopic, ListKeys, ListTopics, Scan
from ortoo.model.replies import GroupInfo, KeyCounts, TopicInfo

from .options import DEFAULT_PARTITION
from .popping import QUEUE_MODE, group_name
from .scanning import keys_of

QUEUES_MAX = 1_000  # in one answer
_PARTITIONS_MAX = 1_000  # of one queue
_ROWS_MAX = 10_000  # partitions of all queues of an answer
_UNPOPPED_MAX = 20_000  # messages that are read of a queue that nobody has popped from
_PAGE = 1_000
_OFFSET_MAX = limits.TOPICS_MAX

LISTING = (ListTopics,)
READING = (ListTopics, GetTopic, ListKeys, Scan)  # queues and their partitions


class LookQuery(msgspec.Struct, rename="camel"):
    """What any of these routes may be asked with; each looks at what concerns it."""

    namespace: str | None = None
    task: str | None = None
    queue: str | None = None
    partition: str | None = None
    consumer_group: str | None = None
    group: str | None = None  # the same, of one route
    search: str | None = None
    begins: str | None = msgspec.field(default=None, name="from")
    ends: str | None = msgspec.field(default=None, name="to")
    interval: str | None = None
    min_lag_seconds: Annotated[float, Meta(ge=0, le=1e12)] = 60
    limit: int | None = None
    offset: int = 0

    def page(self, usual: int = QUEUES_MAX, most: int = QUEUES_MAX) -> slice:
        if not 0 <= self.offset <= _OFFSET_MAX:
            raise InvalidError(f"offset is 0 to {_OFFSET_MAX}, not {self.offset}")
        limit = usual if self.limit is None else min(max(self.limit, 1), most)
        return slice(self.offset, self.offset + limit)


class Pagination(msgspec.Struct):
    limit: int
    offset: int

    @classmethod
    def of(cls, page: slice) -> Pagination:
        return cls(page.stop - page.start, page.start)


class Counts(msgspec.Struct, rename="camel"):
    """Messages by what becomes of them. What failed and is tried again is pending: so `failed` stays 0."""

    pending: int = 0
    processing: int = 0
    completed: int = 0
    failed: int = 0
    dead_letter: int = 0
    total: int = 0

    def add(self, other: Counts) -> None:
        for name in Counts.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Partition(msgspec.Struct):
    """One of Queen's, as far as its messages were read. Times are in seconds since 1970."""

    name: str
    counts: Counts
    oldest: float
    newest: float


class Observed:
    """A queue, as one group stands in it."""

    __slots__ = ("counts", "group", "info")

    def __init__(self, info: TopicInfo, group: GroupInfo | None) -> None:
        self.info = info
        self.group = group
        self.counts = _counts(info, group)

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def topic(self) -> TopicName:
        return TopicName(self.info.namespace, self.info.name)

    @property
    def namespace(self) -> str | None:
        return self.info.config.labels.get("namespace")

    @property
    def task(self) -> str | None:
        return self.info.config.labels.get("task")


def _counts(info: TopicInfo, group: GroupInfo | None) -> Counts:
    total = info.messages
    if group is None:
        return Counts(pending=total, total=total)
    completed = max(0, total - group.backlog - group.dead)
    return Counts(group.backlog - group.leased, group.leased, completed, 0, group.dead, total)


def observed(info: TopicInfo, named: str | None = None) -> Observed:
    if named:
        wanted = group_name(named)
        return Observed(info, next((group for group in info.groups if group.name == wanted), None))
    lasting = [group for group in info.groups if not group.ephemeral]
    return Observed(info, max(lasting, key=lambda group: (group.backlog, group.dead), default=None))


def is_queue(name: str, labels: Mapping[str, str], letters: Container[str] = ()) -> bool:
    """Neither dead letters nor answers of requests."""
    return not name.endswith(DLQ_SUFFIX) and name not in letters and not is_inbox(labels)


async def all_queues(call: Call) -> list[TopicInfo]:
    """By name: those of the query's namespace and task."""
    query: LookQuery = call.query
    infos = await call.link.ask(ListTopics(namespace_of(call.link)))
    letters = {info.dlq for info in infos}
    wanted = {name: value for name, value in (("namespace", query.namespace), ("task", query.task)) if value}
    search = (query.search or "").lower()
    found, turns = [], Turns()
    for info in infos:
        labels = info.config.labels
        is_meant = labels.items() >= wanted.items() and query.queue in (None, "", info.name)
        if is_meant and is_queue(info.name, labels, letters) and search in info.name.lower():
            found.append(info)
        await turns.worked(1)
    return sorted(found, key=lambda info: info.name)


async def each_queue(call: Call) -> AsyncIterator[Observed]:
    """All of them, in turns."""
    query: LookQuery = call.query
    turns = Turns()
    for info in await all_queues(call):
        yield observed(info, query.consumer_group)
        await turns.worked(1)


async def queues(call: Call, *, newest_first: bool = False, usual: int = QUEUES_MAX) -> list[Observed]:
    """The page that is asked for."""
    query: LookQuery = call.query
    infos = await all_queues(call)
    if newest_first:
        infos.sort(key=lambda info: -info.created)
    return [observed(info, query.consumer_group) for info in infos[query.page(usual)]]


async def one_queue(call: Call) -> Observed:
    """NotFoundError in Queen's words."""
    query: LookQuery = call.query
    topic = TopicName(namespace_of(call.link), call.params["queue"])
    try:
        return observed(await call.link.ask(GetTopic(topic)), query.consumer_group or query.group)
    except NotFoundError:
        raise NotFoundError("Queue not found") from None


def queue_id(topic: TopicId) -> str:
    return f"00000000-0000-8000-8000-{topic:012x}"


def shown_group(name: str) -> str:
    """As later clients call it."""
    return QUEUE_MODE if name == DEFAULT_GROUP else name


def total_of(some: Iterable[Counts]) -> Counts:
    total = Counts()
    for counts in some:
        total.add(counts)
    return total


class PartitionReader:
    """Reads the partitions of queues, within what one request may read."""

    def __init__(self, link: AuthorizedLink) -> None:
        self._link = link
        self._messages_left = limits.KEYS_READ_MAX
        self._bytes_left = limits.KEYS_READ_BYTES_MAX
        self._rows_left = _ROWS_MAX
        self._turns = Turns()

    async def read(self, queue: Observed, group: GroupInfo | None = None) -> list[Partition]:
        """By name; nothing once enough was read. Of another group, when one is given."""
        info = queue.info
        await self._turns.worked(1)
        if not info.messages or self._messages_left <= 0 or self._bytes_left <= 0 or self._rows_left <= 0:
            return []
        self._messages_left -= min(info.messages, limits.KEYS_READ_MAX)
        self._bytes_left -= min(info.bytes, limits.KEYS_READ_BYTES_MAX)
        count = min(_PARTITIONS_MAX, self._rows_left)
        group = group or queue.group
        try:
            found = await (self._unpopped(queue, count) if group is None else self._of_group(queue, group, count))
        except NotFoundError:  # deleted meanwhile
            return []
        self._rows_left -= len(found)
        return sorted(found, key=lambda partition: partition.name)

    async def count(self, queue: Observed) -> int:
        """How many there are, as far as is known: where nothing was read, there is one if there are messages."""
        return len(await self.read(queue)) or min(1, queue.info.messages)

    async def _of_group(self, queue: Observed, group: GroupInfo, count: int) -> Sequence[Partition]:
        found = await self._link.ask(ListKeys(queue.topic, group.name, count))
        partitions: dict[str, Partition] = {}
        for key in found.keys:
            _put(partitions, _partition(key))
        return list(partitions.values())

    async def _unpopped(self, queue: Observed, count: int) -> Sequence[Partition]:
        """Of a queue without a group, in which all wait: the newest messages are read."""
        partitions: dict[str, Partition] = {}
        logs = queue.info.partitions
        most = max(1, _UNPOPPED_MAX // len(logs))
        for log in logs:
            position = max(log.start, log.end - most)
            while position < log.end and len(partitions) < count:
                page = await self._link.ask(
                    Scan(queue.topic, log.partition, Position(offset=position), Position(offset=log.end), _PAGE)
                )
                for key, stamp in zip(keys_of(page), page.columns.timestamps, strict=True):
                    at = stamp / 1000
                    _put(partitions, Partition(key, Counts(pending=1, total=1), at, at))
                if page.next_offset <= position:
                    break
                position = page.next_offset
        return list(partitions.values())


def _partition(key: KeyCounts) -> Partition:
    counts = Counts(key.pending, key.leased, key.done, 0, key.dead, key.total)
    return Partition(key.key or DEFAULT_PARTITION, counts, key.oldest, key.newest)


def _put(partitions: dict[str, Partition], one: Partition) -> None:
    """A message without a key lies in the default partition, where others say so."""
    known = partitions.setdefault(one.name, one)
    if known is not one:
        known.counts.add(one.counts)
        known.oldest, known.newest = min(known.oldest, one.oldest), max(known.newest, one.newest)
