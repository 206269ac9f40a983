"""Publishing: JSON messages to columns, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET

from ortoo.model.batch import Outgoing, check_outgoing
from ortoo.model.commands import Publish
from ortoo.model.errors import InvalidError
from ortoo.model.message import PRIORITY_NAMES
from ortoo.model.replies import Placed
from ortoo.model.topic import DEFAULT_PRIORITY

from .call import Call
from .shapes import NewMessage, Placement, Placements, PublishBody

_encode = msgspec.json.Encoder().encode
_value, _base64, _key, _headers, _priority = map(attrgetter, ("value", "value_base64", "key", "headers", "priority"))
_rest = attrgetter("key", "headers", "priority", "delay", "deliver_at", "ttl", "dedup_id", "partition")
_PLAIN = (None, None, DEFAULT_PRIORITY, None, None, None, None, None)
_OPTIONAL = {
    "delays": attrgetter("delay"),
    "deliver_ats": attrgetter("deliver_at"),
    "ttls": attrgetter("ttl"),
    "dedup_ids": attrgetter("dedup_id"),
    "partitions": attrgetter("partition"),
}


async def publish(call: Call) -> bytes:
    body: PublishBody = call.body
    command = Publish(call.topic, to_columns(body.messages))
    if not body.wait:
        return _encode(to_placements([await call.link.publish(command)]))
    wait_ms = 0 if call.services.is_closing else round(body.wait * 1000)
    publishing = call.link.publish_or_wait(command, wait_ms, call.share, call.share.bytes)
    placed = await call.services.wait_for(call, publishing, _stays)
    if placed is None:  # the door closes: one last try, without waiting
        placed = await call.link.publish(command)
    return _encode(to_placements([placed]))


async def _stays(placed: Placed) -> None:
    """What was published for a client that left stays published."""


def to_columns(messages: Sequence[NewMessage]) -> Outgoing:
    values, json = _values(messages)
    if list(map(_rest, messages)).count(_PLAIN) == len(messages):  # nothing but values: look no further
        outgoing = Outgoing(values, json=json)
    else:
        columns: dict[str, list[Any]] = {name: list(map(get, messages)) for name, get in _OPTIONAL.items()}
        outgoing = Outgoing(
            values,
            keys=_used(list(map(_key, messages))),
            headers=_used(list(map(_headers, messages))),
            priorities=_priorities(list(map(_priority, messages))),
            json=json,
            **{name: column for name, column in columns.items() if _used(column)},
        )
    check_outgoing(outgoing)
    return outgoing


def _values(messages: Sequence[NewMessage]) -> tuple[list[bytes], list[bool] | None]:
    raws = list(map(_value, messages))
    binaries = list(map(_base64, messages))
    if UNSET not in raws and binaries.count(UNSET) == len(binaries):
        return list(map(bytes, raws)), [True] * len(raws)
    for at, (raw, binary) in enumerate(zip(raws, binaries, strict=True)):
        if (raw is UNSET) == (binary is UNSET):
            raise InvalidError(f"give value or value_base64, one of them - at `$.messages[{at}]`")
    json = [raw is not UNSET for raw in raws]
    values = [binary if raw is UNSET else bytes(raw) for raw, binary in zip(raws, binaries, strict=True)]
    return values, json if any(json) else None


def _used(column: list[Any]) -> list[Any] | None:
    return None if column.count(None) == len(column) else column


def _priorities(raw: list[int | str]) -> list[int] | None:
    if raw.count(DEFAULT_PRIORITY) == len(raw):
        return None
    return [PRIORITY_NAMES[priority] if isinstance(priority, str) else priority for priority in raw]


def to_placements(batches: Sequence[Placed]) -> Placements:
    results: list[Placement] = []
    for placed in batches:
        count = len(placed.offsets)
        if placed.topics is None and placed.partitions.count(placed.partitions[0]) == count:  # all in one place
            prefix = f"{placed.topic}.{placed.partitions[0]}."
            ids = [f"{prefix}{offset}" for offset in placed.offsets]
        elif placed.topics is None:
            ids = [f"{placed.topic}.{p}.{o}" for p, o in zip(placed.partitions, placed.offsets, strict=True)]
        else:
            rows = zip(placed.topics, placed.partitions, placed.offsets, strict=True)
            ids = [f"{topic}.{partition}.{offset}" for topic, partition, offset in rows]
        duplicates = placed.duplicates or [False] * count
        results += map(Placement, ids, placed.partitions, placed.offsets, duplicates)
    return Placements(results)
