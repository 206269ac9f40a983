"""Receipts, gathered into runs for the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from ortoo.model.commands import Run
from ortoo.model.errors import InvalidError, LeaseLostError
from ortoo.model.message import Delivery, Received
from ortoo.model.names import ReceiptRef, parse_receipt
from ortoo.model.replies import Settled
from ortoo.model.runs import merge_runs

from .lazy import Messages

Receipts = Received | str | Iterable[Received | str]


def listed(messages: Receipts) -> Receipts:
    """So that they can be looked at twice."""
    return list(messages) if isinstance(messages, Iterator) else messages


def to_runs(messages: Receipts) -> list[Run]:
    """Messages or their receipts, one or many, as one run per lease and partition."""
    if type(messages) is Messages:
        return messages.to_runs()
    if type(messages) is Received:
        return [_to_run(messages.delivery, [messages.offset])]
    if isinstance(messages, str):
        messages = [messages]
    if not isinstance(messages, Iterable):
        wrong = type(messages).__name__
        raise InvalidError(f"settle messages or their receipts, one or many, not {wrong}")
    return merge_runs(_each_run(list(messages)))


def _each_run(messages: list[Received | str]) -> Iterator[Run]:
    key = _delivery if set(map(type, messages)) == {Received} else _delivery_of  # mostly the first, at C speed
    for delivery, run in groupby(messages, key=key):  # messages leased together usually stand together
        if delivery is None:
            for receipt in run:
                ref = parse_receipt(receipt)  # type: ignore[arg-type]
                yield Run(ref.topic, ref.group, ref.lease, ref.partition, [ref.offset])
        else:
            yield _to_run(delivery, list(map(_offset, run)))


def _to_run(delivery: Delivery, offsets: list[int]) -> Run:
    if delivery.lease == 0:
        raise InvalidError("a message was read, not leased, so there is nothing to settle")
    return Run(delivery.topic_id, delivery.group_id, delivery.lease, delivery.partition, offsets)


_offset, _delivery = attrgetter("offset"), attrgetter("delivery")


def _delivery_of(message: Received | str) -> Delivery | None:
    """None for a receipt."""
    return message.delivery if type(message) is Received else None


def check_settled(runs: list[Run], settled: Settled) -> None:
    """Raises when some receipts were stale; the others have been settled all the same."""
    if settled.lost is None:
        return
    lost = [
        str(ReceiptRef(run.topic, run.group, run.lease, run.partition, offset))
        for run, offsets in zip(runs, settled.lost, strict=True)
        for offset in offsets
    ]
    total = sum(len(run.offsets) for run in runs)
    raise LeaseLostError(
        f"{len(lost)} of {total} leases were lost: they ran out, or the group was moved; those messages are delivered again",
        lost,
    )
