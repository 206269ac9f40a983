"""Ack: what became of messages, by their transactionIds; with a leaseId only as long as that lease holds them.

What was completed goes first, then what failed, the last message of a partition before the ones in front of it: a message that
goes back in line takes the later ones with it, and they would not be counted as failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from time import time
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.turns import Turns
from ortoo.dialects.callers import namespace_of
from ortoo.dialects.ids import from_uuid, from_uuids
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text
from ortoo.model.commands import Extend, MessageId, SettleById
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.names import LeaseRef, MessageRef
from ortoo.model.queries import FindMessages
from ortoo.model.replies import IdState

from .places import LeaseName, names_in, queue_of
from .popping import group_name
from .shapes import Ack, AckBatchBody, ExtendBody

_AT_ONCE = 75  # commands under way together
_ACK_COST = 0.5  # of what one ack says that no other does, in units of a turn
_OUTCOMES: dict[str, Literal["ack", "nack", "reject"]] = {
    "completed": "ack",
    "success": "ack",
    "failed": "nack",
    "retry": "nack",
    "dlq": "reject",
}
_transaction_id, _status_sent = attrgetter("transaction_id"), attrgetter("status")
_beside = attrgetter("status", "lease_id", "partition_id", "consumer_group")
_NOWHERE = ""  # in the place of a queue that is not there
_NO_LEASE = "Invalid or expired lease: the message is not leased any more"
_NO_MESSAGE = "There is no message with this transactionId"


class Acknowledged(msgspec.Struct, rename="camel"):
    transaction_id: str
    status: str
    consumer_group: str | None
    acknowledged_at: str
    error: str | UnsetType = UNSET


class BatchResult(msgspec.Struct, rename="camel", gc=False):
    transaction_id: str
    status: str


class BatchAcknowledged(msgspec.Struct):
    processed: int
    results: list[BatchResult]


class LaterResult(msgspec.Struct, rename="camel", gc=False):
    index: int
    transaction_id: str
    success: bool
    status: str
    error: str | None


class Extended(msgspec.Struct, rename="camel"):
    lease_id: str
    success: bool
    renewed: int
    new_expires_at: str | None
    expires_at: str | None
    lease_expires_at: str | None = msgspec.field(name="lease_expires_at")
    error: str | None


async def ack(call: Call) -> Acknowledged | bytes:
    body: Ack = call.body
    [state] = await Acks(call.link, [body], None).settle()
    if body.partition_id:
        return msgspec.json.encode(_later_results([body], [state]))
    error = UNSET if has_effect(body, state) else _reason(state)
    now = instant_text(round(time() * 1000))
    return Acknowledged(transaction_id_of(body), _status(body, state), body.consumer_group, now, error)


async def ack_batch(call: Call) -> BatchAcknowledged | bytes:
    body: AckBatchBody = call.body
    acks = body.acknowledgments
    if acks is None:
        raise InvalidError("acknowledgments must be an array")
    states = await Acks(call.link, acks, body.consumer_group).settle()
    if any(one.partition_id for one in acks):
        return msgspec.json.encode(_later_results(acks, states))
    if states.count("settled") == len(states):
        results = list(map(BatchResult, map(_transaction_id, acks), map(_status_sent, acks)))
    else:
        pairs = zip(acks, states, strict=True)
        results = [BatchResult(transaction_id_of(one), _status(one, state)) for one, state in pairs]
    return BatchAcknowledged(len(results), results)


def _later_results(acks: Sequence[Ack], states: Sequence[IdState]) -> list[LaterResult]:
    count = len(acks)
    if states.count("settled") == count:
        ids, sent = map(_transaction_id, acks), map(_status_sent, acks)
        return list(map(LaterResult, range(count), ids, [True] * count, sent, [None] * count))
    results = []
    for index, (one, state) in enumerate(zip(acks, states, strict=True)):
        is_good = has_effect(one, state)
        error = None if is_good else _reason(state)
        results.append(LaterResult(index, transaction_id_of(one), is_good, _status(one, state), error))
    return results


def has_effect(ack: Ack, state: IdState) -> bool:
    """To complete a message twice is to complete it once."""
    return state == "settled" or (state == "done" and outcome_of(ack) == "ack")


def _status(ack: Ack, state: IdState) -> str:
    return ack.status or "" if has_effect(ack, state) else "not_found"


def _reason(state: IdState) -> str:
    return _NO_MESSAGE if state == "unknown" else _NO_LEASE


def outcome_of(ack: Ack) -> Literal["ack", "nack", "reject"]:
    return _outcome(ack.status)


def _outcome(status: str | None) -> Literal["ack", "nack", "reject"]:
    outcome = _OUTCOMES.get(status or "")
    if outcome is None:
        raise InvalidError('status must be "completed" or "failed"')
    return outcome


def transaction_id_of(ack: Ack) -> str:
    if not ack.transaction_id:
        raise InvalidError("transactionId is required")
    return ack.transaction_id


class Finder:
    """Which messages transactionIds mean."""

    def __init__(self, link: AuthorizedLink) -> None:
        self._link = link
        self.namespace = namespace_of(link)

    def queue_of(self, ack: Ack) -> str | None:
        """That of its partition, or of its lease; None where it names neither. NotFoundError when there is none such."""
        return self.queue_named(ack.partition_id, ack.lease_id)

    def queue_named(self, partition: str | None, lease: str | None) -> str | None:
        if partition:
            queue = queue_of(self._link, partition, self.namespace)
        elif lease:
            name = self._link.name_of(LeaseName(lease).topic)
            queue = name.name if name is not None and name.namespace == self.namespace else None
        else:
            return None
        if queue is None:
            raise NotFoundError("there is no queue with this partition or lease any more")
        return queue

    async def refs(
        self, ids: Sequence[str], partition: str | None, queue: str | None, group: str | None
    ) -> list[MessageRef | None]:
        """None where there is no such message, as far as is remembered."""
        refs = from_uuids(ids)
        named = [text for text, ref in zip(ids, refs, strict=True) if ref is None]
        if not named:
            return refs
        places = await self._link.ask(FindMessages(self.namespace, names_in(partition, named), queue, group))
        if len(named) == len(ids):
            return places
        found = iter(places)
        return [next(found) if ref is None else ref for ref in refs]


Bucket = tuple[str | None, str | None, str | None, str]  # lease, partition, queue and group that acks name alike


class Acks:
    """Those of one request."""

    def __init__(self, link: AuthorizedLink, acks: Sequence[Ack], group: str | None) -> None:
        self._link = link
        self._acks = acks
        self._group = group
        self._find = Finder(link)
        self._states: list[IdState] = ["unknown"] * len(acks)

    async def settle(self) -> list[IdState]:
        """What became of each."""
        completed: dict[Bucket, list[int]] = {}
        failed: dict[Bucket, list[int]] = {}
        queues: dict[tuple[str | None, str | None], str | None] = {}
        if not all(map(_transaction_id, self._acks)):
            raise InvalidError("transactionId is required")
        turns = Turns()
        for (status, lease, partition, group), some in self._alike().items():
            await turns.worked(_ACK_COST)
            place = partition, None if partition else lease
            if place not in queues:
                try:
                    queues[place] = self._find.queue_named(*place)
                except NotFoundError:
                    queues[place] = _NOWHERE
            if queues[place] == _NOWHERE:  # they stay unknown, wherever else there are messages of these names
                _outcome(status)
                if lease:
                    LeaseName(lease)
                continue
            bucket = lease or None, partition or None, queues[place], group_name(group or self._group)
            (completed if _outcome(status) == "ack" else failed).setdefault(bucket, []).extend(some)
        for bucket, some in completed.items():
            await self._complete(bucket, some)
        for bucket, some in failed.items():
            await self._fail(bucket, some)
        return self._states

    def _alike(self) -> dict[tuple[str | None, ...], Sequence[int]]:
        """Rows, by what they say beside the id."""
        said = list(map(_beside, self._acks))
        if said and said.count(said[0]) == len(said):  # as mostly
            return {said[0]: range(len(said))}
        rows: dict[tuple[str | None, ...], list[int]] = {}
        for row, one in enumerate(said):
            if one in rows:
                rows[one].append(row)
            else:
                rows[one] = [row]
        return dict(rows)

    def _ids(self, rows: Sequence[int]) -> list[str]:
        if len(rows) == len(self._acks):
            return [one.transaction_id or "" for one in self._acks]
        return [self._acks[row].transaction_id or "" for row in rows]

    async def _complete(self, bucket: Bucket, rows: Sequence[int]) -> None:
        lease, partition, queue, group = bucket
        ids = self._ids(rows)
        named = [ref or name for ref, name in zip(from_uuids(ids), names_in(partition, ids), strict=True)]
        ref = None if lease is None else LeaseName(lease).ref
        command = SettleById("ack", named, group, self._find.namespace, queue, lease=ref)
        states: list[IdState] = await self._link.call(command)
        if len(rows) == len(self._states):
            self._states = states
            return
        for row, state in zip(rows, states, strict=True):
            self._states[row] = state

    async def _fail(self, bucket: Bucket, rows: Sequence[int]) -> None:
        """Each by itself, the last one first; they are asked for one behind the other, and become durable together."""
        lease, partition, queue, group = bucket
        ids = self._ids(rows)
        names = names_in(partition, ids)
        refs = await self._find.refs(ids, partition, queue, group)
        held = None if lease is None else LeaseName(lease).ref
        found = [(ref, row) for ref, row in zip(refs, rows, strict=True) if ref is not None]
        found.sort(key=lambda one: one[0][1:], reverse=True)
        left = iter(found)
        while some := list(islice(left, _AT_ONCE)):
            works = [self._fail_one(held, queue, group, *one) for one in some]
            for answer in await asyncio.gather(*works, return_exceptions=True):
                if isinstance(answer, BaseException):
                    raise answer
        lost = {row: name for row, name in zip(rows, names, strict=True) if self._states[row] == "lost"}
        await self._fail_others(held, queue, group, lost)

    async def _fail_one(self, lease: LeaseRef | None, queue: str | None, group: str, ref: MessageRef, row: int) -> None:
        [self._states[row]] = await self._link.call(self._failing([ref], row, queue, group, lease))

    def _failing(
        self, ids: list[MessageId], row: int, queue: str | None, group: str, lease: LeaseRef | None
    ) -> SettleById:
        one = self._acks[row]
        outcome = outcome_of(one)
        delay_ms = 0 if outcome == "nack" else None
        return SettleById(outcome, ids, group, self._find.namespace, queue, one.error, delay_ms, lease)

    async def _fail_others(self, lease: LeaseRef | None, queue: str | None, group: str, lost: dict[int, str]) -> None:
        """A name may have been used again while its first message is leased. Those that say the same are looked for at once."""
        alike: dict[tuple[str | None, str | None], list[int]] = {}
        for row in lost:
            if from_uuid(transaction_id_of(self._acks[row])) is None:
                alike.setdefault((self._acks[row].status, self._acks[row].error), []).append(row)
        for rows in alike.values():
            command = self._failing([lost[row] for row in rows], rows[0], queue, group, lease)
            for row, state in zip(rows, await self._link.call(command), strict=True):
                self._states[row] = state


async def extend(call: Call) -> Extended:
    """All that the lease holds; there may be nothing left of it."""
    body: ExtendBody = call.body
    lease = LeaseName(call.params["lease"])
    lease_ms = None if body.seconds is None else round(body.seconds * 1000)
    runs = lease.all()
    settled = await call.link.call(Extend(runs, lease_ms))
    lost = sum(map(bool, settled.lost or ()))
    renewed = len(runs) - lost
    name = call.link.name_of(lease.topic)
    config = None if name is None else call.link.settings_of(name, "read")
    if not renewed or config is None:
        return Extended(call.params["lease"], False, 0, None, None, None, _NO_LEASE)
    until = instant_text(round(time() * 1000) + (lease_ms or round(config.lease * 1000)))
    return Extended(call.params["lease"], True, renewed, until, until, until, None)
