"""Consumer groups: how far behind they are, where they begin, and their end."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.answers import Refusal
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text, parse_instant
from ortoo.model.commands import END, START, DeleteGroup, Position, Seek
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.names import TopicName
from ortoo.model.queries import GetMetrics, ListKeys, ListTopics, Scan
from ortoo.model.replies import GroupInfo, TopicInfo

from .analytics import Lags
from .observing import LookQuery, Observed, PartitionReader, all_queues, each_queue, observed, shown_group
from .places import partition_id
from .popping import group_name

_LAGGING_SECONDS = 300
_ROWS_MAX = 1_000
GROUPS = (ListTopics, GetMetrics)
PARTITIONS = (*GROUPS, ListKeys, Scan)
DELETING = (ListTopics, DeleteGroup)
SEEKING = (ListTopics, Seek)

_encode = msgspec.json.Encoder().encode


class DeleteQuery(LookQuery, rename="camel"):
    """All that is known of a group goes with it, whatever this says."""

    delete_metadata: bool = True


class SeekBody(msgspec.Struct, rename="camel"):
    """Clients have called it this and that."""

    to_end: bool | None = None
    seek_to_end: bool | None = None
    timestamp: str | None = None
    target_timestamp: str | None = None
    position: str | None = None


class SubscriptionBody(msgspec.Struct, rename="camel"):
    subscription_timestamp: str | None = None


class GroupView(msgspec.Struct, rename="camel"):
    """In one queue. Where it began is not kept."""

    name: str
    topics: list[str]
    queue_name: str
    members: int
    total_lag: int
    max_time_lag: int
    state: str
    subscription_mode: str | None = None
    subscription_timestamp: str | None = None
    subscription_created_at: str | None = None


class GroupPartition(msgspec.Struct, rename="camel"):
    partition: str
    worker_id: str | None
    last_consumed_at: str | None
    total_consumed: int
    offset_lag: int
    time_lag_seconds: int
    lease_active: bool


class LaggingRow(msgspec.Struct):
    consumer_group: str
    queue_name: str
    partition_name: str
    partition_id: str
    worker_id: str | None
    offset_lag: int
    time_lag_seconds: int
    lag_hours: float
    oldest_unconsumed_at: str | None
    last_consumed_at: str | None


class Changed(msgspec.Struct, rename="camel"):
    """What was asked for, and in how many queues it was done."""

    success: bool
    consumer_group: str
    queue_name: str | UnsetType = UNSET
    deleted_partitions: int | UnsetType = UNSET
    metadata_deleted: bool | UnsetType = UNSET
    seek_to_end: bool | UnsetType = UNSET
    target_timestamp: str | UnsetType | None = UNSET
    partitions_updated: int | UnsetType = UNSET
    subscription_timestamp: str | UnsetType = UNSET
    new_timestamp: str | UnsetType = UNSET
    rows_updated: int | UnsetType = UNSET


# -- looking


async def list_groups(call: Call) -> bytes:
    """A row for each group and queue, by name."""
    query: LookQuery = call.query
    lags = await Lags.read(call.link)
    found: list[GroupView] = []
    async for queue in each_queue(call):
        found += [_view(queue, group, lags) for group in queue.info.groups if not group.ephemeral]
    found.sort(key=lambda view: (view.name, view.queue_name))
    return _encode(found[query.page(_ROWS_MAX)])


def _view(queue: Observed, group: GroupInfo, lags: Lags) -> GroupView:
    behind = int(lags.oldest(queue.topic, group.name))
    has_begun = bool(group.consumers) or group.backlog < queue.info.messages
    state = "Lagging" if behind > _LAGGING_SECONDS else "Stable" if has_begun else "Dead"
    name = shown_group(group.name)
    return GroupView(name, [queue.name], queue.name, len(group.consumers), group.backlog, behind, state)


async def show_group(call: Call) -> bytes:
    """Its partitions, by queue."""
    name = group_name(call.params["group"])
    lags, reader = await Lags.read(call.link), PartitionReader(call.link)
    found: dict[str, dict[str, list[GroupPartition]]] = {}
    async for queue in each_queue(call):
        group = _find(queue.info, name)
        if group is not None and len(found) < _ROWS_MAX:
            found[queue.name] = {"partitions": await _partitions(reader, queue, group, lags)}
    return _encode(found)


async def _partitions(reader: PartitionReader, queue: Observed, group: GroupInfo, lags: Lags) -> list[GroupPartition]:
    """Of a partition that has a backlog it is known that it lags no longer than its queue."""
    behind = int(lags.oldest(queue.topic, group.name))
    found = []
    for each in await reader.read(queue, group):
        counts = each.counts
        backlog = counts.pending + counts.processing
        consumed = counts.completed + counts.dead_letter
        found.append(
            GroupPartition(each.name, None, None, consumed, backlog, behind if backlog else 0, counts.processing > 0)
        )
    return found


async def lagging(call: Call) -> bytes:
    """Partitions with a backlog, of groups that have left a message for so long; the longest first."""
    query: LookQuery = call.query
    lags, reader, rows = await Lags.read(call.link), PartitionReader(call.link), list[LaggingRow]()
    async for queue in each_queue(call):
        for group in queue.info.groups:
            behind = int(lags.oldest(queue.topic, group.name))
            if behind > query.min_lag_seconds and not group.ephemeral and len(rows) < _ROWS_MAX:
                found = await _partitions(reader, queue, group, lags)
                rows += [_lagging(queue, group, each) for each in found if each.offset_lag]
    rows.sort(key=lambda row: -row.time_lag_seconds)
    return _encode(rows[query.page(_ROWS_MAX)])


def _lagging(queue: Observed, group: GroupInfo, partition: GroupPartition) -> LaggingRow:
    behind = partition.time_lag_seconds
    return LaggingRow(
        shown_group(group.name),
        queue.name,
        partition.partition,
        partition_id(queue.info.id, partition.partition),
        None,
        partition.offset_lag,
        behind,
        round(behind / 3600, 2),
        None,
        None,
    )


def _find(info: TopicInfo, name: str) -> GroupInfo | None:
    return next((group for group in info.groups if group.name == name), None)


# -- changing


async def _having(call: Call, name: str) -> list[TopicName]:
    """The queues in which there is such a group."""
    found = map(observed, await all_queues(call))
    return [queue.topic for queue in found if _find(queue.info, name) is not None]


async def delete_group(call: Call) -> Changed:
    """In all queues: when one of them is forbidden, in none. A group that is not there is as good as deleted."""
    query: DeleteQuery = call.query
    given = call.params["group"]
    commands = [DeleteGroup(topic, group_name(given)) for topic in await _having(call, group_name(given))]
    for command in commands:
        call.link.check(command)
    deleted = sum([await _delete(call, command) for command in commands])
    return Changed(True, given, deleted_partitions=deleted, metadata_deleted=query.delete_metadata)


async def delete_group_of_queue(call: Call) -> Changed:
    query: DeleteQuery = call.query
    given, queue = call.params["group"], call.params["queue"]
    deleted = await _delete(call, DeleteGroup(_topic(call), group_name(given)))
    return Changed(True, given, queue, deleted_partitions=int(deleted), metadata_deleted=query.delete_metadata)


async def _delete(call: Call, command: DeleteGroup) -> bool:
    try:
        await call.link.call(command)
    except NotFoundError:
        return False
    return True


def _topic(call: Call) -> TopicName:
    return TopicName(namespace_of(call.link), call.params["queue"])


async def seek(call: Call) -> Changed:
    body: SeekBody = call.body
    given, queue = call.params["group"], call.params["queue"]
    position = _position(body)
    offsets = await call.link.call(Seek(_topic(call), group_name(given), position))
    target = None if position.time is None else instant_text(round(position.time * 1000))
    return Changed(
        True, given, queue, seek_to_end=position == END, target_timestamp=target, partitions_updated=len(offsets)
    )


def _position(body: SeekBody) -> Position:
    stamp = body.timestamp or body.target_timestamp
    if body.to_end or body.seek_to_end:
        return END
    if stamp:
        return Position(time=parse_instant("timestamp", stamp))
    match body.position:
        case "end" | "latest":
            return END
        case "start" | "beginning" | "earliest":
            return START
        case _:
            raise InvalidError("say where to: toEnd=true, a timestamp, or position start or end")


async def seek_partition(call: Call) -> Changed:
    raise Refusal(
        501,
        "a group is moved in a whole queue here: POST /api/v1/consumer-groups/GROUP/queues/QUEUE/seek; "
        "single messages are delivered again with POST /api/v1/messages/ID/retry",
        code="not_implemented",
    )


async def subscribe(call: Call) -> Changed:
    """Moves the group to an instant, in all of its queues: when one of them is forbidden, in none."""
    body: SubscriptionBody = call.body
    given, stamp = call.params["group"], body.subscription_timestamp
    if not stamp:
        raise InvalidError("subscriptionTimestamp is required")
    position = Position(time=parse_instant("subscriptionTimestamp", stamp))
    commands = [Seek(topic, group_name(given), position) for topic in await _having(call, group_name(given))]
    for command in commands:
        call.link.check(command)
    updated = 0
    for command in commands:
        try:
            await call.link.call(command)
            updated += 1
        except NotFoundError:
            pass  # deleted meanwhile
    return Changed(True, given, subscription_timestamp=stamp, new_timestamp=stamp, rows_updated=updated)
