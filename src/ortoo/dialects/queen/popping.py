"""Pop: messages of one partition, or of as many as the client takes, leased for their group."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from itertools import groupby
from time import time

import msgspec
from msgspec import UNSET, Raw

from ortoo.broker.authorized import AuthorizedLink
from ortoo.dialects.callers import namespace_of
from ortoo.dialects.ids import from_uuids, to_uuids
from ortoo.doors.http.answers import Answer
from ortoo.doors.http.call import Call
from ortoo.doors.http.leases import take
from ortoo.doors.http.messages import all_as_json, as_json
from ortoo.doors.times import instant_text, parse_instant
from ortoo.model import limits
from ortoo.model.commands import END, START, Lease, Position
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.names import DEFAULT_GROUP, TopicName
from ortoo.model.publishers import spread
from ortoo.model.replies import Columns, LeasedRun
from ortoo.model.topic import TopicConfig

from .options import DEFAULT_PARTITION, partition_priorities, queue_priority
from .places import lease_id, partition_id
from .pushing import TRACE_ID
from .shapes import Popped, PopQuery

QUEUE_MODE = "__QUEUE_MODE__"  # how later clients call having no group
_AUTOPILOT_BATCH, _AUTOPILOT_PARTITIONS, _AUTOPILOT_PAUSE_MS = 100, 10, 100
_PART_BYTES = 4 * 1024 * 1024  # of an answer that is written at a time
_LOOK_SECONDS, _LOOK_SECONDS_MAX = 0.05, 1.0  # how often a poll looks whether its queue is there by now

_encode = msgspec.json.Encoder().encode


def group_name(given: str | None) -> str:
    """Whoever names no group shares the one that our own consumers are in when they name none."""
    return DEFAULT_GROUP if not given or given == QUEUE_MODE else given


async def pop_queue(call: Call) -> Answer | None:
    return await _pop(call, call.params["queue"], None)


async def pop_partition(call: Call) -> Answer | None:
    return await _pop(call, call.params["queue"], call.params["partition"])


async def pop_anywhere(call: Call) -> Answer | None:
    query: PopQuery = call.query
    if not query.namespace and not query.task:
        raise InvalidError("name a queue to pop from, or a namespace or a task")
    return await _pop(call, None, None)


async def _pop(call: Call, queue: str | None, partition: str | None) -> Answer | None:
    """None is 204: there is nothing now, nor was there as long as the client waits."""
    query: PopQuery = call.query
    if query.conflation:
        raise InvalidError("conflation is not served here: pop the messages, and use the last one of each partition")
    command = to_lease(query, namespace_of(call.link), queue, partition, call.consumer)
    polling = _Polling(call.link, command)
    runs = await take(call, command, polling.once, polling.wait)
    if not runs:
        return None
    return Answer(await Answering(call.link, query, command.auto_ack).encode(runs))


def to_lease(query: PopQuery, namespace: str, queue: str | None, partition: str | None, consumer: str) -> Lease:
    is_free = query.autopilot
    batch = query.batch if query.batch is not None else (_AUTOPILOT_BATCH if is_free else 1)
    keys = query.partitions if query.partitions is not None else (_AUTOPILOT_PARTITIONS if is_free else 1)
    labels = {"namespace": query.namespace, "task": query.task}
    return Lease(
        topic=queue,
        labels=None if queue is not None else {name: value for name, value in labels.items() if value},
        namespace=namespace,
        group=group_name(query.group),
        consumer=consumer,
        max_messages=min(max(batch, 1), limits.BATCH_MESSAGES_MAX),
        wait_ms=min(max(query.timeout, 0), limits.WAIT_MS_MAX) if query.wait else 0,
        key=partition,
        keys_max=None if partition is not None else min(max(keys, 1), limits.BATCH_MESSAGES_MAX),
        auto_ack=query.auto_ack,
        start=_start(query),
    )


def _start(query: PopQuery) -> Position:
    """Where a group begins that this pop makes."""
    if query.group is None:
        return START
    since = query.subscription_from
    if since and since != "now":
        return Position(time=parse_instant("subscriptionFrom", since))
    match query.subscription_mode or "all":
        case "new" | "new-only":
            return END
        case "all":
            return END if since else START
        case other:
            raise InvalidError(f"subscriptionMode is all or new, not {other[:40]!r}")


class _Polling:
    """One pop of a queue that may not be there yet: whoever waits, waits for that, too."""

    def __init__(self, link: AuthorizedLink, command: Lease) -> None:
        self._link = link
        self.command = command

    async def once(self) -> list[LeasedRun]:
        if not self._is_there():
            return []
        try:
            return await self._link.lease(msgspec.structs.replace(self.command, wait_ms=0))
        except NotFoundError:
            return []

    async def wait(self) -> list[LeasedRun]:
        clock = asyncio.get_running_loop().time
        end = clock() + self.command.wait_ms / 1000
        began, pause = time(), _LOOK_SECONDS
        while not self._is_there():
            left = end - clock()
            if left <= 0:
                return []
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _LOOK_SECONDS_MAX)
            if self.command.start == END:  # what came since this poll began is new to it
                self.command = msgspec.structs.replace(self.command, start=Position(time=began))
        left_ms = max(0, round((end - clock()) * 1000))
        try:
            return await self._link.lease(msgspec.structs.replace(self.command, wait_ms=left_ms))
        except NotFoundError:  # deleted meanwhile
            return []

    def _is_there(self) -> bool:
        """Messages of a topic in another order than Queen's have no partitions to tell apart."""
        command = self.command
        if command.topic is None:
            return True
        config = self._link.settings_of(TopicName(command.namespace, command.topic), "read")
        if config is not None and config.ordering != "key" and command.keys_max is not None:
            self.command = msgspec.structs.replace(command, keys_max=None)
        return config is not None


class Answering:
    """Messages as clients of both generations read them."""

    def __init__(self, link: AuthorizedLink, query: PopQuery, is_acked: bool) -> None:
        self._link = link
        self._query = query
        self._is_acked = is_acked

    async def encode(self, runs: list[LeasedRun]) -> bytes:
        """Large messages a part at a time: others get their turns."""
        found: list[Popped] = []
        for _, some in groupby(runs, lambda run: run.taken.topic_id):
            found += self._render(list(some))
        size = 2 * sum(sum(map(len, run.columns.values)) for run in runs)
        step = max(1, len(found) * _PART_BYTES // max(1, size))
        parts = []
        for at in range(0, len(found), step):
            if at:
                await asyncio.sleep(0)
            parts.append(memoryview(_encode(found[at : at + step]))[1:-1])  # without the brackets of each list
        return b"".join([b'{"success":true,"messages":[', b",".join(parts), b"]", self._choice(), b"}"])

    def _choice(self) -> bytes:
        """What was chosen in the client's place."""
        if not self._query.autopilot:
            return b""
        choice = {"batch": _AUTOPILOT_BATCH, "partitions": _AUTOPILOT_PARTITIONS, "waitMs": _AUTOPILOT_PAUSE_MS}
        return b',"autopilot":' + _encode(choice)

    def _render(self, runs: list[LeasedRun]) -> list[Popped]:
        """What one queue gave."""
        name = runs[0].taken.topic
        config = self._link.settings_of(name, "read") or TopicConfig()
        lease = None if self._is_acked else lease_id(run.taken for run in runs)
        options = Raw(b'{"leaseTime":%s}' % format(config.lease, "g").encode())
        found: list[Popped] = []
        for run in runs:
            found += render_run(run, config, self._query.group, lease, options)
        return found


def render_run(
    run: LeasedRun, config: TopicConfig, group: str | None, lease: str | None, options: Raw
) -> Sequence[Popped]:
    taken, columns = run.taken, run.columns
    offsets = columns.offsets
    count = len(offsets)
    ids = to_uuids(taken.topic_id, taken.partition, offsets)
    headers, attempts = columns.headers, taken.attempts
    values = shown_values(columns.values, columns.json)
    keys = [DEFAULT_PARTITION] * count if columns.keys is None else [key or DEFAULT_PARTITION for key in columns.keys]
    places = {key: partition_id(taken.topic_id, key) for key in set(keys)}
    own, others = partition_priorities(config.labels), queue_priority(config.labels)
    instants = {stamp: instant_text(stamp) for stamp in set(columns.timestamps)}
    return list(
        map(
            Popped,
            ids,
            transaction_ids(columns, ids),
            [None] * count if headers is None else [some.get(TRACE_ID) if some else None for some in headers],
            [taken.topic.name] * count,
            keys,
            values,
            values,
            [attempts.get(offset, 1) - 1 for offset in offsets] if attempts else [0] * count,
            [own.get(key, others) for key in keys] if own else [others] * count,
            [instants[stamp] for stamp in columns.timestamps],
            [group] * count,
            [places[key] for key in keys],
            [lease] * count,
            spread(columns.publishers, count) if columns.publishers is not None else [None] * count,
            [options] * count,
        )
    )


def transaction_ids(columns: Columns, ids: list[str]) -> list[str]:
    """What clients called the messages, else what they are called here. What names a place here is never a name that a client
    gave: it may have passed on that of another message, and an ack means the place."""
    if columns.dedup_ids is None:
        return ids
    given = [name or made for name, made in zip(columns.dedup_ids, ids, strict=True)]
    if len(set(given)) < len(given):
        given = _told_apart(given, columns.keys or [None] * len(given), ids)
    places = from_uuids(given)
    if places.count(None) == len(places):  # as mostly
        return given
    return [name if place is None else made for name, place, made in zip(given, places, ids, strict=True)]


def _told_apart(given: list[str], keys: list[str | None], ids: list[str]) -> list[str]:
    """A name that a partition has twice, past the time that it is remembered, is that of the last."""
    lasts = {place: row for row, place in enumerate(zip(keys, given, strict=True))}
    pairs = enumerate(zip(keys, given, strict=True))
    return [place[1] if lasts[place] == row else ids[row] for row, place in pairs]


def shown_values(values: list[bytes], json: list[bool] | None) -> list[Raw]:
    if json is not None and all(json) and (together := all_as_json(values)) is not None:
        return together
    flags = json or [False] * len(values)
    return [shown_value(value, is_json=flag) for value, flag in zip(values, flags, strict=True)]


def shown_value(value: bytes, *, is_json: bool) -> Raw:
    """JSON as it is; other text as a string, and other bytes as `{"base64": …}`."""
    if is_json and (raw := as_json(value)) is not UNSET:
        return raw
    try:
        return Raw(_encode(value.decode()))
    except UnicodeDecodeError:
        return Raw(b'{"base64":"%b"}' % b64encode(value))
