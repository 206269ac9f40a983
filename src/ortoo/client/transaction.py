"""Transactions: acks and publishes that happen together, and named ones that several connections fill."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ortoo.model import limits
from ortoo.model.batch import Outgoing, to_outgoing
from ortoo.model.commands import Abort, Commit, Publish, Run, Stage, Transact
from ortoo.model.errors import InvalidError
from ortoo.model.json_values import Value
from ortoo.model.message import Message
from ortoo.model.replies import Placed, Sent
from ortoo.model.runs import merge_runs

from .arguments import to_topic_name
from .lazy import SentMessages
from .link import Link
from .settling import Receipts, listed, to_runs
from .tracing import UNTRACED, Tracing, active


class Transaction:
    """`async with queue.transaction() as tx:` collects; leaving the block commits, an exception in it discards.

    After the block, `sent` says where each published message lies, in the order of the calls.
    """

    def __init__(self, link: Link, namespace: str, tracing: Tracing | None = None) -> None:
        self._link = link
        tracing = active(tracing)
        self._traced = None if tracing is None else tracing.transaction()
        self._namespace = namespace
        self._acks: list[Run] = []
        self._publishes: list[Publish] = []
        self.sent: list[Sent] = []

    def ack(self, messages: Receipts) -> None:
        if self._traced is not None:
            messages = listed(messages)
        self._acks.extend(to_runs(messages))
        if self._traced is not None:
            self._traced.ack(messages)

    def publish(self, topic: str, value: Value, *, namespace: str | None = None, **fields: Any) -> None:
        """Takes what `Queue.publish` takes."""
        self.publish_many(topic, [Message(value, **fields)], namespace=namespace)

    def publish_many(self, topic: str, messages: Sequence[Message | Value], *, namespace: str | None = None) -> None:
        name = to_topic_name(namespace or self._namespace, topic)
        if self._traced is None:
            self._publishes.append(Publish(name, to_outgoing(messages)))
            return
        with self._traced.publishing(name, messages) as stamped:
            self._publishes.append(Publish(name, to_outgoing(stamped)))

    async def commit(self) -> None:
        acks = merge_runs(self._acks)
        if len(acks) > limits.RUNS_MAX:
            raise InvalidError(
                f"a transaction acks messages of at most {limits.RUNS_MAX} leases and partitions, this one of {len(acks)};"
                " lease more at a time (max_messages), or make several transactions"
            )
        with UNTRACED if self._traced is None else self._traced.committing(self._namespace):
            placed: list[Placed] = await self._link.call(Transact(acks, self._publishes))
        self._acks, self._publishes = [], []  # so that leaving the block does not repeat it
        self.sent += [sent for batch in placed for sent in SentMessages(batch)]

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.commit()


class NamedTransaction:
    """Messages staged under a name, invisible until one commit; several connections may stage under the same name.

    What this handle stages belongs to its `part`; a commit may name the parts it wants, so that what a failed attempt
    staged is left out.
    """

    def __init__(self, link: Link, namespace: str, name: str, part: str, tracing: Tracing | None = None) -> None:
        self._link = link
        tracing = active(tracing)
        self._traced = None if tracing is None else tracing.transaction()
        self._namespace = namespace
        self.name = name
        self.part = part

    async def publish(self, topic: str, value: Value, *, namespace: str | None = None, **fields: Any) -> None:
        await self.publish_many(topic, [Message(value, **fields)], namespace=namespace)

    async def publish_many(
        self, topic: str, messages: Sequence[Message | Value], *, namespace: str | None = None
    ) -> None:
        if not messages:
            raise InvalidError("there is nothing to publish in an empty batch")
        if self._traced is None:
            await self.stage(topic, to_outgoing(messages), namespace=namespace)
            return
        name = to_topic_name(namespace or self._namespace, topic)
        with self._traced.publishing(name, messages) as stamped:
            await self.stage(topic, to_outgoing(stamped), namespace=namespace)

    async def stage(self, topic: str, batch: Outgoing, *, namespace: str | None = None) -> None:
        """For those who have the messages as columns, and have checked them."""
        publish = Publish(to_topic_name(namespace or self._namespace, topic), batch)
        await self._link.call(Stage(self.name, self.part, publish, self._namespace))

    async def commit(self, parts: Sequence[str] | None = None) -> int:
        """Publishes what was staged, all at once. Committing again is a no-op. Returns the number of messages."""
        chosen = None if parts is None else list(parts)
        with UNTRACED if self._traced is None else self._traced.committing(self._namespace):
            count: int = await self._link.call(Commit(self.name, chosen, self._namespace))
        return count

    async def abort(self) -> None:
        await self._link.call(Abort(self.name, self._namespace))
