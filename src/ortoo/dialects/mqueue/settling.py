"""Acknowledging items, and those that were given up."""

from __future__ import annotations

import asyncio
from typing import Any

from ortoo.client.dead_letters import DeadLetters
from ortoo.dialects import ids
from ortoo.dialects.rendering import in_parts, write_list
from ortoo.doors.http.answers import Answer, Streaming
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text, to_count
from ortoo.model.commands import DeleteMessage, Outcome, SettleById
from ortoo.model.errors import InvalidError, LeaseLostError, NotFoundError
from ortoo.model.message import Received
from ortoo.model.names import DEFAULT_GROUP, MessageRef, TopicId, TopicName, parse_message_id
from ortoo.model.queries import GetMessage, GetTopic
from ortoo.model.replies import IdState

from .items import NOTHING
from .metadata import deliver_ms_of, from_headers
from .shapes import LIMIT_MAX, DeadItem, NamedItem, TopicQuery, check_place
from .texts import text

_DEAD = "dead"
_DEAD_HEADERS = ("ortoo-origin", "ortoo-group", "ortoo-reason", "ortoo-attempts", "ortoo-error")
_LETTERS_BYTES = 16 * 1024 * 1024  # of payloads that are answered together
_PER_TURN = 50  # topics and errors, each of which is a command
_ID_MAX = (1 << 63) - 1


async def ack(call: Call) -> Answer:
    return await _settle(call, "ack")


async def nack(call: Call) -> Answer:
    return await _settle(call, "nack")


async def _settle(call: Call, outcome: Outcome) -> Answer:
    items: list[NamedItem] = call.body if isinstance(call.body, list) else [call.body]
    if not 1 <= len(items) <= LIMIT_MAX:
        raise InvalidError(f"a request settles 1 to {LIMIT_MAX} items, as many as one dequeue gives, not {len(items)}")
    together: dict[tuple[TopicName, str], list[int]] = {}
    for item in items:
        error = item.error if outcome == "nack" else ""
        together.setdefault((TopicName(item.namespace, item.topic), error), []).append(item.id)
    unknown: list[int] = []
    lost: list[int] = []
    for at, ((topic, error), numbers) in enumerate(together.items()):
        if at % _PER_TURN == _PER_TURN - 1:
            await asyncio.sleep(0)
        found = call.link.find_topic(topic)
        states: list[IdState] = ["unknown"] * len(numbers)
        if found is not None:
            refs = [_ref(found.id, number) for number in numbers]
            states = await call.link.call(
                SettleById(outcome, list(refs), DEFAULT_GROUP, topic.namespace, topic.name, error or None)
            )
        if states.count("settled") == len(states):
            continue
        unknown += [number for number, state in zip(numbers, states, strict=True) if state == "unknown"]
        lost += [number for number, state in zip(numbers, states, strict=True) if state == "lost"]
    if unknown:
        raise NotFoundError(f"Item not found: {_named(unknown)}")
    if lost:
        raise LeaseLostError(f"Lease expired: {_named(lost)}; the item is delivered again", [])
    return text("OK")


def _ref(topic: TopicId, number: int) -> MessageRef:
    """A number that was never given leads nowhere."""
    partition, offset = ids.from_number(number) if 0 < number <= _ID_MAX else (0, _ID_MAX)
    return MessageRef(topic, partition, offset)


def _named(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")


# -- dead letters


async def dead_items(call: Call) -> bytes | Streaming:
    query: TopicQuery = call.query
    check_place(query.namespace, query.topic)
    topic = TopicName(query.namespace, query.topic)
    if call.link.find_topic(topic) is None:
        return NOTHING
    letters, size = DeadLetters(call.link, await call.link.ask(GetTopic(topic))), 0
    found: list[DeadItem] = []
    while len(found) < query.count and size < _LETTERS_BYTES and (some := await letters.take()) is not None:
        for letter in some:
            origin = _origin(letter)
            if origin is not None and size < _LETTERS_BYTES:
                found.append(_dead_item(letter, origin, query))
                size += len(letter.value)
    return write_list(b"", in_parts(found[: query.count], lambda item: len(item.payload)), list) if found else NOTHING


def _origin(letter: Received) -> MessageRef | None:
    """Headers can say anything."""
    try:
        return parse_message_id(letter.headers["ortoo-origin"])
    except InvalidError:
        return None


def _dead_item(letter: Received, origin: MessageRef, query: TopicQuery) -> DeadItem:
    headers = letter.headers
    moved = round(letter.timestamp * 1000)
    when = instant_text(moved)
    own = {name: value for name, value in headers.items() if name not in _DEAD_HEADERS}
    attempts = headers.get("ortoo-attempts", "")
    return DeadItem(
        id=ids.to_number(letter.partition, letter.offset),
        original_id=ids.to_number(origin.partition, origin.offset),
        namespace=query.namespace,
        topic=query.topic,
        idempotency_key=None,
        priority=letter.priority,
        payload=letter.value,
        metadata=from_headers(own),
        deliver_after=instant_text(deliver_ms_of(own, moved)),
        lease_expires_at=None,
        lease_owner=None,
        status=_DEAD,
        retries=to_count(attempts, 0),
        created_at=when,
        updated_at=when,
        last_error=headers.get("ortoo-error") or headers.get("ortoo-reason"),
        moved_at=when,
    )


async def delete_dead_item(call: Call) -> Any:
    item: NamedItem = call.body
    topic = TopicName(item.namespace, item.topic)
    found = call.link.find_topic(topic)
    dlq = None if found is None else call.link.find_topic(found.dlq)
    if found is None or dlq is None:
        raise NotFoundError(f"Item not found: {item.id}")
    letter = _ref(dlq.id, item.id)
    headers = (await call.link.ask(GetMessage(letter))).to_info().message.headers
    if not headers.get("ortoo-origin", "").startswith(f"{found.id}."):
        raise NotFoundError(f"Item not found: {item.id}")  # of another topic whose dead letters are there, too
    await call.link.call(DeleteMessage(letter))
    return text("OK")
