"""Enqueueing and dequeueing, a batch at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC

import msgspec

from ortoo.dialects import ids
from ortoo.dialects.rendering import runs_in_parts, write_list
from ortoo.doors.http.answers import Streaming
from ortoo.doors.http.call import Call
from ortoo.doors.http.leases import take
from ortoo.doors.times import instant_text
from ortoo.model import limits
from ortoo.model.batch import Outgoing, check_outgoing
from ortoo.model.commands import Lease, Publish, Transact
from ortoo.model.errors import InvalidError
from ortoo.model.names import DEFAULT_GROUP, TopicName
from ortoo.model.replies import LeasedRun, Placed
from ortoo.model.topic import DEFAULT_PRIORITY, TopicConfig

from .metadata import deliver_ms_of, from_headers, to_headers
from .shapes import Item, NewItem, TopicQuery, check_place

# Of a topic that is made by its first use. Nothing goes before it was dequeued, and what was is kept for a week, to be replayed.
TOPIC = TopicConfig(
    partitions=1,
    ordering="none",
    lease=30.0,
    max_attempts=3,
    backoff_initial=1.0,
    backoff_factor=2.0,
    dedup_scope="namespace",
    dedup_window=86_400.0,
    retention_seconds=None,
    retention_done_seconds=604_800.0,
)
NOTHING = b"null"
_PER_TURN = 500  # items that are looked at one by one
_STATUS = "ready"
_ELSEWHERE = 0  # no item has this id

_encode = msgspec.json.Encoder().encode


async def enqueue(call: Call) -> bytes:
    """All of them or none, whatever topics they are for. Answered with their ids, in their order."""
    items: list[NewItem] = call.body
    if not 1 <= len(items) <= limits.BATCH_MESSAGES_MAX:
        raise InvalidError(f"a request has 1 to {limits.BATCH_MESSAGES_MAX} items, this one has {len(items)}")
    rows: dict[TopicName, list[int]] = {}
    for row, item in enumerate(items):
        rows.setdefault(TopicName(item.namespace, item.topic), []).append(row)
    if len(rows) > limits.NEW_TOPICS_MAX:
        raise InvalidError(f"a request has items for at most {limits.NEW_TOPICS_MAX} topics, this one for {len(rows)}")
    now = call.link.now()
    publishes = [Publish(topic, await _outgoing([items[row] for row in some], now)) for topic, some in rows.items()]
    for topic in rows:
        await call.link.ensure_topic(topic, TOPIC)
    if len(publishes) == 1:
        return _encode(_numbers(await call.link.publish(publishes[0])))
    placed = await call.link.transact_in_parts(Transact([], publishes))
    found = [0] * len(items)
    for some, one in zip(rows.values(), placed, strict=True):
        for row, number in zip(some, _numbers(one), strict=True):
            found[row] = number
    return _encode(found)


def _numbers(placed: Placed) -> list[int]:
    """A duplicate of what lies in another topic has none in this one, where its number would name something else."""
    numbers = list(map(ids.to_number, placed.partitions, placed.offsets))
    if placed.topics is None:
        return numbers
    return [
        number if topic == placed.topic else _ELSEWHERE for number, topic in zip(numbers, placed.topics, strict=True)
    ]


async def _outgoing(items: list[NewItem], now: int) -> Outgoing:
    dues: list[int | None] = []
    headers: list[dict[str, str] | None] = []
    for item in items:
        dues.append(_due_ms(item, now))
        headers.append(to_headers(item.metadata, dues[-1]))
        if len(dues) % _PER_TURN == 0:
            await asyncio.sleep(0)
    keys = [item.idempotency_key or None for item in items]
    outgoing = Outgoing(
        [item.payload or b"" for item in items],
        headers=headers if any(headers) else None,
        priorities=[item.priority for item in items],
        deliver_ats=[None if due is None else due / 1000 for due in dues] if any(dues) else None,
        dedup_ids=keys if any(keys) else None,
    )
    await asyncio.sleep(0)
    check_outgoing(outgoing)
    return outgoing


def _due_ms(item: NewItem, now: int) -> int | None:
    """None: at once, as what was due in the past is."""
    after = item.deliver_after
    if after is None:
        return None
    if after.tzinfo is None:
        after = after.replace(tzinfo=UTC)
    due = round(after.timestamp() * 1000)  # the first year of all is what Go writes for none
    return due if due > now else None


async def dequeue(call: Call) -> bytes | Streaming:
    query: TopicQuery = call.query
    check_place(query.namespace, query.topic)
    topic = TopicName(query.namespace, query.topic)
    found = call.link.find_topic(topic)
    if found is None:
        return NOTHING
    command = Lease(
        topic=topic.name,
        namespace=topic.namespace,
        group=DEFAULT_GROUP,
        consumer=call.consumer,
        max_messages=query.count,
    )
    runs = await take(call, command, lambda: call.link.lease(command))
    if not runs:
        return NOTHING
    now = call.link.now()
    expires = instant_text(now + round(found.config.lease * 1000))

    def render(some: list[LeasedRun]) -> list[Item]:
        return [item for run in some for item in _items(run, instant_text(now), expires, call.consumer)]

    return write_list(b"", runs_in_parts(runs), render)


def _items(run: LeasedRun, now: str, expires: str, owner: str) -> list[Item]:
    taken, columns = run.taken, run.columns
    count, partition = len(columns), taken.partition
    headers: Sequence[dict[str, str] | None] = columns.headers or [None] * count
    created = {stamp: instant_text(stamp) for stamp in set(columns.timestamps)}
    if columns.headers:
        dues = map(deliver_ms_of, headers, columns.timestamps)
        deliver = [created.get(due) or instant_text(due) for due in dues]
    else:
        deliver = [created[stamp] for stamp in columns.timestamps]
    return list(
        map(
            Item,
            [ids.to_number(partition, offset) for offset in columns.offsets],
            [taken.topic.namespace] * count,
            [taken.topic.name] * count,
            columns.dedup_ids or [None] * count,
            columns.priorities or [DEFAULT_PRIORITY] * count,
            columns.values,
            map(from_headers, headers),
            deliver,
            [expires] * count,
            [owner] * count,
            [_STATUS] * count,
            [taken.attempts.get(offset, 1) - 1 for offset in columns.offsets] if taken.attempts else [0] * count,
            [created[stamp] for stamp in columns.timestamps],
            [now] * count,
        )
    )
