"""Leasing, and settling what was leased."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Literal
from uuid import uuid4

from ortoo.model import limits
from ortoo.model.batch import check_texts
from ortoo.model.commands import START, Extend, ExtendById, Lease, MessageId, Position, Run, Settle, SettleById
from ortoo.model.errors import InvalidError
from ortoo.model.message import Received, Settler
from ortoo.model.names import DEFAULT_GROUP, check_name
from ortoo.model.replies import IdState, Settled
from ortoo.model.units import Duration

from .admin import Admin
from .arguments import check_count, check_number, check_text, to_error_text, to_ms, to_topic_name
from .by_id import MessageIds, settle_by_id, to_message_ids
from .forking import keep
from .gather import AckGatherer
from .late_acks import LateAcks
from .lazy import Messages
from .link import Link
from .pieces import settle
from .prefetched import Deliveries
from .settling import Receipts, check_settled, listed, to_runs
from .tracing import UNTRACED, Tracing, active

_STARTS = {"all": START, "new": Position("end"), None: None}


class Receiving(Admin):
    """Leases, and settles what was leased. A `consumer` that is None gets a name of its own."""

    def __init__(self, link: Link, namespace: str, consumer: str | None) -> None:
        super().__init__(link, namespace)
        self._settler: Settler = self
        self._tracing: Tracing | None = None
        self._is_named = consumer is not None
        self.consumer = _consumer_name() if consumer is None else check_name("a consumer's name", consumer)
        self._begin()

    def _begin(self) -> None:
        """With nothing under way."""
        self._acks = AckGatherer(self._link.call)
        self._late: LateAcks | None = None  # of what was leased outside of a stream
        self._unconfirmed: set[LateAcks] = set()  # this, and those of all streams that run
        # For each who has leased ahead: forgets what was revoked.
        self._prefetched: dict[int, Callable[[Deliveries], None]] = {}

    async def _drain(self) -> None:
        """Returns when every ack is answered."""
        for late in list(self._unconfirmed):
            await late.drain()
        await self._acks.drain()

    def _forked(self) -> None:
        """In a child process: what was under way is the parent's."""
        keep(self._acks, *self._unconfirmed)
        self._begin()
        if not self._is_named:
            self.consumer = _consumer_name()

    async def lease(
        self,
        topic: str | None = None,
        *,
        group: str = DEFAULT_GROUP,
        max_messages: int = 1,
        wait: Duration = 0.0,
        lease: Duration | None = None,
        consumer: str | None = None,
        partition: int | None = None,
        key: str | None = None,
        labels: dict[str, str] | None = None,
        auto_ack: bool = False,
        start: Literal["all", "new"] | None = "all",
        namespace: str | None = None,
        max_keys: int | None = None,
    ) -> Messages:
        """Leases up to `max_messages`, waiting up to `wait` seconds for the first; [] when none came.

        Give a topic, or `labels` to lease across every topic that has them, the most urgent topic first. `start` says
        where the group begins if this is its first use; with None it must exist. With `auto_ack` the messages are done
        as they leave: at most once. With `max_keys` they are of so many different keys at most, one key after the other.
        """
        command = self._lease_command(
            topic,
            labels,
            group,
            max_messages,
            wait,
            lease,
            consumer,
            partition,
            key,
            auto_ack,
            start,
            namespace,
            max_keys,
        )
        if self._late is None:
            self._late = self._late_acks()
        tracing = active(self._tracing)
        if tracing is None:
            return Messages(await self._link.lease(command), self._settler, self._late)
        began = tracing.now()
        runs = await self._link.lease(command)
        tracing.received(command, runs, began)
        return Messages(runs, self._settler, self._late)

    def _late_acks(self) -> LateAcks:
        late = LateAcks(self._ack_late, asyncio.get_running_loop())
        self._unconfirmed.add(late)
        return late

    def _lease_command(
        self,
        topic: str | None,
        labels: dict[str, str] | None,
        group: str,
        max_messages: int,
        wait: Duration,
        lease: Duration | None,
        consumer: str | None,
        partition: int | None,
        key: str | None,
        auto_ack: bool,
        start: Literal["all", "new"] | None,
        namespace: str | None,
        max_keys: int | None = None,
    ) -> Lease:
        if not isinstance(start, str | None) or start not in _STARTS:
            raise InvalidError(
                f"a group starts at 'all' or 'new', not {start!r}; create_group also takes offset= and time="
            )
        if not 0 <= to_ms("wait", check_number("wait", wait)) <= limits.WAIT_MS_MAX:
            raise InvalidError(f"wait must be 0 to {limits.WAIT_MS_MAX // 1000} seconds, not {wait}")
        if labels is not None and not isinstance(labels, dict):
            raise InvalidError(f"labels must be a dict of strings, not {type(labels).__name__}")
        check_texts("key", [key], limits.KEY_BYTES_MAX)
        return Lease(
            topic=None if topic is None else to_topic_name("", topic).name,
            labels=labels,
            namespace=check_text("a namespace", namespace or self.namespace),
            group=check_name("a group's name", group),
            consumer=check_name("a consumer's name", self.consumer if consumer is None else consumer),
            max_messages=check_count("max_messages", max_messages),
            lease_ms=to_ms("lease", lease),
            wait_ms=to_ms("wait", wait),
            partition=None if partition is None else check_count("partition", partition),
            key=key,
            auto_ack=auto_ack,
            start=_STARTS[start],
            keys_max=None if max_keys is None else check_count("max_keys", max_keys),
        )

    async def ack(self, messages: Receipts) -> None:
        """Done with these. Takes messages or receipts, one or many. LeaseLostError names those that were stale.

        Concurrent calls are gathered into one.
        """
        tracing = active(self._tracing)
        if tracing is not None:
            messages = listed(messages)
        runs = to_runs(messages)
        if runs:
            with UNTRACED if tracing is None else tracing.settling("ack", messages):
                check_settled(runs, await self._acks.ack(runs))

    async def _ack_late(self, messages: list[Received]) -> None:
        tracing, runs = active(self._tracing), to_runs(messages)
        with UNTRACED if tracing is None else tracing.settling("ack", messages, is_late=True):
            check_settled(runs, await self._acks.ack(runs))

    async def ack_through(self, message: Received | str) -> None:
        """Done with everything of the message's lease and partition up to and including it."""
        runs = [
            Run(run.topic, run.group, run.lease, run.partition, run.offsets, through=True) for run in to_runs(message)
        ]
        tracing = active(self._tracing)
        if runs:
            with UNTRACED if tracing is None else tracing.settling("ack_through", message):
                await self._settle(runs, "ack")

    async def nack(self, messages: Receipts, error: str | None = None, delay: Duration | None = None) -> None:
        """These failed: they are delivered again after `delay` seconds, or as the topic's backoff says."""
        await self._settle_all(messages, "nack", error, to_ms("delay", delay))

    async def reject(self, messages: Receipts, error: str | None = None) -> None:
        """These can never succeed: to the dead letters."""
        await self._settle_all(messages, "reject", error)

    async def release(self, messages: Receipts) -> None:
        """Not now: others may have these at once, and no attempt is counted. What is acked already stays so."""
        await self._settle_all(messages, "release")

    async def extend(self, messages: Receipts, seconds: Duration | None = None) -> None:
        """The leases that these came with end so many seconds from now, which may also be sooner than before; the topic's lease
        time when not given. What is acked already stays so."""
        runs = to_runs(messages)
        if runs:
            settled = await settle(self._link.call, Extend(runs, to_ms("seconds", seconds)))
            check_settled(runs, settled)

    async def ack_by_id(
        self,
        ids: MessageIds = (),
        *,
        dedup_ids: MessageIds = (),
        topic: str | None = None,
        group: str = DEFAULT_GROUP,
        namespace: str | None = None,
    ) -> list[IdState]:
        """Done with these, whoever has leased them in the group: for who has no receipts. Takes message ids, dedup ids, or both.

        Tells of each, the message ids first: "settled", "lost" when it is not leased now, "done" when it was settled
        before, or "unknown". Without a topic, dedup ids are looked for in all topics of the namespace.
        """
        named = self._named(ids, dedup_ids, topic, group, namespace)
        return await settle_by_id(self._link.call, SettleById("ack", *named))

    async def nack_by_id(
        self,
        ids: MessageIds = (),
        *,
        dedup_ids: MessageIds = (),
        topic: str | None = None,
        group: str = DEFAULT_GROUP,
        error: str | None = None,
        delay: Duration | None = None,
        namespace: str | None = None,
    ) -> list[IdState]:
        """These failed, whoever has leased them; see `ack_by_id` and `nack`."""
        named = self._named(ids, dedup_ids, topic, group, namespace)
        command = SettleById("nack", *named, to_error_text(error), to_ms("delay", delay))
        return await settle_by_id(self._link.call, command)

    async def reject_by_id(
        self,
        ids: MessageIds = (),
        *,
        dedup_ids: MessageIds = (),
        topic: str | None = None,
        group: str = DEFAULT_GROUP,
        error: str | None = None,
        namespace: str | None = None,
    ) -> list[IdState]:
        """These can never succeed, whoever has leased them; see `ack_by_id` and `reject`."""
        named = self._named(ids, dedup_ids, topic, group, namespace)
        return await settle_by_id(self._link.call, SettleById("reject", *named, to_error_text(error)))

    async def release_by_id(
        self,
        ids: MessageIds = (),
        *,
        dedup_ids: MessageIds = (),
        topic: str | None = None,
        group: str = DEFAULT_GROUP,
        namespace: str | None = None,
    ) -> list[IdState]:
        """Not now, whoever has leased them; see `ack_by_id` and `release`."""
        named = self._named(ids, dedup_ids, topic, group, namespace)
        return await settle_by_id(self._link.call, SettleById("release", *named))

    async def extend_by_id(
        self,
        ids: MessageIds = (),
        *,
        dedup_ids: MessageIds = (),
        topic: str | None = None,
        group: str = DEFAULT_GROUP,
        seconds: Duration | None = None,
        namespace: str | None = None,
    ) -> list[IdState]:
        """More time for the leases that hold these, whoever has them; see `ack_by_id` and `extend`."""
        named = self._named(ids, dedup_ids, topic, group, namespace)
        return await settle_by_id(self._link.call, ExtendById(*named, to_ms("seconds", seconds)))

    def _named(
        self, ids: MessageIds, dedup_ids: MessageIds, topic: str | None, group: str, namespace: str | None
    ) -> tuple[list[MessageId], str, str, str | None]:
        return (
            to_message_ids(ids, dedup_ids),
            check_name("a group's name", group),
            check_text("a namespace", namespace or self.namespace),
            None if topic is None else check_text("a topic's name", topic),
        )

    async def _settle_all(
        self,
        messages: Receipts,
        outcome: Literal["nack", "reject", "release"],
        error: str | None = None,
        delay_ms: int | None = None,
    ) -> None:
        tracing = active(self._tracing)
        if tracing is not None:
            messages = listed(messages)
        if runs := to_runs(messages):
            with UNTRACED if tracing is None else tracing.settling(outcome, messages):
                await self._settle(runs, outcome, error, delay_ms)

    async def _settle(
        self,
        runs: list[Run],
        outcome: Literal["ack", "nack", "reject", "release"],
        error: str | None = None,
        delay_ms: int | None = None,
    ) -> None:
        command = Settle(outcome, runs, to_error_text(error), delay_ms)
        check_settled(runs, await settle(self._link.call, command, self._drop_revoked))

    def _drop_revoked(self, runs: list[Run], settled: Settled) -> None:
        if settled.revoked is not None:
            gone = {
                (run.lease, run.partition, offset)
                for run, offsets in zip(runs, settled.revoked, strict=True)
                for offset in offsets
            }
            for forget in self._prefetched.values():
                forget(gone)


def _consumer_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
