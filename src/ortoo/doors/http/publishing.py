"""Publishing: alone, as a request that waits for its answer, or in a transaction. JSON becomes columns, a batch at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from ortoo.broker.authorized import AuthorizedLink
from ortoo.client import Queue
from ortoo.client.inbox import Inbox
from ortoo.client.settling import to_runs
from ortoo.client.stream import Stream
from ortoo.model.batch import Outgoing, build_outgoing, check_outgoing
from ortoo.model.commands import Abort, Begin, Commit, Publish, Stage, Transact
from ortoo.model.errors import ClosedError, InvalidError, OrtooError, TooManyError
from ortoo.model.message import Message, Received
from ortoo.model.names import TopicName
from ortoo.model.replies import Placed
from ortoo.model.units import to_duration

from .call import Call
from .messages import render
from .raw import to_raw_message
from .shapes import (
    BeginBody,
    CommitBody,
    MessageView,
    NewMessage,
    Placement,
    Placements,
    PublishBody,
    RequestBody,
    StageBody,
    TransactionBody,
    TransactionPublish,
    TransactionView,
)
from .topic_shapes import Affected

INBOXES_MAX = 100
IDLE_SECONDS = 60.0

_encode = msgspec.json.Encoder().encode
_value, _base64 = map(attrgetter, ("value", "value_base64"))


async def publish(call: Call) -> bytes:
    if isinstance(call.body, bytes):
        batch, wait = to_raw_message(call.headers, call.body)
    else:
        batch, wait = to_columns(_listed(call.body)), call.body.wait
    command = Publish(call.topic, batch)
    if not wait:
        return _encode(to_placements([await call.link.publish(command)]))
    wait_ms = 0 if call.services.is_closing else round(wait * 1000)
    publishing = call.link.publish_or_wait(command, wait_ms, call.share, call.share.bytes)
    placed = await call.services.wait_for(call, publishing, _stays)
    if placed is None:  # the door closes: one last try, without waiting
        placed = await call.link.publish(command)
    return _encode(to_placements([placed]))


def _listed(body: PublishBody) -> Sequence[NewMessage]:
    fields = (getattr(body, name) for name in NewMessage.__struct_fields__)
    if body.messages is UNSET:
        if (body.value is UNSET) == (body.value_base64 is UNSET):
            raise InvalidError("give messages, or value or value_base64 of a single one")
        return [body]
    if any(given is not default for given, default in zip(fields, NewMessage.__struct_defaults__, strict=True)):
        raise InvalidError("give messages, or the fields of a single one, not both")
    return body.messages


async def _stays(placed: Placed) -> None:
    """What was published for a client that left stays published."""


def to_columns(messages: Sequence[NewMessage]) -> Outgoing:
    return build_outgoing(messages, *_values(messages))


def _values(messages: Sequence[NewMessage]) -> tuple[list[bytes], list[bool] | None]:
    raws = list(map(_value, messages))
    binaries = list(map(_base64, messages))
    if UNSET not in raws and binaries.count(UNSET) == len(binaries):
        return list(map(bytes, raws)), [True] * len(raws)
    for at, (raw, binary) in enumerate(zip(raws, binaries, strict=True)):
        if (raw is UNSET) == (binary is UNSET):
            raise InvalidError(f"give value or value_base64, one of them (messages[{at}])")
    json = [raw is not UNSET for raw in raws]
    values = [binary if raw is UNSET else bytes(raw) for raw, binary in zip(raws, binaries, strict=True)]
    return values, json if any(json) else None


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


# -- transactions: acks and publishes together, and named ones that several clients fill


def _to_publish(publish: TransactionPublish, namespace: str) -> Publish:
    return Publish(TopicName(publish.namespace or namespace, publish.topic), to_columns(publish.messages))


async def transact(call: Call) -> Placements:
    body: TransactionBody = call.body
    publishes = [_to_publish(publish, call.namespace) for publish in body.publishes]
    placed: list[Placed] = await call.link.call(Transact(to_runs(body.acks), publishes))
    return to_placements(placed)


async def begin(call: Call) -> TransactionView:
    body: BeginBody = call.body
    name = call.params["name"]
    await call.link.call(Begin(name, call.namespace, round(body.timeout * 1000)))
    return TransactionView(name, call.namespace)


async def stage(call: Call) -> None:
    body: StageBody = call.body
    publish = _to_publish(body, call.namespace)
    await call.link.call(Stage(call.params["name"], body.part, publish, call.namespace))


async def commit(call: Call) -> Affected:
    body: CommitBody = call.body
    return Affected(await call.link.call(Commit(call.params["name"], body.parts, call.namespace)))


async def abort(call: Call) -> None:
    await call.link.call(Abort(call.params["name"], call.namespace))


# -- requests; a consumer answers by publishing to the topic that the request's `reply-to` header names


async def request(call: Call) -> MessageView:
    body: RequestBody = call.body
    message = Message(_request_value(body), body.key, body.headers, ttl=max(body.timeout, 0.001))
    call.link.require("write", call.topic)  # before the door makes an inbox for it
    asking = call.services.inboxes.ask(call.link, call.namespace, message, call.params["topic"], body.timeout)
    answer = await call.services.wait_for(call, asking, _is_dropped)
    if answer is None:
        raise ClosedError("the server stops; nobody has answered yet")
    call.link.require("write", call.topic)  # it may have waited for longer than its token lasts
    return render(answer)


def _request_value(body: RequestBody) -> bytes:
    match body.value, body.value_base64:
        case Raw() as raw, value if not isinstance(value, bytes):
            return JsonBytes(bytes(raw))
        case value, bytes(binary) if not isinstance(value, Raw):
            return binary
    raise InvalidError("give value or value_base64, one of them")


async def _is_dropped(answer: Received) -> None:
    """Nobody is there to read it."""


class JsonBytes(bytes):
    """A value that was sent as JSON, to be kept byte for byte."""


class _Asking:
    """The queue as an inbox sees it; what it publishes keeps its JSON as it came."""

    def __init__(self, link: AuthorizedLink, namespace: str) -> None:
        self._link = link
        self._queue = Queue(link, namespace=namespace)

    async def create_topic(self, topic: str, /, **settings: Any) -> Any:
        return await self._queue.create_topic(topic, **settings)

    async def delete_topic(self, topic: str, *, namespace: str) -> None:
        await self._queue.delete_topic(topic, namespace=namespace)

    def consume(self, topic: str, *, auto_ack: bool, namespace: str) -> Stream[Received]:
        return self._queue.consume(topic, auto_ack=auto_ack, namespace=namespace)

    async def publish_many(self, topic: str, messages: list[Message], *, namespace: str) -> None:
        [message] = messages
        assert isinstance(message.value, bytes)
        assert isinstance(message.ttl, float | int | None)
        batch = Outgoing(
            [bytes(message.value)],
            keys=None if message.key is None else [message.key],
            headers=[message.headers],
            ttls=[to_duration(message.ttl)],
            json=[True] if isinstance(message.value, JsonBytes) else None,
        )
        check_outgoing(batch)
        await self._link.publish(Publish(TopicName(namespace, topic), batch))


class _Held:
    """An inbox, and whether it is in use."""

    __slots__ = ("asking", "inbox", "timer")

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.asking = 0
        self.timer: asyncio.TimerHandle | None = None  # runs while nobody asks


class Inboxes:
    """One for each namespace that requests are made in; all callers share it. One that nobody uses any more goes."""

    def __init__(self, link: AuthorizedLink) -> None:
        self._link = link
        self._held: dict[str, _Held] = {}  # those unused come in the order in which they were used last
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, link: AuthorizedLink, namespace: str, message: Message, topic: str, timeout: float) -> Received:
        """The request is the caller's; the inbox is the door's own."""
        held = self._held.pop(namespace, None)
        if held is None:
            self._make_room()
            held = _Held(Inbox(_Asking(self._link, namespace), namespace))
        self._held[namespace] = held
        if held.timer is not None:
            held.timer.cancel()
        held.asking += 1
        try:
            return await held.inbox.ask(message, topic, timeout, _Asking(link, namespace))
        finally:
            held.asking -= 1
            if not held.asking and self._held.get(namespace) is held:
                held.timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._release, namespace)

    def _make_room(self) -> None:
        if len(self._held) < INBOXES_MAX:
            return
        unused = next((namespace for namespace, held in self._held.items() if not held.asking), None)
        if unused is None:
            raise TooManyError(f"requests are under way in {INBOXES_MAX} namespaces already; try again later")
        self._release(unused)

    def _release(self, namespace: str) -> None:
        held = self._held.pop(namespace)
        if held.timer is not None:
            held.timer.cancel()
        task = asyncio.get_running_loop().create_task(_close(held.inbox), name="ortoo-inbox-close")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for namespace in list(self._held):
            self._release(namespace)
        await asyncio.gather(*self._closing)


async def _close(inbox: Inbox) -> None:
    try:
        await inbox.close()
    except OrtooError:
        pass  # the queue is away already, and the inbox with it
