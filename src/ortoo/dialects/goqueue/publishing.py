"""Publishing: in batches, one with its value in base64, and whatever its load tests send.

What is wrong with one message is told in its place, and the others are published, as GoQueue does.
"""

from __future__ import annotations

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Sequence
from operator import attrgetter
from time import time
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text, parse_duration, parse_instant
from ortoo.model import limits
from ortoo.model.batch import Outgoing, check_outgoing
from ortoo.model.commands import Publish
from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicName
from ortoo.model.replies import Placed
from ortoo.model.topic import DEFAULT_PRIORITY
from ortoo.model.validation import in_words

from . import priorities
from .settings import DEFAULT
from .shapes import NewMessage, PublishBody, Published

_encode = msgspec.json.Encoder().encode
_value, _key = attrgetter("value"), attrgetter("key")
_PER_TURN = 500  # messages that are looked at one by one
_NORMAL = priorities.name_of(DEFAULT_PRIORITY)


class _Row(msgspec.Struct, gc=False):
    """A message that can be published, as columns want it."""

    value: bytes
    key: str | None
    partition: int | None
    delay: float | None
    deliver_at: float | None
    priority: int
    headers: dict[str, str] | None


class _Either(msgspec.Struct):
    """A batch, one message, or anything else."""

    messages: list[NewMessage] | UnsetType = UNSET
    value: Raw | UnsetType = UNSET


_read_either = msgspec.json.Decoder(_Either).decode
_read_one = msgspec.json.Decoder(NewMessage).decode


async def publish(call: Call) -> bytes:
    body: PublishBody = call.body
    return await _publish_all(call, body.messages)


async def _publish_all(call: Call, messages: Sequence[NewMessage]) -> bytes:
    if not messages:
        raise InvalidError("at least one message is required")
    if (batch := _plain_batch(messages)) is not None:
        placed = await _publish(call, batch)
        count = len(placed.offsets)
        return _encode({"results": list(map(Published, placed.partitions, placed.offsets, [_NORMAL] * count))})
    rows: list[_Row | str] = []
    for message in messages:
        rows.append(_try_row(message))
        await _pause(len(rows))
    good = [row for row in rows if isinstance(row, _Row)]
    placed = await _publish(call, _to_batch(good)) if good else Placed(0, [], [])  # type: ignore[arg-type] # nowhere
    places = zip(placed.partitions, placed.offsets, strict=True)
    results: list[Published] = []
    for row in rows:
        results.append(Published(0, 0, error=row) if isinstance(row, str) else _result(row, *next(places)))
        await _pause(len(results))
    return _encode({"results": results})


async def _pause(done: int) -> None:
    """Now and then, so that others get their turns."""
    if done % _PER_TURN == 0:
        await asyncio.sleep(0)


def _plain_batch(messages: Sequence[NewMessage]) -> Outgoing | None:
    """Nothing but values and keys, as mostly: column by column."""
    are_plain = [
        one.partition is None
        and one.delay is None
        and one.deliver_at is None
        and one.priority is None
        and one.headers is None
        for one in messages
    ]
    if not all(are_plain):
        return None
    keys = [key or None for key in found] if any(found := list(map(_key, messages))) else None
    try:
        batch = Outgoing(list(map(str.encode, map(_value, messages))), keys)
        check_outgoing(batch)
    except (InvalidError, UnicodeEncodeError):
        return None  # message by message, to tell which
    return batch


def _try_row(message: NewMessage) -> _Row | str:
    """What is wrong with it, where something is."""
    try:
        return _to_row(message, _to_bytes(message.value))
    except InvalidError as error:
        return str(error)


def _to_bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidError("value is not valid Unicode") from None


def _to_row(message: NewMessage, value: bytes) -> _Row:
    delay = deliver_at = None
    if message.delay is not None and message.delay != "":
        delay = parse_duration("delay", str(message.delay))
    elif message.deliver_at:
        deliver_at = parse_instant("deliverAt", message.deliver_at)
    partition = message.partition if message.partition is not None and message.partition >= 0 else None
    row = _Row(
        value, message.key or None, partition, delay, deliver_at, priorities.parse(message.priority), message.headers
    )
    check_outgoing(_to_batch([row]))
    return row


def _to_batch(rows: list[_Row]) -> Outgoing:
    def column(name: str) -> Any:
        found = [getattr(row, name) for row in rows]
        return None if found.count(None) == len(found) else found

    return Outgoing(
        [row.value for row in rows],
        keys=column("key"),
        headers=column("headers"),
        priorities=column("priority"),
        delays=column("delay"),
        deliver_ats=column("deliver_at"),
        partitions=column("partition"),
    )


def _result(row: _Row, partition: int, offset: int) -> Published:
    now = time()
    at = row.deliver_at if row.delay is None else now + row.delay
    if at is None or at <= now:
        return Published(partition, offset, priorities.name_of(row.priority))
    told = instant_text(round(at * 1000), digits=0)
    return Published(partition, offset, priorities.name_of(row.priority), True, told)


async def _publish(call: Call, batch: Outgoing) -> Placed:
    topic = TopicName(namespace_of(call.link), call.params["topic"])
    await call.link.ensure_topic(topic, DEFAULT)
    return await call.link.publish(Publish(topic, batch))


# -- single ones


async def publish_one(call: Call) -> Published:
    """The value is base64."""
    body: NewMessage = call.body
    try:
        value = b64decode(body.value, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidError("value must be base64; /topics/TOPIC/messages takes text") from None
    return await _publish_one(call, _to_row(body, value))


async def _publish_one(call: Call, row: _Row) -> Published:
    placed = await _publish(call, _to_batch([row]))
    return _result(row, placed.partitions[0], placed.offsets[0])


async def publish_anything(call: Call) -> bytes:
    """A batch; or one message, as in a batch; or any other object, which is the value of a message."""
    body = bytes(call.body)
    try:
        either = _read_either(body)
        if either.messages is not UNSET:
            if len(either.messages) > limits.BATCH_MESSAGES_MAX:
                raise InvalidError(f"a batch has at most {limits.BATCH_MESSAGES_MAX} messages")
            return await _publish_all(call, either.messages)
        if either.value is not UNSET:
            one = _read_one(body)
            return _encode(await _publish_one(call, _to_row(one, _to_bytes(one.value))))
    except msgspec.DecodeError as error:
        raise InvalidError(in_words(error, "the body")) from None
    placed = await _publish(call, Outgoing([body], json=[True]))
    return _encode(Published(placed.partitions[0], placed.offsets[0], _NORMAL))
