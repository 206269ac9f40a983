"""One WebSocket: pushes messages to a client as long as it has credit, and takes what it settles and publishes.

A subscription is a task that leases and sends. What a client says is decided in the order it was said; answers may overtake
each other, and carry the `ref` of what they answer. When the socket ends, its consumers leave: what they hold returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import UNSET, UnsetType
from uvicorn.protocols.utils import ClientDisconnected

from ortoo.broker.addresses import Visit
from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.budget import Share
from ortoo.broker.subscription import Subscription
from ortoo.model.checks import check_command
from ortoo.model.commands import Lease, Publish
from ortoo.model.errors import ExistsError, InvalidError, NotFoundError, OrtooError, TooManyError
from ortoo.model.names import TopicName
from ortoo.model.queries import GetTopic
from ortoo.model.replies import LeasedRun

from . import websocket_messages as said
from .answers import Answer, Refusal, to_problem, unexpected
from .body import parse_body
from .call import Call, HttpServices, Receive
from .leases import STARTS, Action, give_back, settle_receipts
from .looking import Looks
from .messages import encode_runs
from .publishing import to_columns, to_placements
from .shapes import BODY_BYTES_MAX, SettleBody

log = logging.getLogger("ortoo.http")

_SUBSCRIPTIONS_MAX = 1_000
_ROOM_SECONDS = 30.0  # what a client said waits for room among what others said
_AT_ONCE_MAX = 64  # of what a client said, being done; the next is read when one is done


async def upgrade_required(call: Call) -> Answer:
    raise Refusal(426, "this is a WebSocket: connect with ws:// or wss://", [(b"upgrade", b"websocket")])


class PushSubscription:
    """A subscription of this socket."""

    __slots__ = ("command", "subscription", "task")

    def __init__(self, command: Lease, subscription: Subscription) -> None:
        self.command = command
        self.subscription = subscription
        self.task: asyncio.Task[None]


class Session:
    def __init__(
        self,
        services: HttpServices,
        link: AuthorizedLink,
        visit: Visit,
        consumer: str,
        receive: Receive,
        send: Callable[[Any], Any],
    ) -> None:
        self._services = services
        self._link = link
        self._visit = visit
        self._consumer = consumer
        self._receive = receive
        self._send = send
        self._pushed: dict[str, PushSubscription] = {}
        self._consumers: set[tuple[str, TopicName | None, str | None]] = (
            set()
        )  # who consumed what: they leave at the end
        self._doing: set[asyncio.Task[None]] = set()
        self._share = Share(services.gate.budget)
        self._looks = Looks(services, link, self._send_text, self._guarded)

    async def run(self) -> None:
        """Until the client, or the door, ends it."""
        try:
            while (message := await self._receive())["type"] == "websocket.receive":
                text = message.get("text")
                data: bytes = message.get("bytes") or b"" if text is None else text.encode()
                await self._take(data)
        finally:
            await self._end()

    async def _end(self) -> None:
        await self._looks.close()
        tasks = [pushed.task for pushed in self._pushed.values()] + list(self._doing)
        for pushed in self._pushed.values():
            pushed.task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for consumer, topic, group in self._consumers:
            if not self._services.gate.presence.ended(self._link.who(consumer), (topic, group)):
                continue  # it goes on elsewhere under the same name
            await self._link.leave(consumer, topic, group)

    async def _take(self, data: bytes) -> None:
        self._share.take(len(data))
        try:
            if len(data) > BODY_BYTES_MAX:
                await _check_size(data)
            command = await parse_body(said.decode_command, data)
            await self._share.room(_ROOM_SECONDS)
        except OrtooError as error:
            self._share.give_back(len(data))
            await self._tell_error(error)
            return
        # A look that is refused is told of it; a subscription has not begun.
        look = command.id if isinstance(command, said.Watch | said.TailTopic) else UNSET
        task = asyncio.create_task(self._guarded(partial(self._do, command), command.ref, look))
        self._doing.add(task)
        task.add_done_callback(partial(self._done, len(data)))
        if len(self._doing) >= _AT_ONCE_MAX:
            await asyncio.wait(self._doing, return_when=asyncio.FIRST_COMPLETED)

    def _done(self, size: int, task: asyncio.Task[None]) -> None:
        self._doing.discard(task)
        self._share.give_back(size)

    async def _guarded(
        self, work: Callable[[], Coroutine[Any, Any, None]], ref: str | UnsetType = UNSET, id: str | UnsetType = UNSET
    ) -> None:
        """Whatever goes wrong is told; the others go on."""
        try:
            await work()
        except OrtooError as error:
            await self._tell_error(error, ref, id)
        except ClientDisconnected:
            pass
        except Exception:  # a mistake of ours must not take the socket with it
            log.exception("a WebSocket command failed")
            await self._tell(said.to_error(unexpected(), ref, id))

    async def _send_text(self, text: bytes) -> None:
        await self._send({"type": "websocket.send", "text": text.decode()})

    async def _tell(self, told: said.ServerMessage) -> None:
        try:
            await self._send({"type": "websocket.send", "text": said.encode_told(told).decode()})
        except ClientDisconnected:
            pass  # `run` notices by itself

    async def _tell_error(self, error: OrtooError, ref: str | UnsetType = UNSET, id: str | UnsetType = UNSET) -> None:
        await self._tell(said.to_error(to_problem(error), ref, id))

    # -- what a client says

    async def _do(self, command: said.Command) -> None:
        if not isinstance(
            command, said.Grant | said.Unsubscribe | said.Unwatch | said.Untail
        ):  # these are of what is under way
            self._visit.ask()
        match command:
            case said.Subscribe():
                self._subscribe(command)
            case said.Grant():
                self._find(command.id).subscription.grant(command.credit)
            case said.Unsubscribe():
                pushed = self._find(command.id)
                del self._pushed[command.id]
                pushed.task.cancel()
                await asyncio.wait((pushed.task,))
                await self._tell(said.Unsubscribed(ref=command.ref, id=command.id))
            case said.Watch() | said.TailTopic():
                self._looks.begin(command)
            case said.Unwatch() | said.Untail():
                await self._looks.end(command.id)
                ended = said.Unwatched if isinstance(command, said.Unwatch) else said.Untailed
                await self._tell(ended(ref=command.ref, id=command.id))
            case said.PublishTo():
                topic = TopicName(command.namespace, command.topic)
                placed = await self._link.publish(Publish(topic, to_columns(command.messages)))
                await self._tell(said.PublishedMessage(ref=command.ref, results=to_placements([placed]).results))
            case _:
                await self._settle(command)

    async def _settle(self, command: said.Settling) -> None:
        action: Action = command.__struct_config__.tag  # type: ignore[assignment]
        fields = {name: getattr(command, name) for name in command.__struct_fields__ if name != "ref"}
        done = await settle_receipts(self._link, action, SettleBody(**fields))
        await self._tell(said.SettledMessage(ref=command.ref, results=done.results, revoked=done.revoked))

    def _find(self, id: str) -> PushSubscription:
        if id not in self._pushed:
            raise NotFoundError(f"there is no subscription {id!r} on this connection")
        return self._pushed[id]

    # -- pushing

    def _subscribe(self, command: said.Subscribe) -> None:
        if command.id in self._pushed:
            raise ExistsError(f"there is a subscription {command.id!r} already; unsubscribe first, or take another id")
        if len(self._pushed) >= _SUBSCRIPTIONS_MAX or len(self._consumers) >= _SUBSCRIPTIONS_MAX:
            raise TooManyError(f"a connection has at most {_SUBSCRIPTIONS_MAX} subscriptions")
        lease = self._to_lease(command)
        check_command(lease)
        subscription = self._link.subscribe(lease, command.credit, lambda _: self._note_consumer(lease))
        pushed = PushSubscription(lease, subscription)
        self._pushed[command.id] = pushed
        pushed.task = asyncio.create_task(self._guarded(partial(self._push, command, pushed), command.ref, command.id))

    def _to_lease(self, command: said.Subscribe) -> Lease:
        if (command.topic is None) == (command.labels is None):
            raise InvalidError("name a topic to subscribe to, or the labels of several, and not both")
        return Lease(
            topic=command.topic,
            labels=command.labels,
            namespace=command.namespace,
            group=command.group,
            consumer=self._consumer if command.consumer is None else command.consumer,
            max_messages=command.max_messages,
            lease_ms=None if command.lease is None else round(command.lease * 1000),
            partition=command.partition,
            key=command.key,
            auto_ack=command.auto_ack,
            start=STARTS[command.start],
        )

    async def _push(self, command: said.Subscribe, pushed: PushSubscription) -> None:
        lease = pushed.command
        try:
            if lease.topic is not None:
                wanted = GetTopic(TopicName(lease.namespace, lease.topic))
                await self._link.ask(wanted)  # said at once, not with the first credit
            self._link.check_lease(lease)
            await self._tell(said.Subscribed(ref=command.ref, id=command.id))
            while True:
                runs = await pushed.subscription.next()
                if runs:
                    await self._deliver(command.id, pushed, runs)
        finally:
            if self._pushed.get(command.id) is pushed:
                del self._pushed[command.id]

    def _note_consumer(self, lease: Lease) -> None:
        topic: TopicName | None = None
        group: str | None = None
        if lease.consumer != self._consumer and lease.topic is not None:
            topic, group = TopicName(lease.namespace, lease.topic), lease.group
        consumer, presence = (lease.consumer, topic, group), self._services.gate.presence
        if consumer not in self._consumers and presence.came(self._link.who(lease.consumer), (topic, group)):
            self._consumers.add(consumer)

    async def _deliver(self, id: str, pushed: PushSubscription, runs: list[LeasedRun]) -> None:
        try:
            told = await encode_runs(said.encode_told(said.Delivered(id=id, messages=[])), runs)
            await self._send({"type": "websocket.send", "text": told.decode()})
        except (asyncio.CancelledError, ClientDisconnected):
            await give_back(self._link, pushed.command, runs)  # nothing was written: it waited until it could
            raise


async def _check_size(data: bytes) -> None:
    kind: said.Kind = await parse_body(said.decode_kind, data)
    if kind.bytes_max is not None and len(data) > kind.bytes_max:
        raise InvalidError(f"a {kind.type[:20]} has at most {kind.bytes_max} bytes")
