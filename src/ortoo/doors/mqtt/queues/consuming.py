"""The subscriptions of one client to queues: each leases messages for its group, and settles them as the client says.

A client of MQTT 5 settles by publishing to `$queue/NAME/$ack`, `$nack` or `$reject`; PUBACK only tells that it has the message.
PUBACK settles for older clients, who cannot say more, for a queue that captures ordinary topics, and where the subscription asks
for it with the user property `ack-mode: puback`. Then leases are extended for as long as the client is connected, because MQTT
does not send a message again before that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Final, Protocol

from ortoo.broker.authorized import AuthorizedLink, FoundTopic
from ortoo.doors.mqtt.parts import Job
from ortoo.doors.mqtt.refusals import code_of
from ortoo.doors.mqtt.rules.messages import Delivery, PlainRun
from ortoo.doors.mqtt.rules.state import Ref, Subscribed
from ortoo.doors.mqtt.services import Services
from ortoo.doors.mqtt.source import Given, Source
from ortoo.doors.mqtt.storage import hash_of
from ortoo.doors.mqtt.wire.codes import FAILURE, V5, Code
from ortoo.doors.mqtt.wire.topics import parse_filter
from ortoo.model import limits
from ortoo.model.commands import END, START, CreateGroup, Lease, Run, Settle
from ortoo.model.errors import ExistsError, InvalidError, NotFoundError, OrtooError
from ortoo.model.names import GroupId, TopicName, check_name

from .messages import Renderer, message_id_of
from .names import QueueFilter, default_group, parse_queue_filter

_log = logging.getLogger("ortoo.mqtt")

GROUP: Final = "consumer-group"
_LEASE_SECONDS_MIN: Final = 30.0
_UNSETTLED_MAX: Final = 1_000  # messages of one subscription that the client has and has not settled
_CONSUMER_PREFIX: Final = "mqtt-"


class Consumer(Protocol):
    """What it needs of the client."""

    id: str
    services: Services
    namespace_name: str
    link: AuthorizedLink | None

    @property
    def version(self) -> int: ...
    @property
    def credit(self) -> int: ...

    def deliver_leased(self, deliveries: list[Delivery]) -> None: ...
    def deliver_run(self, run: PlainRun) -> bool: ...
    def forget(self, ref: Ref) -> None: ...
    async def capture(self, filter: QueueFilter) -> None: ...


class QueueSubscription:
    def __init__(
        self,
        client: Consumer,
        filter: QueueFilter,
        subscribed: Subscribed,
        found: FoundTopic,
        group_id: GroupId | None,
        consumer: str,
    ) -> None:
        user = dict(subscribed.user)
        self._before, self._after = f"{found.id}.", f"@{group_id}:"
        self.topic = TopicName(client.namespace_name, filter.name)
        self.group = group_of(filter, user, client.id)
        self.is_settled_by_puback = (
            client.version != V5 or filter.captured is not None or user.get("ack-mode") == "puback"
        )
        lease_seconds = found.config.lease
        if self.is_settled_by_puback:  # it is extended once in a while, for as long as the client is there
            lease_seconds = max(lease_seconds, _LEASE_SECONDS_MIN)
        self._client = client
        self._subscribed = subscribed
        assert client.link is not None
        is_named = self.is_settled_by_puback or subscribed.options.qos == 2
        self._renderer = Renderer(
            filter.shown,
            subscribed.options.qos,
            () if subscribed.id is None else (subscribed.id,),
            is_named=is_named,
        )
        lease = Lease(
            topic=filter.name,
            namespace=self.topic.namespace,
            group=self.group,
            consumer=consumer,
            lease_ms=round(lease_seconds * 1000) if self.is_settled_by_puback else None,
        )
        self.source = Source(
            client.link,
            lease,
            credit=self._credit,
            give=self._give,
            to_refs=self._renderer.refs,
            id_of=message_id_of if is_named else None,
            lease_seconds=lease_seconds,
        )
        self._look_at = monotonic() + lease_seconds / 3

    def is_own(self, ref: Ref) -> bool:
        """Whether it is that of a delivery to this group: a message may be under way to several."""
        return isinstance(ref, str) and ref.startswith(self._before) and self._after in ref

    def is_same(self, filter: QueueFilter, subscribed: Subscribed) -> bool:
        """Whether nothing changes with it: what is under way stays so."""
        return self.topic.name == filter.name and self._subscribed == subscribed

    def resume(self, again: list[str]) -> None:
        """Begins, with what was under way when the last connection ended."""
        self._renderer.expect(again)
        self.source.start(again, self._client.forget)

    def _give(self, given: Given) -> None:
        """What needs to be rendered one by one, or the client cannot take at once, goes on as deliveries, in the same order."""
        deliveries: list[Delivery] = []
        for run, refs in given:
            plain = None if deliveries else self._renderer.run(run, refs)
            if plain is None or not self._client.deliver_run(plain):
                deliveries += self._renderer.deliveries(run, refs)
        self._client.deliver_leased(deliveries)

    def _credit(self) -> int:
        return min(self._client.credit, _UNSETTLED_MAX - len(self.source.held))

    async def tick(self) -> None:
        now = monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self.source.lease_seconds / 3
        if self.is_settled_by_puback:
            await self.source.extend()
        else:
            self.source.prune()


class QueueSubscriptions:
    def __init__(self, client: Consumer) -> None:
        self._client = client
        self.by_filter: dict[str, QueueSubscription] = {}
        self._changing = asyncio.Lock()  # one change after the other: what is replaced has to be stopped first

    def take(self, topic: TopicName, group: str | None, ids: Iterable[Ref]) -> tuple[list[Run], list[Ref]]:
        """What settles those of these messages that they hold, of any group where none is named; and the others."""
        runs: list[Run] = []
        others = list(ids)
        for each in self.by_filter.values():
            if others and each.topic == topic and group in (None, each.group):
                some, others = each.source.take_all(others)
                runs += some
        return runs, others

    def group_for(self, topic: TopicName) -> str:
        """Of whoever settles messages of this queue that it does not hold."""
        found = next((each for each in self.by_filter.values() if each.topic == topic), None)
        return default_group(self._client.id) if found is None else found.group

    def holding(self, ref: Ref) -> QueueSubscription | None:
        return next((each for each in self.by_filter.values() if each.is_own(ref) and each.source.holds(ref)), None)

    async def subscribe(self, filter: QueueFilter, subscribed: Subscribed) -> int:
        """The QoS that is granted, or why it is not."""
        if subscribed.options.qos == 0:
            return Code.IMPLEMENTATION_SPECIFIC  # messages that nobody answers for would be lost
        async with self._changing:
            known = self.by_filter.get(subscribed.options.filter)
            if known is not None and known.is_same(filter, subscribed):
                return subscribed.options.qos
            try:
                made = await self._make(filter, subscribed)
            except OrtooError as error:
                _log.info("a subscription to a queue was refused", extra={"queue": filter.name, "error": str(error)})
                is_wrong = isinstance(error, InvalidError | NotFoundError)
                return Code.TOPIC_FILTER_INVALID if is_wrong else code_of(error)
            await self._replace(subscribed.options.filter, made)
            made.source.start()
        return subscribed.options.qos

    async def _make(self, filter: QueueFilter, subscribed: Subscribed) -> QueueSubscription:
        client = self._client
        user = dict(subscribed.user)
        topic, group = TopicName(client.namespace_name, filter.name), group_of(filter, user, client.id)
        assert client.link is not None
        client.link.require("read", topic)
        found = await client.services.ensure_queue(topic)
        if found is None:
            raise NotFoundError(f"there is no queue {filter.name!r}, and queues are not made by first use here")
        if user.get("start", "all") not in ("all", "new"):
            raise InvalidError("the user property start is all or new")
        try:
            await client.link.call(CreateGroup(topic, group, END if user.get("start") == "new" else START))
        except ExistsError:
            pass  # it goes on where it is
        if filter.captured is not None:
            await client.capture(filter)
        group_id = client.link.group_id(topic, group)
        return QueueSubscription(client, filter, subscribed, found, group_id, self._consumer(subscribed.options.filter))

    def _consumer(self, text: str) -> str:
        """Each subscription is a consumer of its own: what ends with one is not the other's."""
        others = [other for other in self.by_filter if other != text]
        name = consumer_name(self._client.id)
        return name if not others else f"{name[: limits.NAME_BYTES_MAX - 9]}-{hash_of(text)[:8]}"

    async def _replace(self, text: str, made: QueueSubscription) -> None:
        old = self.by_filter.pop(text, None)
        if old is not None:
            await old.source.stop()
        self.by_filter[text] = made

    async def resume(self, subscriptions: Iterable[Subscribed], again: Sequence[Ref]) -> None:
        """Those of a session that was kept. What was under way comes again where it can still be had."""
        missing = [str(ref) for ref in again]
        async with self._changing:
            for subscribed in subscriptions:
                filter = parse_queue_filter(parse_filter(subscribed.options.filter))
                if filter is None:
                    continue
                try:
                    made = await self._make(filter, subscribed)
                except OrtooError as error:
                    _log.warning("a client lost its queue", extra={"queue": filter.name, "error": str(error)})
                    continue
                await self._replace(subscribed.options.filter, made)
                mine = [ref for ref in missing if made.is_own(ref)]
                missing = [ref for ref in missing if not made.is_own(ref)]
                made.resume(mine)
        for ref in missing:
            self._client.forget(ref)

    async def unsubscribe(self, text: str) -> None:
        async with self._changing:
            found = self.by_filter.pop(text, None)
            if found is not None:
                await found.source.stop()

    def wake(self) -> None:
        for each in self.by_filter.values():
            each.source.wake()

    def answered(self, ref: Ref, reason: int, job: Job) -> Settle | None:
        """A PUBACK. What settles it is put into the job, unless it fails: that is for the caller to do."""
        found = self.holding(ref)
        if found is None or not found.is_settled_by_puback:
            self.wake()
            return None
        run = found.source.take(ref)
        assert run is not None
        if reason >= FAILURE:
            return Settle("reject", [run], f"the client refused it with 0x{reason:02x}")
        job.acks.append(run)
        return None

    async def tick(self) -> None:
        for each in list(self.by_filter.values()):
            await each.tick()

    async def close(self) -> None:
        async with self._changing:
            subscriptions, self.by_filter = list(self.by_filter.values()), {}
            await asyncio.gather(*(each.source.stop() for each in subscriptions))


def group_of(filter: QueueFilter, user: Mapping[str, str], client_id: str) -> str:
    return check_name("a consumer group", filter.group or user.get(GROUP) or default_group(client_id))


def consumer_name(client_id: str) -> str:
    name = _CONSUMER_PREFIX + client_id
    return name if len(name.encode()) <= limits.NAME_BYTES_MAX else _CONSUMER_PREFIX + hash_of(client_id)
