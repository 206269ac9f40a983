"""Queues, partitions, namespaces and tasks, as lists."""

from __future__ import annotations

from collections.abc import Callable
from time import time

import msgspec

from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text

from .observing import (
    Counts,
    LookQuery,
    Observed,
    Partition,
    PartitionReader,
    each_queue,
    one_queue,
    queue_id,
    queues,
)
from .options import queue_priority
from .places import partition_id


class Waiting(msgspec.Struct):
    total: int
    pending: int
    processing: int


class QueueView(msgspec.Struct, rename="camel"):
    id: str
    name: str
    namespace: str | None
    task: str | None
    created_at: str
    partitions: int
    messages: Waiting


class QueuesView(msgspec.Struct):
    queues: list[QueueView]


class PartitionDetail(msgspec.Struct, rename="camel"):
    id: str
    name: str
    created_at: str
    stats: Counts
    oldest_message: str
    newest_message: str


class QueueDetail(msgspec.Struct, rename="camel"):
    id: str
    name: str
    namespace: str | None
    task: str | None
    created_at: str
    partitions: list[PartitionDetail]
    totals: Counts


class PartitionView(msgspec.Struct, rename="camel"):
    id: str
    name: str
    queue: str
    namespace: str | None
    task: str | None
    queue_priority: int
    created_at: str
    depth: int
    processing: int
    total: int


class PartitionsView(msgspec.Struct):
    partitions: list[PartitionView]


class PartitionDepth(msgspec.Struct):
    partition: str
    pending: int


class DepthView(msgspec.Struct, rename="camel"):
    """What is left to complete, also of what is being processed. Nothing is conflated here."""

    queue: str
    group: str | None
    pending: int
    partitions_pending: int
    conflation: bool
    effective_pending: int
    partitions: list[PartitionDepth]


class LabelMessages(msgspec.Struct):
    total: int
    pending: int


class LabelView(msgspec.Struct, omit_defaults=True):
    """Of a namespace, or of a task."""

    queues: int
    partitions: int
    messages: LabelMessages
    namespace: str | None = None
    task: str | None = None


class NamespacesView(msgspec.Struct):
    namespaces: list[LabelView]


class TasksView(msgspec.Struct):
    tasks: list[LabelView]


class Overview(msgspec.Struct):
    queues: int
    partitions: int
    namespaces: int
    tasks: int
    messages: Counts
    timestamp: str


def seconds_text(seconds: float) -> str:
    return instant_text(round(seconds * 1000))


async def queue_view(reader: PartitionReader, queue: Observed) -> QueueView:
    counts = queue.counts
    return QueueView(
        queue_id(queue.info.id),
        queue.name,
        queue.namespace,
        queue.task,
        seconds_text(queue.info.created),
        await reader.count(queue),
        Waiting(counts.total, counts.pending, counts.processing),
    )


async def list_queues(call: Call) -> QueuesView:
    """Those made last first."""
    reader = PartitionReader(call.link)
    return QueuesView([await queue_view(reader, queue) for queue in await queues(call, newest_first=True)])


async def show_queue(call: Call) -> QueueDetail:
    queue = await one_queue(call)
    partitions = [_detail(queue, each) for each in await PartitionReader(call.link).read(queue)]
    return QueueDetail(
        queue_id(queue.info.id),
        queue.name,
        queue.namespace,
        queue.task,
        seconds_text(queue.info.created),
        partitions,
        queue.counts,
    )


def _detail(queue: Observed, partition: Partition) -> PartitionDetail:
    """A partition begins with its first message: the oldest that is known."""
    oldest = seconds_text(partition.oldest)
    return PartitionDetail(
        partition_id(queue.info.id, partition.name),
        partition.name,
        oldest,
        partition.counts,
        oldest,
        seconds_text(partition.newest),
    )


async def show_depth(call: Call) -> DepthView:
    query: LookQuery = call.query
    queue = await one_queue(call)
    found = await PartitionReader(call.link).read(queue)
    partitions = [PartitionDepth(each.name, each.counts.pending + each.counts.processing) for each in found]
    backlog = queue.counts.pending + queue.counts.processing
    owing = sum(1 for each in partitions if each.pending)
    return DepthView(queue.name, query.group or query.consumer_group, backlog, owing, False, backlog, partitions)


async def list_partitions(call: Call) -> PartitionsView:
    """`limit` and `offset` are those of partitions, queue by queue."""
    query: LookQuery = call.query
    page, reader = query.page(most=10_000), PartitionReader(call.link)
    found: list[PartitionView] = []
    async for queue in each_queue(call):
        found += [_partition_view(queue, each) for each in await reader.read(queue)]
        if len(found) >= page.stop:
            break
    return PartitionsView(found[page])


def _partition_view(queue: Observed, partition: Partition) -> PartitionView:
    counts = partition.counts
    return PartitionView(
        partition_id(queue.info.id, partition.name),
        partition.name,
        queue.name,
        queue.namespace,
        queue.task,
        queue_priority(queue.info.config.labels),
        seconds_text(partition.oldest),
        counts.pending,
        counts.processing,
        counts.total,
    )


async def list_namespaces(call: Call) -> NamespacesView:
    found = await _by_label(call, lambda queue: queue.namespace)
    for name, view in found.items():
        view.namespace = name
    return NamespacesView(list(found.values()))


async def list_tasks(call: Call) -> TasksView:
    found = await _by_label(call, lambda queue: queue.task)
    for name, view in found.items():
        view.task = name
    return TasksView(list(found.values()))


async def _by_label(call: Call, label_of: Callable[[Observed], str | None]) -> dict[str, LabelView]:
    """In order. Queues without that label belong nowhere."""
    reader, found = PartitionReader(call.link), dict[str, LabelView]()
    async for queue in each_queue(call):
        name = label_of(queue)
        if name is not None:
            view = found.setdefault(name, LabelView(0, 0, LabelMessages(0, 0)))
            view.queues += 1
            view.partitions += await reader.count(queue)
            view.messages.total += queue.counts.total
            view.messages.pending += queue.counts.pending
    return dict(sorted(found.items())[:1_000])


async def overview(call: Call) -> Overview:
    reader = PartitionReader(call.link)
    found = Overview(0, 0, 0, 0, Counts(), seconds_text(time()))
    namespaces, tasks = set[str | None](), set[str | None]()
    async for queue in each_queue(call):
        found.queues += 1
        found.partitions += await reader.count(queue)
        found.messages.add(queue.counts)
        namespaces.add(queue.namespace)
        tasks.add(queue.task)
    found.namespaces, found.tasks = len(namespaces - {None}), len(tasks - {None})
    return found
