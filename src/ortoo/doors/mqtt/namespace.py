"""The clients of one namespace, and who of them gets what.

Client identifiers, subscriptions, retained messages and shared groups are each namespace's own: nothing here is seen in another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from ortoo.model.commands import Publish
from ortoo.model.errors import ForbiddenError, InvalidError, OrtooError, TooManyError
from ortoo.model.names import TopicName

from .absences import Absences
from .capturing import Captures
from .client import Client
from .line import Line
from .parts import Job, Part, QueuePart
from .queues.admin import Administration
from .queues.captures import Capture
from .queues.messages import item_of, to_item
from .queues.names import ADMIN_PREFIX, PREFIX, QueueFilter, parse_topic
from .refusals import code_of
from .retained import Retained
from .routing.subscriptions import Match, Recipient, SubscriptionIndex
from .rules.actions import Incoming
from .rules.messages import Delivery, Message, deliver_to, message_of
from .rules.session import Session
from .rules.state import UNNAMED
from .services import Services
from .storage import retained_of
from .turn import Turn
from .wire.codes import V5
from .wire.properties import NONE, Kind, parse

_log = logging.getLogger("ortoo.mqtt")

Subscriber = Client | Capture

_WIDE: Final = 500  # receivers of one message in one turn; the others follow in later turns
_WIDE_BYTES_MAX: Final = 16 * 1024 * 1024  # of messages on their way to very many
_WIDE_OVERHEAD: Final = 1_000  # bytes of one, beside its payload


class Namespace:
    def __init__(self, name: str, services: Services) -> None:
        self.name = name
        self.services = services
        self.clients: dict[str, Client] = {}
        self.index: SubscriptionIndex[Subscriber] = SubscriptionIndex()
        self.retained = Retained(services.settings.max_retained, services.settings.max_retained_bytes)
        self.line = Line(services.storage, self._prepare, services.missed)  # of what no client waits for
        self._absences = Absences(self.clients, services.now)
        self.look_after, self.tick = self._absences.look_after, self._absences.tick
        self._wide: deque[tuple[Message, Match[Subscriber], list[Recipient[Subscriber]], Client | None]] = deque()
        self._wide_bytes = 0
        self._spare: Part | None = None  # nothing was put into it
        self.admin = Administration(services, name, self.publish)
        self.received = 0
        self.captures = Captures(name, services, self.index)
        self._spreading: asyncio.Task[None] | None = None

    @property
    def is_crowded(self) -> bool:
        """More is on its way to very many clients than should be."""
        return self._wide_bytes > _WIDE_BYTES_MAX

    def client(self, client_id: str) -> Client:
        found = self.clients.get(client_id)
        if found is None:
            found = self.clients[client_id] = Client(self, client_id)
        return found

    def forget(self, client: Client) -> None:
        """Unless there is still something to know of it."""
        if client.is_over and self.clients.get(client.id) is client:
            del self.clients[client.id]

    # -- routing

    def incoming(self, client: Client, action: Incoming, turn: Turn, job: Job) -> None:
        """What a client publishes. It is answered at once, or when what is to be durable is so."""
        self.received += 1
        session, ticket, topic = client.session, action.ticket, action.topic
        try:
            if topic[0] == "$":
                if action.publish.qos < 2 and self._join(client, action, job):
                    return
                part = self._special(client, action, turn)
                if part is None:
                    return
            elif not client.rights.is_limited or client.rights.may_publish(topic):
                message = message_of(topic, action.publish, turn.now)
                part = self._spare if self._spare is not None else Part()
                self._spare = None
                if message.retain and not self.retain(message, part) and client.version == V5:
                    raise TooManyError("no more messages can be retained here; publish without the retain flag")
                self.route(message, client, turn, part)
            else:
                raise ForbiddenError(f"this client may not publish to {topic[:100]!r}")
        except OrtooError as error:
            client.session.settled(ticket, code_of(error), str(error)) if ticket else None
            return
        if part:
            if action.publish.qos == 2:
                part.packet_id = action.publish.packet_id
            if ticket:
                part.told = partial(_tell, session, ticket)
            job.parts.append(part)
        else:
            self._spare = part
            if ticket:
                session.settled(ticket)

    def only_subscriber(self, topic: str, is_answered: bool) -> Client | None:
        """Who alone gets what is published there, now and with nothing more to it than sending; None where it is otherwise.
        `is_answered`: at QoS 1, and not at QoS 0."""
        if topic[0] == "$" or self._wide:
            return None
        match = self.index.match(topic)
        if len(match.recipients) != 1 or match.groups:
            return None
        only = match.recipients[0]
        if self._is_special(only) or (is_answered and not only.qos):
            return None
        return only.subscriber  # type: ignore[return-value]  # a capture is kept, and so special

    def _join(self, client: Client, action: Incoming, job: Job) -> bool:
        """Whether it is one of those that are put into a queue together, with the ones before it. InvalidError says what is wrong
        with it."""
        topic, publish = action.topic, action.publish
        last = job.parts[-1] if job.parts else None
        if type(last) is not QueuePart or last.shown != topic:
            if not topic.startswith(PREFIX) or (queue := parse_topic(topic)).control is not None:
                return False
            last = None
            name = TopicName(self.name, queue.name)
        else:
            name = last.topic
        item = None if publish.properties is NONE else item_of(name, publish)
        if last is None:
            last = QueuePart(name, topic, partial(_tell_all, client.session))
            job.parts.append(last)
        if item is None:
            last.add(publish.payload, action.ticket)
        else:
            last.add_item(item, action.ticket)
        return True

    def _special(self, client: Client, action: Incoming, turn: Turn) -> Part | None:
        """What is no ordinary topic. None where the answer comes later."""
        topic, publish = action.topic, action.publish
        if topic.startswith(PREFIX):
            queue = parse_topic(topic)
            name = TopicName(self.name, queue.name)
            if queue.control is not None:
                told = partial(_tell, client.session, action.ticket) if action.ticket else _tell_nobody
                client.settling.add(name, queue.control, publish.properties, told)
                return None
            part = Part()
            part.put(item_of(name, publish))
            return part
        if topic.startswith(ADMIN_PREFIX):
            self._administer(client, action)
            return None
        raise ForbiddenError(f"{topic[:100]!r} is not for clients: topics that begin with $ are the server's own")

    def _administer(self, client: Client, action: Incoming) -> None:
        told = partial(_tell, client.session, action.ticket) if action.ticket else _tell_nobody
        client.start(self.admin.serve(client, action.topic, action.publish, told))

    def route(self, message: Message, sender: Client | None, turn: Turn, part: Part) -> None:
        """Gives it to whoever is there, and puts into `part` what is to be durable. Very many get it in later turns."""
        match = self.index.match(message.topic)
        recipients = match.recipients
        turn.count += len(recipients)
        if len(recipients) > _WIDE or (self._wide and any(waiting[1] is match for waiting in self._wide)):
            self._route_wide(match, message, sender, turn, part)
        elif len(recipients) == 1 and not self._is_special(only := recipients[0]):  # as mostly
            qos = min(message.qos, only.qos)
            turn.give(only.subscriber, Delivery(message, qos, UNNAMED, message.retain and only.retain_as_published))  # type: ignore[arg-type]
        elif recipients:
            self._hand_out(recipients, message, sender, turn, part)
        if match.groups:
            self._hand_out(_picked(match), message, sender, turn, part)

    @staticmethod
    def _is_special(recipient: Recipient[Subscriber]) -> bool:
        """Whether there is more to it than sending the message."""
        return recipient.subscriber.is_kept or bool(recipient.ids) or recipient.no_local

    def _route_wide(
        self, match: Match[Subscriber], message: Message, sender: Client | None, turn: Turn, part: Part
    ) -> None:
        """What is to be durable is so with the rest of the turn; the others wait for theirs."""
        kept = [each for each in match.recipients if _is_stored(each, message)]
        live = [each for each in match.recipients if not _is_stored(each, message)]
        self._hand_out(kept, message, sender, turn, part)
        self._wide.append((message, match, live, sender))
        self._wide_bytes += len(message.payload) + _WIDE_OVERHEAD
        if self._spreading is None:
            self._spreading = asyncio.get_running_loop().create_task(self._spread(), name="ortoo-mqtt-fan-out")

    def _hand_out(
        self,
        recipients: Sequence[Recipient[Subscriber]],
        message: Message,
        sender: Client | None,
        turn: Turn,
        part: Part,
    ) -> None:
        """Those who get the same bytes share one delivery."""
        shared: dict[int, Delivery] = {}
        qos_max, is_retained = message.qos, message.retain
        for recipient in recipients:
            target = recipient.subscriber
            if type(target) is Capture:
                if target.is_configured or self.services.host.find_topic(target.topic) is not None:
                    part.capture(target.to_item(message, turn.now))
                continue
            if recipient.ids or recipient.no_local:
                own = deliver_to(recipient, message, UNNAMED, sender)
                if own is None:
                    continue
                delivery = own
            else:
                qos = min(qos_max, recipient.qos)
                key = qos << 1 | (is_retained and recipient.retain_as_published)
                found = shared.get(key)
                if found is None:
                    found = shared[key] = Delivery(message, qos, UNNAMED, bool(key & 1))
                delivery = found
            if target.is_kept and delivery.qos:
                self._keep(target, message, delivery, turn, part)  # type: ignore[arg-type]
            else:
                turn.give(target, delivery)  # type: ignore[arg-type]

    def _keep(self, client: Client, message: Message, delivery: Delivery, turn: Turn, part: Part) -> None:
        if client.inbox is None or client.inbox.is_full():
            self.services.meters.dropped += 1
            return
        part.put_in(client.inbox, message, delivery, turn.now)

    async def _spread(self) -> None:
        """One after the other, each to some receivers in a turn."""
        try:
            while self._wide:
                message, _, live, sender = self._wide[0]
                for start in range(0, len(live), _WIDE):
                    turn = Turn(self.services.now())
                    self._hand_out(live[start : start + _WIDE], message, sender, turn, Part())
                    turn.end()
                    await asyncio.sleep(0)
                self._wide.popleft()
                self._wide_bytes -= len(message.payload) + _WIDE_OVERHEAD
        finally:
            self._spreading = None

    def publish(self, message: Message, *, is_durable: bool = True) -> None:
        """In nobody's name: what the server itself tells. Nobody waits for it."""
        part = self.compose(message, is_durable=is_durable)
        if part:
            job = Job()
            job.parts.append(part)
            self.line.add(job)

    def compose(self, message: Message, *, is_durable: bool = True) -> Part:
        """The same of a message whose part is yet to be made durable: a will, with the record of its session."""
        turn, part = Turn(self.services.now()), Part()
        if message.topic.startswith(PREFIX):
            self._enqueue(message, part)
        else:
            if message.retain:
                if is_durable:
                    self.retain(message, part)
                else:
                    self.retained.set(message)
            self.route(message, None, turn, part)
        turn.end()
        return part

    def _enqueue(self, message: Message, part: Part) -> None:
        """A will that is for a queue."""
        try:
            queue = parse_topic(message.topic)
            if queue.control is not None:
                raise InvalidError("a will cannot settle messages")
            properties = parse(message.raw, Kind.PUBLISH)
            part.put(to_item(TopicName(self.name, queue.name), message.payload, message.raw, properties, None))
        except OrtooError as error:
            _log.info("a will was not for a queue that there can be", extra={"error": str(error)})

    async def capture(self, filter: QueueFilter) -> None:
        await self.captures.add(filter)

    async def _prepare(self, publishes: list[Publish], captured: list[Publish]) -> list[Publish]:
        return await self.services.prepare(publishes, captured, None)

    # -- retained messages

    def retain(self, message: Message, part: Part) -> bool:
        """False where there is no room for more. What is retained in the end is what was committed last."""
        before = self.retained.get(message.topic)
        if not self.retained.set(message):
            return False
        part.retained = retained_of(self.name, message)
        part.stored = partial(self._retained, message, before)
        return True

    def _retained(self, message: Message, before: Message | None, error: Exception | None) -> None:
        if error is None:
            self.retained.set(message)
        elif self.retained.get(message.topic) is message:
            self.retained.set(before) if before is not None else self.retained.delete(message.topic)

    def expire_retained(self, now: int) -> None:
        """Those whose time is over: they are removed, so that there is room for others."""
        job = Job()
        for topic in self.retained.expire(now):
            part = Part()
            part.retained = retained_of(self.name, Message(topic, b""))
            part.is_wanted = partial(self._is_nothing_retained, topic)
            job.parts.append(part)
        if job:
            self.line.add(job)

    def _is_nothing_retained(self, topic: str) -> bool:
        return self.retained.get(topic) is None


def _tell(session: Session, ticket: int, error: Exception | None) -> None:
    if error is None:
        session.settled(ticket)
    else:
        session.settled(ticket, code_of(error), str(error))


def _tell_all(session: Session, tickets: list[int], error: Exception | None) -> None:
    if error is None:
        session.all_settled(tickets)
        return
    for ticket in tickets:
        if ticket:  # else nobody asked
            _tell(session, ticket, error)


def _tell_nobody(error: Exception | None) -> None:
    pass


def _picked(match: Match[Subscriber]) -> list[Recipient[Subscriber]]:
    """One of each shared group: who is connected, before those who are not and have a session."""
    found = []
    for group in match.groups:
        picked = group.pick(_is_online) or group.pick(_is_kept)
        if picked is not None:
            found.append(picked)
    return found


def _is_stored(recipient: Recipient[Subscriber], message: Message) -> bool:
    """Whether it gets the message from a topic of its own."""
    target = recipient.subscriber
    return target.is_kept and (type(target) is Capture or bool(recipient.qos and message.qos))


def _is_online(subscriber: Subscriber) -> bool:
    return isinstance(subscriber, Client) and subscriber.connection is not None


def _is_kept(subscriber: Subscriber) -> bool:
    return subscriber.is_kept
