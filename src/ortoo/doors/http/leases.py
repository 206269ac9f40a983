"""Leasing and settling: the hot paths, a batch at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.client.pieces import settle as settle_runs
from ortoo.model.commands import START, Extend, Lease, Position, Run, Settle
from ortoo.model.errors import InvalidError, LeaseLostError, NotFoundError
from ortoo.model.names import ReceiptRef, check_name, parse_receipt
from ortoo.model.replies import LeasedRun, Settled, Taken
from ortoo.model.runs import merge_runs, runs_of

from .call import Call, ClientGone
from .messages import encode_runs
from .shapes import LeaseAnywhereBody, LeaseBody, MessageList, SettleBody, SettleResult, SettleResults

Action = Literal["ack", "nack", "reject", "release", "extend", "ack_through"]
Leasing = Coroutine[Any, Any, list[LeasedRun]]
STARTS = {"all": START, "new": Position("end"), None: None}

_encode = msgspec.json.Encoder().encode
_NONE = _encode(MessageList([]))


async def lease(call: Call) -> bytes:
    return await _lease(
        call, to_lease(call.body, call.namespace, call.params["group"], call.consumer, call.params["topic"])
    )


async def lease_anywhere(call: Call) -> bytes:
    body: LeaseAnywhereBody = call.body
    return await _lease(call, to_lease(body, call.namespace, body.group, call.consumer, labels=body.labels))


def to_lease(
    body: LeaseBody,
    namespace: str,
    group: str,
    consumer: str,
    topic: str | None = None,
    labels: dict[str, str] | None = None,
) -> Lease:
    return Lease(
        topic=topic,
        labels=labels,
        namespace=namespace,
        group=group,
        consumer=consumer if body.consumer is None else body.consumer,
        max_messages=body.max_messages,
        lease_ms=None if body.lease is None else round(body.lease * 1000),
        wait_ms=round(body.wait * 1000),
        partition=body.partition,
        key=body.key,
        auto_ack=body.auto_ack,
        start=STARTS[body.start],
        keys_max=body.max_keys,
    )


async def _lease(call: Call, command: Lease) -> bytes:
    def accepted(consumer: str) -> None:
        if call.body.consumer is not None:
            call.services.gate.presence.requested(call.link.who(consumer))

    def at_once() -> Leasing:
        return call.link.lease(msgspec.structs.replace(command, wait_ms=0), accepted=accepted)

    check_name("a consumer's name", command.consumer)
    runs = await take(call, command, at_once, lambda: call.link.lease(command, accepted=accepted))
    return await encode_runs(_NONE, runs) if runs else _NONE


async def take(
    call: Call, command: Lease, at_once: Callable[[], Leasing], waiting: Callable[[], Leasing] | None = None
) -> list[LeasedRun]:
    """What a client leases, now or waiting for it, as the command says.

    What does not reach it goes back at once, and was no delivery: whether it went away while it waited, or before it can have
    read its answer.
    """
    if waiting is not None and command.wait_ms and not call.services.is_closing:
        found = await call.services.wait_for(call, waiting(), lambda runs: give_back(call.link, command, runs))
        runs = found or []
    else:
        runs = await at_once()
        if call.is_gone:
            await give_back(call.link, command, runs)
            raise ClientGone
    if runs and not command.auto_ack:
        taken = [run.taken for run in runs]  # without what they hold: that is written by then
        call.undo_unless_read(lambda: _release(call.link, taken))
    return runs


async def give_back(link: AuthorizedLink, command: Lease, runs: list[LeasedRun]) -> None:
    """What was leased for a client that is not there any more."""
    if runs and not command.auto_ack:
        await _release(link, [run.taken for run in runs])


async def _release(link: AuthorizedLink, taken: list[Taken]) -> None:
    await link.call(Settle("release", runs_of(taken)))


# -- settling


def settle(action: Action) -> Callable[[Call], Awaitable[bytes]]:
    async def handler(call: Call) -> bytes:
        return _encode(await settle_receipts(call.link, action, call.body, _within(call)))

    return handler


def _within(call: Call) -> str | None:
    """How receipts of the group begin that the path names; None where it names none. ReceiptRef has their parts."""
    if "group" not in call.params:
        return None
    topic, group = call.link.find_topic(call.topic), call.link.group_id(call.topic, call.params["group"])
    if topic is None or group is None:
        missing = f"topic {call.params['topic']!r}" if topic is None else f"group {call.params['group']!r}"
        raise NotFoundError(
            f"there is no {missing}, so nothing of it is leased; POST /v1/ack takes receipts of any group"
        )
    return f"{topic.id}.{group}."


async def settle_receipts(
    link: AuthorizedLink, action: Action, body: SettleBody, within: str | None = None
) -> SettleResults:
    """One answer per receipt, in their order. `within`: how all of them have to begin."""
    receipts = body.receipts
    if within is not None:
        receipts = [receipt for receipt in receipts if receipt.startswith(within)]
    runs, are_all_good = _to_runs(receipts, through=action == "ack_through")
    are_all_good = are_all_good and len(receipts) == len(body.receipts)
    settled = await settle_runs(link.call, _command(action, body, runs)) if runs else Settled()
    if settled.lost is None and are_all_good:
        count = len(body.receipts)
        results = list(map(SettleResult, body.receipts, [True] * count, [None] * count))
    else:
        lost = {parse_receipt(receipt) for receipt in _receipts(runs, settled.lost)}
        errors = [_error(receipt, lost, within or "") for receipt in body.receipts]
        results = list(map(SettleResult, body.receipts, [error is None for error in errors], errors))
    return SettleResults(results, _receipts(runs, settled.revoked))


def _error(receipt: str, lost: set[ReceiptRef], within: str) -> str | None:
    if not receipt.startswith(within):
        return InvalidError.code
    try:
        return LeaseLostError.code if parse_receipt(receipt) in lost else None
    except InvalidError:
        return InvalidError.code


def _receipts(runs: list[Run], offsets: list[list[int]] | None) -> list[str]:
    return [
        f"{run.topic}.{run.group}.{run.lease}.{run.partition}.{offset}"
        for run, some in zip(runs, offsets or (), strict=False)
        for offset in some
    ]


def _command(action: Action, body: SettleBody, runs: list[Run]) -> Settle | Extend:
    error = None if body.error is None else body.error.encode(errors="replace").decode()
    if action == "extend":
        return Extend(runs, _to_ms(body.seconds))
    if action == "nack":
        return Settle("nack", runs, error, _to_ms(body.delay))
    return Settle("ack" if action == "ack_through" else action, runs, error)


def _to_ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _to_runs(receipts: list[str], through: bool) -> tuple[list[Run], bool]:
    """Runs, and whether every receipt was one. Receipts of one lease and partition differ in their last number only."""
    offsets: dict[str, list[int]] = {}
    are_all_good = True
    for receipt in receipts:
        prefix, _, offset = receipt.rpartition(".")
        if not (offset.isdigit() and offset.isascii() and len(offset) < 19):
            are_all_good = False
        elif (known := offsets.get(prefix)) is None:
            offsets[prefix] = [int(offset)]
        else:
            known.append(int(offset))
    runs: list[Run] = []
    for prefix, some in offsets.items():
        try:
            ref = parse_receipt(f"{prefix}.0")
        except InvalidError:
            are_all_good = False
            continue
        runs.append(Run(ref.topic, ref.group, ref.lease, ref.partition, some, through))
    return merge_runs(runs), are_all_good  # written with leading zeros, two prefixes may name one lease
