"""The queue: what `ortoo.open` gives."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from uuid import uuid4

from ortoo.model.batch import to_outgoing
from ortoo.model.commands import Begin, Publish
from ortoo.model.errors import ClosedError, InvalidError, OrtooError
from ortoo.model.json_values import Value
from ortoo.model.message import CORRELATION_ID, Message, Received
from ortoo.model.names import DEFAULT_NAMESPACE, TopicName
from ortoo.model.replies import Sent
from ortoo.model.units import Duration, Time

from .arguments import check_number, check_text, to_ms, to_topic_name
from .forking import keep
from .gather import Gatherer
from .inbox import Inbox
from .lazy import SentMessages
from .link import Link
from .tracing import Items, Tracing, active
from .transaction import NamedTransaction, Transaction
from .watching import Watching


class Queue(Watching):
    """Publish, lease and settle messages; administer topics and groups. Use as `async with`, or open() and close()."""

    def __init__(
        self, link: Link, *, namespace: str = DEFAULT_NAMESPACE, consumer: str | None = None, linger: Duration = 0.0
    ) -> None:
        super().__init__(link, namespace, consumer)
        self._linger = check_number("linger", linger)
        self._gatherer = Gatherer(link.publish, self._linger)
        self._inboxes: dict[str, Inbox] = {}  # by namespace

    async def open(self) -> Queue:
        await self._link.open()
        self._gatherer.refusal = None
        return self

    async def close(self) -> None:
        """Finishes what was begun and closes. Leases held stay until they run out, unless released."""
        for inbox in self._inboxes.values():
            try:
                await inbox.close()
            except OrtooError:
                pass  # the queue is away already, and the inbox with it
        self._gatherer.refusal = ClosedError("the queue was closed")  # else it might never be done
        await self._gatherer.drain()
        await self._drain()
        await self._link.close()
        for late in list(self._unconfirmed):
            late.raise_failure()

    def _forked(self) -> None:
        """In a child process: what was under way is the parent's."""
        super()._forked()
        keep(self._gatherer, *self._inboxes.values())
        self._gatherer = Gatherer(self._link.publish, self._linger)
        self._inboxes = {}

    async def __aenter__(self) -> Queue:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- publishing

    async def publish(
        self,
        topic: str,
        value: Value,
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        priority: int | str = 5,
        delay: Duration | None = None,
        deliver_at: Time | None = None,
        ttl: Duration | None = None,
        dedup_id: str | None = None,
        partition: int | None = None,
        wait: Duration = 0.0,
        namespace: str | None = None,
    ) -> Sent:
        """Publishes one message; returns once it is durable. Concurrent calls are gathered into one batch.

        `priority`: lower is sooner (or "high", "normal", "low"). `delay` and `ttl` are seconds or timedeltas, `deliver_at`
        seconds since the epoch or a datetime. `dedup_id`: a second publish with it answers the first one's id. `wait`:
        seconds to wait for room in a topic that has reached its max_depth.
        """
        message = Message(value, key, headers, priority, delay, deliver_at, ttl, dedup_id, partition)
        if wait:
            return (await self.publish_many(topic, [message], wait=wait, namespace=namespace))[0]
        name = to_topic_name(namespace or self.namespace, topic)
        tracing = active(self._tracing)
        if tracing is None:
            return await self._gatherer.add(name, message)
        return (await self._publish_traced(tracing, name, [message], 0))[0]

    async def publish_many(
        self,
        topic: str,
        messages: Sequence[Message | Value],
        *,
        wait: Duration = 0.0,
        namespace: str | None = None,
    ) -> SentMessages:
        """Publishes a batch of messages, or of bare values, all or nothing; returns once it is durable.

        Concurrent calls are gathered, as with `publish`.
        """
        name = to_topic_name(namespace or self.namespace, topic)
        wait_ms = to_ms("wait", check_number("wait", wait))
        if wait_ms < 0:
            raise InvalidError(f"wait must be 0 seconds or more, not {wait}")
        tracing = active(self._tracing)
        if tracing is None:
            return await self._publish(name, messages, wait_ms)
        return await self._publish_traced(tracing, name, messages, wait_ms)

    async def _publish(self, topic: TopicName, messages: Items, wait_ms: int) -> SentMessages:
        batch = to_outgoing(messages)
        if wait_ms == 0:
            return await self._gatherer.add_many(topic, batch)
        return SentMessages(await self._link.publish(Publish(topic, batch), wait_ms))

    async def _publish_traced(self, tracing: Tracing, topic: TopicName, messages: Items, wait_ms: int) -> SentMessages:
        with tracing.publishing(topic, messages) as publishing:
            return publishing.told(await self._publish(topic, publishing.messages, wait_ms))

    def transaction(self, *, namespace: str | None = None) -> Transaction:
        """`async with queue.transaction() as tx:` acks and publishes together, or not at all."""
        return Transaction(self._link, check_text("a namespace", namespace or self.namespace), self._tracing)

    async def begin(
        self, name: str, *, part: str | None = None, timeout: Duration = 3600.0, namespace: str | None = None
    ) -> NamedTransaction:
        """Opens, or joins, a named transaction. `part` names this contributor; a commit may choose among parts."""
        transaction = self.named(name, part=part, namespace=namespace)
        await self._link.call(Begin(name, namespace or self.namespace, to_ms("timeout", timeout)))
        return transaction

    def named(self, name: str, *, part: str | None = None, namespace: str | None = None) -> NamedTransaction:
        """A named transaction that was begun already, perhaps by somebody else: to commit it, abort it or stage more."""
        return NamedTransaction(
            self._link, check_text("a namespace", namespace or self.namespace), name, part or uuid4().hex, self._tracing
        )

    # -- request and response

    async def request(
        self,
        topic: str,
        value: Value,
        *,
        timeout: Duration = 5.0,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        namespace: str | None = None,
    ) -> Received:
        """Publishes a request and waits for the answer that a consumer gives with `reply`; NoReplyError when none came."""
        namespace = check_text("a namespace", namespace or self.namespace)
        inbox = self._inboxes.setdefault(namespace, Inbox(self, namespace))
        seconds = check_number("timeout", timeout)
        message = Message(value, key, headers, ttl=max(seconds, 0.001))
        return await inbox.ask(message, topic, seconds)

    async def reply(self, request: Received, value: Value, *, headers: dict[str, str] | None = None) -> Sent:
        """Answers a request. NotFoundError when the one who asked has gone."""
        if not isinstance(request, Received):
            raise InvalidError(f"reply to a message that was leased, not to {type(request).__name__}")
        if request.reply_to is None or request.correlation_id is None:
            raise InvalidError(f"message {request.id} is not a request: it has no reply-to and correlation-id headers")
        await self.topic(request.reply_to, namespace=request.namespace)
        correlated = {**(headers or {}), CORRELATION_ID: request.correlation_id}
        return await self.publish(request.reply_to, value, headers=correlated, namespace=request.namespace)
