"""What a client says, done in its name, and what it is answered."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.gate import Gate
from ortoo.dialects import ids
from ortoo.dialects.callers import namespace_of
from ortoo.model.commands import CreateTopic, DeleteGroup, DeleteTopic, Leave, Outcome, Publish, SettleById
from ortoo.model.errors import (
    ExistsError,
    ForbiddenError,
    FullError,
    InvalidError,
    NotFoundError,
    OrtooError,
    TooManyError,
    UnauthenticatedError,
)
from ortoo.model.names import DEFAULT_GROUP, MessageRef, TopicName
from ortoo.model.queries import GetStats, ListTopics
from ortoo.model.replies import IdState, Placed

from .lines import Line
from .messages import to_outgoing
from .places import CONFIGS, Kind, find_place, is_topic, names_of
from .subscriptions import Reader, Subscription

SUBSCRIPTIONS_MAX = 100  # of one connection
_UNAUTHORIZED = "unauthorized"

log = logging.getLogger("ortoo.gomq")
_encode = msgspec.json.Encoder().encode


class Conversation:
    """`link` is there once the client was let in."""

    def __init__(
        self, gate: Gate, reader: Reader, admit: Callable[[str | None], AuthorizedLink], present: Counter[str]
    ) -> None:
        """`present`: how many clients of this door are in which namespace."""
        self._gate = gate
        self._reader = reader
        self._admit = admit
        self._present = present
        self._link: AuthorizedLink | None = None
        self._consumer = f"gomq-{uuid4().hex}"
        self._subscriptions: dict[tuple[str, str], Subscription] = {}  # by kind and name
        self._unsettled: dict[Subscription, None] = {}  # begun or ended in part: a connection may go at any moment
        self._left: dict[
            TopicName, None
        ] = {}  # queues without a subscription any more, whose messages may still be acked

    @property
    def is_subscribed(self) -> bool:
        return bool(self._subscriptions)

    def enter(self) -> None:
        """For who needs no token, or has shown a certificate."""
        self._connect(self._admit(None))

    async def answer(self, said: list[Line]) -> list[bytes]:
        """A line for each. Several are of the same kind, for the same queue or topic: they are done together."""
        first = said[0]
        try:
            if first.verb == "PUBLISH":
                return await self._publish(said)
            if first.verb in ("ACK", "NACK"):
                return await self._settle(said)
            return [_line("OK", await _DO[first.verb](self, first))] if first.verb != "PING" else [b"PONG\n"]
        except OrtooError as error:
            if len(said) == 1 or not isinstance(error, InvalidError | FullError):
                return [error_line(error)] * len(said)
        except Exception:  # a mistake of ours must not take the connection with it
            log.exception("a command failed: %s", first.verb)
            return [b"ERROR the server failed; its log tells more\n"] * len(said)
        return [
            line for one in said for line in await self.answer([one])
        ]  # nothing was done: each by itself, as it may be one of them

    @property
    def link(self) -> AuthorizedLink:
        if self._link is None:
            raise UnauthenticatedError(_UNAUTHORIZED)
        return self._link

    async def _auth(self, said: Line) -> str:
        link = self._admit(said.words[0])
        self.disconnect()
        self._connect(link)  # at once: the connection may go while what the other one holds goes back
        await self.leave()
        return "authenticated"

    async def _quit(self, said: Line) -> str:
        return "goodbye"

    # -- publishing and settling

    async def _publish(self, said: list[Line]) -> list[bytes]:
        place, link = find_place(self.link, said[0].words[1]), self.link
        if not all(one.rest.strip() for one in said):
            raise InvalidError("missing required parameter")
        outgoing = to_outgoing([one.rest for one in said])
        await link.ensure_topic(place, CONFIGS[_kind(said[0])])
        placed: Placed = await link.publish(Publish(place, outgoing))
        refs = map(MessageRef, [placed.topic] * len(said), placed.partitions, placed.offsets)
        return [_line("OK", ids.to_uuid(ref)) for ref in refs]

    async def _settle(self, said: list[Line]) -> list[bytes]:
        first, link = said[0], self.link
        done = "acknowledged" if first.verb == "ACK" else "nacked"
        place = find_place(link, first.words[0])
        if is_topic(link, place):
            return [_line("OK", done)] * len(said)  # what a topic delivers is acked already
        refs = [ids.from_uuid(one.words[1]) for one in said]
        known = [ref for ref in refs if ref is not None]
        states: dict[MessageRef, IdState] = {}
        if known:
            command = SettleById(_outcome(first), list(known), DEFAULT_GROUP, place.namespace, place.name)
            states = dict(zip(known, await link.call(command), strict=True))
        for ref in known:
            self._tell_settled(place, ref)
        return [_settled(ref and states[ref], done) for ref in refs]

    def _tell_settled(self, place: TopicName, ref: MessageRef) -> None:
        for subscription in self._subscriptions.values():
            if subscription.place == place:
                subscription.settled(ref)

    # -- subscriptions

    async def _subscribe(self, said: Line) -> str:
        kind, name = _kind(said), said.words[1]
        if (kind, name) in self._subscriptions:
            raise ExistsError(f"already subscribed to {kind}")
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            raise TooManyError(f"a connection has at most {SUBSCRIPTIONS_MAX} subscriptions; open another")
        link = self.link
        place = find_place(link, name)
        if link.find_topic(place) is None:
            try:
                await link.ensure_topic(place, CONFIGS[kind])
            except ForbiddenError:
                raise NotFoundError(f"{kind} not found: {name}") from None
            if link.find_topic(place) is None:
                raise NotFoundError(f"{kind} not found: {name}")
        subscription = Subscription(link, self._reader, kind, name, place, self._consumer)
        self._unsettled[subscription] = None
        try:
            await subscription.open()
        except OrtooError:
            await self._end(subscription)
            raise
        subscription.is_noted = self._gate.presence.came(link.who(self._consumer), (place, subscription.group))
        subscription.task = asyncio.create_task(self._deliver((kind, name), subscription))
        self._subscriptions[kind, name] = subscription
        del self._unsettled[subscription]
        return "subscribed"

    async def _deliver(self, key: tuple[str, str], subscription: Subscription) -> None:
        try:
            await subscription.run()
        except OrtooError as error:
            self._reader.send(error_line(error))
        except Exception:  # as above
            log.exception("a subscription failed")
            self._reader.send(b"ERROR the server failed; its log tells more\n")
        if self._subscriptions.get(key) is subscription:
            del self._subscriptions[key]
            await self._end(subscription)

    async def _unsubscribe(self, said: Line) -> str:
        """What was delivered may still be acked."""
        subscription = self._subscriptions.pop((said.words[0], said.words[1]), None)
        if subscription is None:
            raise NotFoundError(f"not subscribed to {said.words[0]}")
        if subscription.is_shared and len(self._left) < SUBSCRIPTIONS_MAX:
            self._left[subscription.place] = None
            await self._end(subscription, leaves=False)
        else:
            await self._end(subscription)
        return "unsubscribed"

    async def _end(self, subscription: Subscription, *, leaves: bool = True) -> None:
        """What it holds goes back when it leaves, and a group of its own goes. What is cut off in the middle is done again."""
        self._unsettled[subscription] = None
        task = subscription.task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait((task,))
        if subscription.is_noted:
            subscription.is_noted = False
            self._gate.presence.ended(subscription.link.who(self._consumer), (subscription.place, subscription.group))
        if leaves:
            await self._leave(subscription.place, subscription.group)
        self._unsettled.pop(subscription, None)

    async def _leave(self, place: TopicName, group: str) -> None:
        """In the server's name: the client's token may have ended. A group that nobody has joined yet would stay for a while."""
        is_shared = group == DEFAULT_GROUP
        command = Leave(self._consumer, place, group) if is_shared else DeleteGroup(place, group)
        try:
            await self._gate.host().call(command)
        except OrtooError:
            pass  # the topic is gone, or the queue; then there is nothing to leave

    async def leave(self) -> None:
        """All that was delivered and not settled goes back."""
        while self._subscriptions:
            _, subscription = self._subscriptions.popitem()
            await self._end(subscription)
        while self._unsettled:
            await self._end(next(iter(self._unsettled)))
        while self._left:
            place = next(iter(self._left))
            await self._leave(place, DEFAULT_GROUP)
            self._left.pop(place, None)

    def _connect(self, link: AuthorizedLink) -> None:
        self._link = link
        self._present[namespace_of(link)] += 1

    def disconnect(self) -> None:
        if self._link is None:
            return
        namespace = namespace_of(self._link)
        self._present[namespace] -= 1
        if not self._present[namespace]:
            del self._present[namespace]
        self._link.disconnect()
        self._link = None

    # -- queues and topics

    async def _create(self, said: Line) -> str:
        kind = _kind_of_verb(said.verb)
        place = find_place(self.link, said.words[0])
        try:
            await self.link.call(CreateTopic(place, CONFIGS[kind]))
        except ExistsError:
            raise ExistsError(f"{kind} already exists: {said.words[0]}") from None
        return f"{kind} created"

    async def _delete(self, said: Line) -> str:
        kind = _kind_of_verb(said.verb)
        try:
            await self.link.call(DeleteTopic(find_place(self.link, said.words[0])))
        except NotFoundError:
            raise NotFoundError(f"{kind} not found: {said.words[0]}") from None
        return f"{kind} deleted"

    async def _list(self, said: Line) -> str:
        kind: Kind = "queue" if said.verb == "LIST_QUEUES" else "topic"
        return _encode(names_of(kind, await self._infos())).decode()

    async def _infos(self) -> Any:
        return await self.link.ask(ListTopics(namespace_of(self.link)))

    async def _stats(self, said: Line) -> str:
        infos, stats = await self._infos(), await self.link.ask(GetStats())
        counters = stats.counters
        return _encode(
            {
                "queues": len(names_of("queue", infos)),
                "topics": len(names_of("topic", infos)),
                "connections": self._present[namespace_of(self.link)],
                "messages": stats.depth,
                "published": counters.published,
                "delivered": counters.delivered,
                "acknowledged": counters.acked,
                "nacked": counters.retried,
                "dead_lettered": counters.dead_lettered,
                "expired": counters.dropped,
            }
        ).decode()


_DO: dict[str, Callable[[Conversation, Line], Any]] = {
    "AUTH": Conversation._auth,
    "QUIT": Conversation._quit,
    "SUBSCRIBE": Conversation._subscribe,
    "UNSUBSCRIBE": Conversation._unsubscribe,
    "CREATE_QUEUE": Conversation._create,
    "CREATE_TOPIC": Conversation._create,
    "DELETE_QUEUE": Conversation._delete,
    "DELETE_TOPIC": Conversation._delete,
    "LIST_QUEUES": Conversation._list,
    "LIST_TOPICS": Conversation._list,
    "STATS": Conversation._stats,
}


def _kind(said: Line) -> Kind:
    return "queue" if said.words[0] == "queue" else "topic"


def _kind_of_verb(verb: str) -> Kind:
    return "queue" if verb.endswith("QUEUE") else "topic"


def _outcome(said: Line) -> Outcome:
    """A nack is tried again, unless it says that it shall not."""
    if said.verb == "ACK":
        return "ack"
    requeue = said.rest.strip().lower()
    if requeue not in (b"", b"true", b"false"):
        raise InvalidError("invalid parameter: requeue is true or false")
    return "reject" if requeue == b"false" else "nack"


def _settled(state: IdState | None, done: str) -> bytes:
    if state in ("settled", "done"):
        return _line("OK", done)
    return b"ERROR message not found\n" if state != "lost" else b"ERROR message is not in flight any more\n"


def _line(first: str, rest: str) -> bytes:
    return f"{first} {rest}\n".encode()


def error_line(error: OrtooError) -> bytes:
    words = str(error)
    if isinstance(error, UnauthenticatedError):
        words = _UNAUTHORIZED
    elif isinstance(error, FullError):
        words = f"queue is full: {words}"
    return f"ERROR {' '.join(words.split())}\n".encode(errors="replace")
