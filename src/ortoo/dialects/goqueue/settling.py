"""Acks, nacks, rejects and more time, by receipt handle: one as GoQueue's clients send it, or a list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import time
from typing import Literal

import msgspec
from msgspec import UNSET

from ortoo.client.pieces import settle as settle_runs
from ortoo.doors.http.answers import Refusal
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text, parse_duration
from ortoo.model.commands import Extend, Run, Settle
from ortoo.model.errors import ForbiddenError, InvalidError, NotFoundError
from ortoo.model.names import GroupId, MessageRef, TopicId, TopicName
from ortoo.model.queries import GetTopic, GetTrace
from ortoo.model.replies import TraceKind

from .receipts import Handle, Place, gather, parse, to_runs
from .shapes import Duration, SettleBody, SettledMessage, SettleResult, SettleResults

Action = Literal["ack", "nack", "reject", "extend"]
_DEATHS: tuple[TraceKind, ...] = ("dead-lettered", "dropped")
_FAILURES: tuple[TraceKind, ...] = ("nacked", *_DEATHS)
_LOST = "message not found or already processed"


def settle(action: Action) -> Callable[[Call], Awaitable[msgspec.Struct]]:
    async def handler(call: Call) -> msgspec.Struct:
        body: SettleBody = call.body
        if body.receipt_handles is not None:
            return await _settle_many(call, action, body, body.receipt_handles)
        text = body.receipt_handle or body.message_id
        if not text:
            raise InvalidError("receipt_handle is required")
        handle = parse(text)
        if await _settle(call, action, body, to_runs([handle])):
            raise Refusal(404, _LOST, code="not_found")
        return await _answer(call, action, body, handle)

    return handler


async def _settle_many(call: Call, action: Action, body: SettleBody, texts: list[str]) -> SettleResults:
    runs, handles = gather(texts), None
    if runs is None:
        handles = [_try_parse(text) for text in texts]
        runs = to_runs([handle for handle in handles if isinstance(handle, Handle)])
    lost = await _settle(call, action, body, runs) if runs else set()
    if not lost and handles is None:
        return SettleResults(True, [SettleResult(text, True) for text in texts])
    handles = handles or [_try_parse(text) for text in texts]
    errors = [handle if isinstance(handle, str) else _LOST if handle.place in lost else "" for handle in handles]
    results = [SettleResult(text, not error, error) for text, error in zip(texts, errors, strict=True)]
    return SettleResults(not any(errors), results)


def _try_parse(text: str) -> Handle | str:
    try:
        return parse(text)
    except InvalidError as error:
        return str(error)


async def _settle(call: Call, action: Action, body: SettleBody, runs: list[Run]) -> set[Place]:
    """The places of those whose lease was lost."""
    settled = await settle_runs(call.link.call, _command(action, body, runs))
    return {
        ((run.topic, run.group, run.lease), run.partition, offset)
        for run, offsets in zip(runs, settled.lost or (), strict=False)
        for offset in offsets
    }


def _command(action: Action, body: SettleBody, runs: list[Run]) -> Settle | Extend:
    reason = None if body.reason is None else body.reason.encode(errors="replace").decode()
    if action == "extend":
        return Extend(runs, round(_extension(body) * 1000))
    if action == "nack" and body.delay is not None and body.delay != "":
        return Settle("nack", runs, reason, round(_seconds("delay", body.delay) * 1000))
    return Settle(action, runs, reason)


def _extension(body: SettleBody) -> float:
    """Its server takes `extension_seconds`, its clients send `timeout`."""
    given: Duration | None = body.extension_seconds if body.extension_seconds is not None else body.timeout
    if given is None:
        raise InvalidError("extension_seconds, or timeout, is required")
    seconds = _seconds("extension_seconds", given)
    if seconds <= 0:
        raise InvalidError("extension_seconds must be positive")
    return seconds


def _seconds(what: str, given: Duration) -> float:
    if isinstance(given, str):
        return parse_duration(what, given)
    if not 0 <= given <= 1e10:
        raise InvalidError(f"{what} must lie between 0 and 10000000000 seconds")
    return float(given)


async def _answer(call: Call, action: Action, body: SettleBody, handle: Handle) -> SettledMessage:
    told = SettledMessage(True, handle.topic, handle.partition, handle.offset)
    if action == "ack":
        told.acknowledged = True
    elif action == "extend":
        told.extended = True
        told.extended_by = _extension(body)
        told.new_deadline = instant_text(round((time() + told.extended_by) * 1000), digits=0)
    else:
        told.reason = UNSET if body.reason is None else body.reason
        await _tell_failure(call, told, action, handle)
    return told


async def _tell_failure(call: Call, told: SettledMessage, action: Action, handle: Handle) -> None:
    """By what has happened to the message. The handle tells an attempt, too, but a client may have written that."""
    topic, group, _ = handle.lease
    name = call.link.group_name(TopicId(topic), GroupId(group))
    try:
        trace = await call.link.ask(GetTrace(MessageRef(TopicId(topic), handle.partition, handle.offset)))
        info = await call.link.ask(GetTopic(TopicName(trace.namespace, trace.topic)))
    except (NotFoundError, ForbiddenError):
        raise Refusal(404, _LOST, code="not_found") from None  # settled, and gone since
    events = [event for event in trace.events if event.group == name]
    ends = [at for at, event in enumerate(events) if event.what in _FAILURES]
    so_far = events[: ends[-1] + 1] if ends else events
    is_dead = action == "reject" or bool(so_far and so_far[-1].what in _DEATHS)
    if is_dead:
        told.action = "rejected" if action == "reject" else "dlq"
        told.dlq_topic = info.dlq if info.config.dlq else UNSET
    else:
        told.action = "requeued"
        until = so_far[-1].until if so_far else None
        told.next_visible_at = UNSET if until is None else instant_text(round(until * 1000), digits=0)
    if action == "reject":
        told.rejected = True
    else:
        told.requeued = not is_dead
        told.delivery_count = max((event.attempt for event in so_far if event.attempt is not None), default=1)
