"""The server as clients of the later generation look at it: what passes through, queue by queue."""

from __future__ import annotations

import asyncio
from math import ceil
from time import time
from typing import Any

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.dialects.ids import to_uuids
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text, parse_instant
from ortoo.model.commands import Position
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.names import MessageRef
from ortoo.model.queries import GetMessage, GetStats, GetTopic, Scan
from ortoo.model.replies import MessageState, Page

from .observing import (
    Counts,
    LookQuery,
    Observed,
    Pagination,
    Partition,
    PartitionReader,
    each_queue,
    one_queue,
    queue_id,
    queues,
)
from .options import options_of, queue_priority, shown
from .places import partition_id
from .popping import group_name, transaction_ids
from .rates import MINUTES_MAX, Minute, minutes
from .resources import QueueView, queue_view, seconds_text
from .scanning import keys_of

_QUEUES_SHOWN, _MESSAGES_SHOWN, _MESSAGES_MAX = 100, 50, 200
_LOOKED_MAX = 10_000  # messages that are read to find the newest
_AT_ONCE = 20
_BUCKETS = ((60, 1), (360, 5), (MINUTES_MAX, 15))  # up to so many minutes, buckets of so many
_INTERVALS = {"minute": 60, "hour": 3_600, "day": 86_400}
_STATUS_OF: dict[MessageState, str] = {"leased": "processing", "done": "completed", "dead": "dead_letter"}
_CONFIG_SHOWN = ("leaseTime", "retryLimit", "retryDelay", "ttl", "maxSize", "deadLetterQueue")

MESSAGES_OF = (GetTopic, Scan, GetMessage)
_encode = msgspec.json.Encoder().encode


# -- time


class Stretch:
    """The minutes that a query asks for, as far as any are known: a day at the most."""

    def __init__(self, query: LookQuery, usual: int) -> None:
        now = time()
        self.end = min(parse_instant("to", query.ends), now) if query.ends else now
        self.begin = parse_instant("from", query.begins) if query.begins else self.end - 60 * usual
        if self.begin > self.end:
            raise InvalidError("from must be before to, and not in the future")
        self.begin = max(self.begin, now - 60 * MINUTES_MAX)
        self.count = min(MINUTES_MAX, max(1, ceil((now - self.begin) / 60)))

    async def read(self, call: Call) -> list[Minute]:
        return [minute for minute in await minutes(call, self.count) if minute.start <= self.end]


def _bucketed(some: list[Minute], seconds: int) -> dict[int, Minute]:
    """Summed up, by the start of each bucket."""
    found: dict[int, Minute] = {}
    for minute in some:
        start = minute.start // seconds * seconds
        known = found.get(start, Minute(start))
        found[start] = Minute(start, *map(int.__add__, known[1:], minute[1:]))
    return found


# -- the whole


class Point(msgspec.Struct, rename="camel"):
    timestamp: str
    ingested: int
    processed: int
    ingested_per_second: float
    processed_per_second: float


class ActiveQueue(msgspec.Struct, rename="camel"):
    id: str
    name: str
    namespace: str | None
    task: str | None
    partitions: int
    total_consumed: int


class Leases(msgspec.Struct, rename="camel"):
    """`total_batch_size`: messages that are leased."""

    active: int
    partitions_with_leases: int
    total_batch_size: int
    total_acked: int = 0


class DeadLetters(msgspec.Struct, rename="camel"):
    total_messages: int
    affected_partitions: int = 0
    top_errors: list[str] = []


class StatusView(msgspec.Struct, rename="camel"):
    time_range: dict[str, str]
    bucket_minutes: int
    point_count: int
    throughput: list[Point]
    queues: list[ActiveQueue]
    messages: Counts
    leases: Leases
    dead_letter_queue: DeadLetters
    stats_age: int = 0


async def status(call: Call) -> StatusView:
    stretch = Stretch(call.query, usual=60)
    width = next(width for most, width in _BUCKETS if stretch.count <= most)
    points = [_point(each, width) for each in _bucketed(await stretch.read(call), 60 * width).values()]
    reader, totals, active = PartitionReader(call.link), Counts(), list[ActiveQueue]()
    leases, letters = 0, 0
    async for queue in each_queue(call):
        totals.add(queue.counts)
        leases += sum(group.leases for group in queue.info.groups)
        letters += sum(group.dead for group in queue.info.groups)
        if queue.counts.total and len(active) < _QUEUES_SHOWN:
            view = await queue_view(reader, queue)
            consumed = queue.counts.completed + queue.counts.dead_letter
            active.append(ActiveQueue(view.id, view.name, view.namespace, view.task, view.partitions, consumed))
    return StatusView(
        {"from": seconds_text(stretch.begin), "to": seconds_text(stretch.end)},
        width,
        len(points),
        points[::-1],
        active,
        totals,
        Leases(leases, leases, totals.processing),
        DeadLetters(letters),
    )


def _point(minute: Minute, width: int) -> Point:
    seconds = 60 * width
    rates = (round(minute.published / seconds, 2), round(minute.acked / seconds, 2))
    return Point(instant_text(minute.start * 1000), minute.published, minute.acked, *rates)


class DataPoint(msgspec.Struct):
    timestamp: str
    messages: int


class AnalyticsView(msgspec.Struct, rename={"data_points": "dataPoints", "begins": "from", "ends": "to"}):
    data_points: list[DataPoint]
    interval: str
    begins: str
    ends: str


async def analytics(call: Call) -> AnalyticsView:
    """Messages that were pushed."""
    query: LookQuery = call.query
    interval = query.interval or "hour"
    if interval not in _INTERVALS:
        raise InvalidError(f"interval is one of {', '.join(_INTERVALS)}, not {interval[:40]!r}")
    stretch = Stretch(query, usual=MINUTES_MAX)
    found = _bucketed(await stretch.read(call), _INTERVALS[interval])
    points = [DataPoint(instant_text(start * 1000), minute.published) for start, minute in found.items()]
    return AnalyticsView(points, interval, seconds_text(stretch.begin), seconds_text(stretch.end))


class BuffersView(msgspec.Struct, rename="camel"):
    """Nothing waits outside of the queue: what a push was answered for is stored."""

    pending: int = 0
    failed: int = 0
    db_healthy: bool = True
    worker: int = 0


async def buffers(call: Call) -> BuffersView:
    call.link.check(GetStats())
    return BuffersView(db_healthy=call.services.ready() is None)


class Refreshed(msgspec.Struct):
    success: bool = True


async def refresh(call: Call) -> Refreshed:
    """Figures are always those of the moment."""
    call.link.check(GetStats())
    return Refreshed()


# -- queues


class QueuesPage(msgspec.Struct):
    queues: list[QueueView]
    pagination: Pagination


async def list_queues(call: Call) -> QueuesPage:
    query: LookQuery = call.query
    reader = PartitionReader(call.link)
    found = await queues(call, newest_first=True, usual=_QUEUES_SHOWN)
    return QueuesPage([await queue_view(reader, queue) for queue in found], Pagination.of(query.page(_QUEUES_SHOWN)))


class Cursor(msgspec.Struct, rename="camel"):
    total_consumed: int
    batches_consumed: int = 0


class PartitionDetail(msgspec.Struct, rename="camel"):
    """`messages` and `stats` are the same: some read this, some that."""

    id: str
    name: str
    created_at: str
    messages: Counts
    stats: Counts
    cursor: Cursor
    last_activity: str | None
    oldest_message: str
    newest_message: str


class QueueDetail(msgspec.Struct):
    queue: dict[str, Any]
    partitions: list[PartitionDetail]
    totals: dict[str, Any]


async def show_queue(call: Call) -> QueueDetail:
    queue = await one_queue(call)
    partitions = [_partition_detail(queue, each) for each in await PartitionReader(call.link).read(queue)]
    plain: dict[str, Any] = msgspec.to_builtins(queue.counts)
    return QueueDetail(_queue_detail(queue), partitions, {"messages": plain, **plain})


def _queue_detail(queue: Observed) -> dict[str, Any]:
    info = queue.info
    options = shown(options_of(info.config))
    return {
        "id": queue_id(info.id),
        "name": info.name,
        "namespace": queue.namespace,
        "task": queue.task,
        "priority": queue_priority(info.config.labels),
        "createdAt": seconds_text(info.created),
        "config": {name: options[name] for name in _CONFIG_SHOWN},
    }


def _partition_detail(queue: Observed, partition: Partition) -> PartitionDetail:
    counts = partition.counts
    oldest, newest = seconds_text(partition.oldest), seconds_text(partition.newest)
    return PartitionDetail(
        partition_id(queue.info.id, partition.name),
        partition.name,
        oldest,
        counts,
        counts,
        Cursor(counts.completed + counts.dead_letter),
        newest,
        oldest,
        newest,
    )


# -- messages


class MessageRow(msgspec.Struct, rename="camel"):
    id: str
    transaction_id: str
    partition_id: str
    queue_path: str
    queue: str
    partition: str
    status: str
    created_at: str


async def queue_messages(call: Call) -> bytes:
    """The newest first, each with what became of it in one group."""
    query: LookQuery = call.query
    queue = await one_queue(call)
    page = query.page(_MESSAGES_SHOWN, _MESSAGES_MAX)
    if page.stop > _LOOKED_MAX:
        raise InvalidError(f"only the newest {_LOOKED_MAX} messages are listed; see /api/v1/messages for others")
    group = group_name(query.consumer_group) if query.consumer_group or queue.group is None else queue.group.name
    found: list[tuple[int, MessageRef, MessageRow]] = []
    for each in await _newest(call.link, queue, page.stop):
        found += _rows(each)
    found.sort(key=lambda row: (row[0], row[1]), reverse=True)
    shown_rows = found[page]
    for start in range(0, len(shown_rows), _AT_ONCE):
        for _, ref, row in shown_rows[start : start + _AT_ONCE]:
            row.status = await _status(call.link, ref, group)
        await asyncio.sleep(0)
    return _encode([row for _, _, row in shown_rows])


async def _newest(link: AuthorizedLink, queue: Observed, count: int) -> list[Page]:
    logs = queue.info.partitions
    each = max(1, min(count, _LOOKED_MAX // len(logs)))
    return [
        await link.ask(Scan(queue.topic, log.partition, Position(offset=max(log.start, log.end - each)), None, each))
        for log in logs
        if log.messages
    ]


def _rows(page: Page) -> list[tuple[int, MessageRef, MessageRow]]:
    columns, queue = page.columns, page.topic.name
    ids = to_uuids(page.topic_id, page.partition, columns.offsets)
    fields = (columns.timestamps, columns.offsets, ids, transaction_ids(columns, ids), keys_of(page))
    return [
        (
            stamp,
            MessageRef(page.topic_id, page.partition, offset),
            MessageRow(
                made, given, partition_id(page.topic_id, key), f"{queue}/{key}", queue, key, "", instant_text(stamp)
            ),
        )
        for stamp, offset, made, given, key in zip(*fields, strict=True)
    ]


async def _status(link: AuthorizedLink, ref: MessageRef, group: str) -> str:
    try:
        states = (await link.ask(GetMessage(ref))).states
    except NotFoundError:  # gone since it was read
        return "completed"
    found = states.get(group)
    return "pending" if found is None else _STATUS_OF.get(found, "pending")
