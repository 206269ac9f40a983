"""Transactions: acks and pushes that happen together or not at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec
from msgspec import UNSET

from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.turns import Turns
from ortoo.doors.http.call import Call
from ortoo.model.commands import Run, Transact
from ortoo.model.errors import InvalidError, LeaseLostError, NotFoundError
from ortoo.model.names import LeaseRef, MessageRef, TopicId
from ortoo.model.replies import IdState

from .acking import Acks, Finder, has_effect, outcome_of, transaction_id_of
from .places import LeaseName
from .popping import group_name
from .pushing import Pushing
from .shapes import ITEMS_MAX, Ack, Item, TransactionBody, TransactionStep

_ACK_COST, _PLACE_COST = 0.5, 10  # of one ack, and of those of another partition or group, in units of a turn


class StepResult(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    index: int
    type: str
    transaction_id: str
    success: bool = True
    message_id: str | None = msgspec.field(default=None, name="message_id")
    status: str | None = None


class Outcome(msgspec.Struct, omit_defaults=True):
    success: bool
    results: list[StepResult] | None = None
    error: str | None = None


async def transact(call: Call) -> Outcome:
    body: TransactionBody = call.body
    steps = _checked(body)
    items = [item for step in steps for item in step.items or ()]
    acks: list[Ack] = [step for step in steps if step.type == "ack"]
    completed = [one for one in acks if outcome_of(one) == "ack"]
    failed = [one for one in acks if outcome_of(one) != "ack"]
    await _check_failed(call.link, failed)
    pushing = Pushing(call.link, items)
    publishes = await pushing.publishes() if items else []
    try:
        runs = await _runs(call.link, completed, body.required_leases or ())
        placed = await call.link.call(Transact(runs, publishes)) if runs or publishes else []
    except (LeaseLostError, NotFoundError) as error:
        return Outcome(success=False, error=str(error))
    states: list[IdState] = []
    if failed:  # to fail is to be delivered again, which is also what happens if this is never reached
        states = await Acks(call.link, failed, None).settle()
    without = {id(one) for one, state in zip(failed, states, strict=True) if not has_effect(one, state)}
    ids, are_known = pushing.results(placed) if items else ([], [])
    return Outcome(success=True, results=_results(steps, ids, are_known, without))


async def _check_failed(link: AuthorizedLink, failed: Sequence[Ack]) -> None:
    """Before anything is done: what cannot be understood must not be refused once the rest has happened."""
    find, turns = Finder(link), Turns()
    for one in failed:
        await turns.worked(_ACK_COST)
        transaction_id_of(one)
        group_name(one.consumer_group)
        if one.lease_id:
            LeaseName(one.lease_id)
        with suppress(NotFoundError):  # told with the others
            find.queue_of(one)


def _checked(body: TransactionBody) -> Sequence[TransactionStep]:
    if not body.operations:
        raise InvalidError("operations must be a list of at least one push or ack")
    if body.kv is not UNSET or body.timers is not UNSET:
        raise InvalidError("keys, locks and timers are not served here; a transaction has acks and pushes")
    for step in body.operations:
        if step.type not in ("push", "ack"):
            raise InvalidError(f"an operation is a push or an ack, not {(step.type or '')[:40]!r}")
        if step.type == "push" and not step.items:
            raise InvalidError("No items to push")
        if step.type == "ack":
            step.items = None
    if sum(len(step.items or ()) for step in body.operations) > ITEMS_MAX:
        raise InvalidError(f"a transaction has at most {ITEMS_MAX} messages")
    return body.operations


async def _runs(link: AuthorizedLink, acks: Sequence[Ack], required: Sequence[str]) -> list[Run]:
    """What is acked, as receipts of the leases that hold it."""
    leases, find, turns = _Leases(required), Finder(link), Turns()
    by_place: dict[tuple[str | None, str], list[Ack]] = {}
    for one in acks:
        transaction_id_of(one)
        place = one.partition_id or one.lease_id, group_name(one.consumer_group)
        by_place.setdefault(place, []).append(one)
    offsets: dict[tuple[LeaseRef, int], list[int]] = {}
    for (_, group), some in by_place.items():
        await turns.worked(_PLACE_COST)
        queue = find.queue_of(some[0])
        refs = await find.refs([transaction_id_of(one) for one in some], some[0].partition_id, queue, group)
        for one, ref in zip(some, refs, strict=True):
            await turns.worked(_ACK_COST)
            if ref is None:
                raise NotFoundError(f"there is no message with transactionId {one.transaction_id!r}")
            lease = leases.holder(one.lease_id, ref)
            if lease is None:
                raise LeaseLostError(f"no lease was named that holds message {one.transaction_id!r}", [])
            offsets.setdefault((lease, ref.partition), []).append(ref.offset)
    return [Run(*lease, partition, some) for (lease, partition), some in offsets.items()]


class _Leases:
    """Those that a transaction names, each read once."""

    def __init__(self, required: Sequence[str]) -> None:
        self._read: dict[str, tuple[LeaseRef, dict[int, int]]] = {}
        self._places: dict[tuple[TopicId, int], LeaseRef] = {}
        for text in required:
            lease, lasts = self._of(text)
            for partition in lasts:
                self._places.setdefault((lease.topic, partition), lease)

    def _of(self, text: str) -> tuple[LeaseRef, dict[int, int]]:
        if text not in self._read:
            name = LeaseName(text)
            self._read[text] = name.ref, name.lasts()
        return self._read[text]

    def holder(self, named: str | None, ref: MessageRef) -> LeaseRef | None:
        """Which of them has a message: the one that is named with it, else any of those that are required."""
        if not named:
            return self._places.get((ref.topic, ref.partition))
        lease, lasts = self._of(named)
        return lease if lease.topic == ref.topic and ref.partition in lasts else None


def _results(
    steps: Sequence[TransactionStep], ids: Sequence[str], are_known: Sequence[bool], without: Collection[int]
) -> list[StepResult]:
    """One for each message that was pushed and each ack, in their order; some acks were without effect."""
    results: list[StepResult] = []
    pushed = zip(ids, are_known, strict=True)
    for step in steps:
        if step.type == "ack":
            is_good = id(step) not in without
            results.append(StepResult(len(results), "ack", transaction_id_of(step), is_good, status=step.status))
        for item in step.items or ():
            results.append(_pushed(len(results), item, *next(pushed)))
    return results


def _pushed(index: int, item: Item, message_id: str, is_known: bool) -> StepResult:
    status = "duplicate" if is_known else "queued"
    return StepResult(index, "push", item.transaction_id or message_id, message_id=message_id, status=status)
