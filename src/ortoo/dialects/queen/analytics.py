"""What Queen's dashboard shows of queues: counts, depths, rates, lag."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ortoo.broker.authorized import AuthorizedLink
from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text
from ortoo.model.histogram import Histogram
from ortoo.model.names import TopicName
from ortoo.model.queries import GetMetrics

from .observing import Counts, LookQuery, Observed, Partition, PartitionReader, one_queue, queues, shown_group, total_of
from .rates import Minute, minutes

_BUCKETS = 60
_GROUPS_MAX = 20  # of a queue, each with its partitions
_encode = msgspec.json.Encoder().encode


# -- counts


class PartitionStats(msgspec.Struct):
    name: str
    stats: Counts


class QueueStats(msgspec.Struct):
    """`namespace` and `task` are left out where they were asked for."""

    queue: str
    namespace: str | UnsetType | None
    task: str | UnsetType | None
    partitions: list[PartitionStats]
    totals: Counts


class QueuesView(msgspec.Struct, omit_defaults=True):
    queues: list[QueueStats]
    namespace: str | None = None
    task: str | None = None
    totals: Counts | None = None


async def all_stats(call: Call) -> QueuesView:
    return QueuesView(await _stats(call))


async def grouped_stats(call: Call) -> QueuesView:
    """Of a namespace, a task, or both."""
    query: LookQuery = call.query
    found = await _stats(call)
    for each in found:
        each.namespace = UNSET if query.namespace else each.namespace
        each.task = UNSET if query.task else each.task
    totals = total_of(each.totals for each in found)
    return QueuesView(found, query.namespace or None, query.task or None, totals)


async def _stats(call: Call) -> list[QueueStats]:
    reader = PartitionReader(call.link)
    return [await _queue_stats(reader, queue) for queue in await queues(call)]


async def _queue_stats(reader: PartitionReader, queue: Observed) -> QueueStats:
    partitions = [PartitionStats(each.name, each.counts) for each in await reader.read(queue)]
    return QueueStats(queue.name, queue.namespace, queue.task, partitions, queue.counts)


async def queue_stats(call: Call) -> QueueStats:
    return await _queue_stats(PartitionReader(call.link), await one_queue(call))


class PartitionDepth(msgspec.Struct):
    name: str
    depth: int
    processing: int


class QueueDepth(msgspec.Struct):
    queue: str
    depth: int
    processing: int
    partitions: list[PartitionDepth]


class DepthsView(msgspec.Struct):
    depths: list[QueueDepth]


async def depths(call: Call) -> DepthsView:
    reader, found = PartitionReader(call.link), []
    for queue in await queues(call):
        partitions = [
            PartitionDepth(each.name, each.counts.pending, each.counts.processing) for each in await reader.read(queue)
        ]
        found.append(QueueDepth(queue.name, queue.counts.pending, queue.counts.processing, partitions))
    return DepthsView(found)


class GroupRow(msgspec.Struct):
    """Numbers as strings: a database answered so."""

    queue: str
    namespace: str | None
    task: str | None
    partition: str
    consumer_group: str | None
    pending: str
    processing: str
    completed: str
    failed: str
    dead_letter: str
    total_messages: str
    consumer_groups_count: str


async def group_stats(call: Call) -> bytes:
    """A row for each partition and group."""
    query: LookQuery = call.query
    reader = PartitionReader(call.link)
    rows: list[GroupRow] = []
    for queue in await queues(call):
        groups = [group for group in queue.info.groups if not group.ephemeral]
        meant = [queue.group] if query.consumer_group or not groups else groups[:_GROUPS_MAX]
        for group in meant:
            name = None if group is None else shown_group(group.name)
            rows += [
                _group_row(queue, each, name, len(groups))
                for each in await reader.read(queue, group)
                if query.partition in (None, "", each.name)
            ]
    return _encode(rows)


def _group_row(queue: Observed, partition: Partition, group: str | None, groups: int) -> GroupRow:
    counts = partition.counts
    return GroupRow(
        queue.name,
        queue.namespace,
        queue.task,
        partition.name,
        group,
        pending=str(counts.pending),
        processing=str(counts.processing),
        completed=str(counts.completed),
        failed=str(counts.failed),
        dead_letter=str(counts.dead_letter),
        total_messages=str(counts.total),
        consumer_groups_count=str(groups),
    )


# -- rates


class Rate(msgspec.Struct, rename="camel"):
    messages_per_minute: int
    messages_per_second: int


class Lag(msgspec.Struct, rename="camel"):
    """Of single minutes nothing is known."""

    avg_seconds: int = 0
    avg_milliseconds: int = 0
    sample_count: int = 0


class Bucket(msgspec.Struct, rename="camel"):
    timestamp: str
    incoming: Rate
    completed: Rate
    processing: Rate
    failed: Rate
    dead_letter: Rate
    lag: Lag


class ThroughputView(msgspec.Struct):
    throughput: list[Bucket]


async def throughput(call: Call) -> ThroughputView:
    """The last hour, the newest minute first."""
    return ThroughputView([_bucket(minute) for minute in reversed(await minutes(call, _BUCKETS))])


def _bucket(minute: Minute) -> Bucket:
    return Bucket(
        instant_text(minute.start * 1000),
        incoming=_rate(minute.published),
        completed=_rate(minute.acked),
        processing=_rate(minute.delivered),
        failed=_rate(minute.failed),
        dead_letter=_rate(minute.dead_lettered),
        lag=Lag(),
    )


def _rate(count: int) -> Rate:
    return Rate(count, round(count / 60))


# -- lag


class LagStats(msgspec.Struct, rename="camel"):
    """`estimated`: how long the oldest of those that wait does already. `median` and `p95`: how long messages waited for their
    first delivery, since the server was started. Processing is not timed."""

    pending_count: int = 0
    processing_count: int = 0
    total_backlog: int = 0
    completed_messages: int = 0
    avg_processing_time_seconds: float = 0
    median_processing_time_seconds: float = 0
    p95_processing_time_seconds: float = 0
    estimated_lag_seconds: float = 0
    median_lag_seconds: float = 0
    p95_lag_seconds: float = 0


class PartitionLag(msgspec.Struct):
    name: str
    stats: LagStats


class QueueLag(msgspec.Struct):
    queue: str
    namespace: str | None
    task: str | None
    partitions: list[PartitionLag]
    totals: dict[str, Any]


class LagView(msgspec.Struct):
    queues: list[QueueLag]


class Lags:
    """How long messages wait, and have waited, by queue."""

    def __init__(self, waiting: dict[tuple[str, str], float], waited: dict[str, Histogram]) -> None:
        self._waiting = waiting
        self._waited = waited

    @classmethod
    async def read(cls, link: AuthorizedLink) -> Lags:
        namespace = namespace_of(link)
        figures = await link.ask(GetMetrics())
        waiting = {
            (topic.name.name, group): found.oldest_pending_seconds
            for topic in figures.topics
            if topic.name.namespace == namespace
            for group, found in topic.groups.items()
        }
        waited = {topic.name: histogram for topic, histogram in figures.deliveries if topic.namespace == namespace}
        return cls(waiting, waited)

    def oldest(self, topic: TopicName, group: str) -> float:
        """Seconds since the oldest message was pushed that the group has not completed."""
        return self._waiting.get((topic.name, group), 0.0)

    def waited(self, topic: TopicName, share: float) -> float:
        histogram = self._waited.get(topic.name)
        return 0.0 if histogram is None else histogram.quantile(share)


async def lag(call: Call) -> LagView:
    lags, reader, found = await Lags.read(call.link), PartitionReader(call.link), []
    for queue in await queues(call):
        totals = _lag_stats(queue.counts, queue, lags)
        partitions = [
            PartitionLag(each.name, _lag_stats(each.counts, queue, lags)) for each in await reader.read(queue)
        ]
        found.append(QueueLag(queue.name, queue.namespace, queue.task, partitions, _in_words(totals)))
    return LagView(found)


def _lag_stats(counts: Counts, queue: Observed, lags: Lags) -> LagStats:
    """A partition with something in it waits no longer than its queue; what waited is known of queues only."""
    backlog = counts.pending + counts.processing
    stats = LagStats(counts.pending, counts.processing, backlog, counts.completed)
    if backlog and queue.group is not None:
        stats.estimated_lag_seconds = round(lags.oldest(queue.topic, queue.group.name), 3)
    stats.median_lag_seconds = lags.waited(queue.topic, 0.5)
    stats.p95_lag_seconds = lags.waited(queue.topic, 0.95)
    return stats


def _in_words(stats: LagStats) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(stats)
    texts = {name.removesuffix("Seconds"): f"{value:g}s" for name, value in plain.items() if name.endswith("Seconds")}
    return plain | texts
