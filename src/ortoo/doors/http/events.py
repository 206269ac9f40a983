"""Server-sent events, for browsers (`EventSource`) and `curl -N`: a topic followed, a group consumed, the overview watched.

Nothing is lined up for a client: what comes next is read when it has taken the last, so that a slow one falls behind in the log
and holds nothing here; one that takes nothing at all is cut off with its connection. The `id` of an event says how far each
partition was told; a browser that lost its connection comes back with it as `Last-Event-ID`, and misses nothing.
"""

from __future__ import annotations

import asyncio
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Annotated, NamedTuple
from uuid import uuid4

import msgspec
from msgspec import Meta

from ortoo.client.admin import to_position
from ortoo.model.commands import END, Lease
from ortoo.model.errors import InvalidError, OrtooError, UnavailableError
from ortoo.model.filters import Filter, parse_filter
from ortoo.model.message import Received
from ortoo.model.names import LeaseId, TopicId
from ortoo.model.queries import GetOffsets, GetOverview, GetTopic

from .answers import EVENTS, Streaming, encode_problem, to_problem
from .call import Call, ClientGone, InNamespace
from .leases import STARTS, give_back
from .live import OverviewQuery, hub_of
from .messages import Bookmark, Mark, Replay, render, render_runs
from .shapes import Count, Cut, Instant, MessageView, Offset, Seconds, Start

KEEPALIVE_SECONDS = 15.0
POLL_SECONDS = 0.25
_CHUNK_MESSAGES, _CHUNK_BYTES = 100, 256 * 1024
_PLACES_MAX = (
    64  # partitions, up to which every message says how far all of them were told; of more, the last of a chunk
)
_KEEPALIVE = b": still here\n\n"
_LINE_END = re.compile(rb"\r\n|\r|\n")

_encode = msgspec.json.Encoder().encode
_encode_place = msgspec.msgpack.Encoder().encode

Chunks = AsyncGenerator[bytes, None]


class TailQuery(InNamespace, kw_only=True):
    """From now on, unless told otherwise. `filter` as in a search."""

    from_offset: Offset | None = None
    from_time: Instant | None = None
    filter: str = ""
    value_bytes: Cut | None = None


class ConsumeQuery(InNamespace, kw_only=True):
    """`max_in_flight`: messages that were sent and are not settled yet, at most."""

    max_in_flight: Count = 100
    lease: Seconds | None = None
    auto_ack: bool = False
    start: Start | None = "all"


class Place(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """How far each partition was told."""

    topic: TopicId
    offsets: list[Annotated[int, Meta(ge=0, le=2**62)]]


_decode_place = msgspec.msgpack.Decoder(Place).decode


def event(kind: str | None, data: bytes, id: str | None = None) -> bytes:
    """Line ends may stand between the parts of a value in JSON."""
    head = b"" if kind is None else b"event: %b\n" % kind.encode()
    place = b"" if id is None else b"id: %b\n" % id.encode()
    return b"%b%bdata: %b\n\n" % (head, place, _LINE_END.sub(b"\ndata: ", data))


def _failed(error: OrtooError) -> bytes:
    return event("error", encode_problem(to_problem(error)))


def _write_place(place: Place) -> str:
    return urlsafe_b64encode(_encode_place(place)).decode().rstrip("=")


def _read_place(text: str) -> Place:
    try:
        return _decode_place(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, msgspec.DecodeError):
        raise InvalidError("Last-Event-ID is not the id of an event of this stream") from None


# -- a topic as it goes on


async def tail(call: Call) -> Streaming:
    query: TailQuery = call.query
    wanted = parse_filter(query.filter)
    place = await _begin(call, query)
    leave = hub_of(call.services).join("tail", call.services, call.link.principal)
    return Streaming(_guarded(_tail(call, query, wanted, place)), EVENTS, leave)


async def _begin(call: Call, query: TailQuery) -> Place:
    topic = await call.link.ask(GetTopic(call.topic))
    given = call.headers.get(b"last-event-id")
    if given is None:
        is_now = query.from_offset is None and query.from_time is None
        position = END if is_now else to_position(None, query.from_offset, query.from_time)
        return Place(topic.id, await call.link.ask(GetOffsets(call.topic, position)))
    place = _read_place(given.decode("latin-1"))
    if place.topic != topic.id or len(place.offsets) > len(topic.partitions):
        raise _made_again()
    return place


def _made_again() -> InvalidError:
    return InvalidError("the topic was deleted and made again; begin anew, without Last-Event-ID")


async def _tail(call: Call, query: TailQuery, wanted: Filter, place: Place) -> Chunks:
    told = list(place.offsets)
    yield event("begin", b"{}", _write_place(place))
    quiet = _Quiet()
    while True:
        ends = await call.link.ask(GetOffsets(call.topic, END))
        told += [0] * (len(ends) - len(told))
        if any(end < offset for offset, end in zip(told, ends, strict=False)):
            raise _made_again()
        marks = [Mark(index, told[index], end) for index, end in enumerate(ends) if told[index] < end]
        replay = Replay(call.link, call.topic, _CHUNK_MESSAGES)
        await replay.resume(Bookmark(place.topic, marks))
        while messages := await replay.take(_CHUNK_MESSAGES, _CHUNK_BYTES):
            shown = _shown(messages, told, place.topic, wanted, query.value_bytes)
            if shown:
                yield shown
                quiet = _Quiet()
            elif quiet.is_long:
                yield _passed(place.topic, told)
                quiet = _Quiet()
            if call.is_gone or call.services.is_closing:
                return
            await asyncio.sleep(0)
        for mark in marks:  # what was deleted in between counts as told
            told[mark.partition] = max(told[mark.partition], mark.end)
        if await call.services.wait_for(call, _pause(), _nothing) is None:
            return
        if quiet.is_long:
            yield _passed(place.topic, told)
            quiet = _Quiet()


class _Quiet:
    """Nothing has been sent since it was made."""

    def __init__(self) -> None:
        self._until = asyncio.get_running_loop().time() + KEEPALIVE_SECONDS

    @property
    def is_long(self) -> bool:
        return asyncio.get_running_loop().time() >= self._until


def _passed(topic: TopicId, told: list[int]) -> bytes:
    """What does not match is not looked at again either by who comes back."""
    return b"id: %b\n%b" % (_write_place(Place(topic, told)).encode(), _KEEPALIVE)


def _shown(messages: list[Received], told: list[int], topic: TopicId, wanted: Filter, cut: int | None) -> bytes:
    parts = list[bytes]()
    for at, message in enumerate(messages):
        told[message.partition] = message.offset + 1
        if wanted.matches(message.value, message.key, message.headers_or_none):
            says = len(told) <= _PLACES_MAX or at == len(messages) - 1
            parts.append(event(None, _encode(render(message, cut)), _write_place(Place(topic, told)) if says else None))
    return b"".join(parts)


async def _pause() -> bool:
    await asyncio.sleep(POLL_SECONDS)
    return True


async def _nothing(_: object) -> None:
    """There is nothing to undo."""


async def _guarded(chunks: Chunks) -> Chunks:
    """Whatever ends it: what it took is given back, and an error is told as the last event."""
    try:
        async for chunk in chunks:
            yield chunk
    except ClientGone:
        pass
    except OrtooError as error:
        yield _failed(error)
    finally:
        await chunks.aclose()


# -- a group


class _Sent(NamedTuple):
    """Leases whose messages were sent."""

    leases: set[LeaseId]

    def in_flight(self, call: Call) -> int:
        held = call.link.held(call.topic, call.params["group"], self.leases)
        self.leases.intersection_update(held)
        return sum(held.values())


async def consume(call: Call) -> Streaming:
    query: ConsumeQuery = call.query
    lease = Lease(
        topic=call.params["topic"],
        namespace=call.namespace,
        group=call.params["group"],
        consumer=f"events-{uuid4().hex}",
        lease_ms=None if query.lease is None else round(query.lease * 1000),
        wait_ms=round(KEEPALIVE_SECONDS * 1000),
        auto_ack=query.auto_ack,
        start=STARTS[query.start],
    )
    await call.link.ask(GetTopic(call.topic))
    call.link.check_lease(lease)
    return Streaming(_guarded(_consume(call, query, lease)), EVENTS)


async def _consume(call: Call, query: ConsumeQuery, lease: Lease) -> Chunks:
    sent = _Sent(set())
    try:
        yield event("begin", _encode({"consumer": lease.consumer}))
        quiet = _Quiet()
        while True:
            room = query.max_in_flight - sent.in_flight(call)
            if room <= 0:  # until some are settled
                if await call.services.wait_for(call, _pause(), _nothing) is None:
                    return
                if quiet.is_long:
                    yield _KEEPALIVE
                    quiet = _Quiet()
                continue
            command = msgspec.structs.replace(lease, max_messages=min(room, _CHUNK_MESSAGES))
            runs = await call.services.wait_for(
                call, call.link.lease(command), lambda runs: give_back(call.link, lease, runs)
            )
            if runs is None:
                return
            sent.leases.update(run.taken.lease for run in runs)
            views: list[MessageView] = render_runs(runs)
            yield b"".join(event(None, _encode(view), view.id) for view in views) or _KEEPALIVE
            quiet = _Quiet()
    finally:
        await call.link.leave(lease.consumer, call.topic, call.params["group"])


# -- the overview


async def watch(call: Call) -> Streaming:
    query: OverviewQuery = call.query
    wanted = GetOverview(query.namespace, query.sort, query.match, query.limit, query.offset)
    call.link.check(wanted)
    leave = hub_of(call.services).join("watch", call.services, call.link.principal)
    return Streaming(_guarded(_watch(call, wanted)), EVENTS, leave)


async def _watch(call: Call, wanted: GetOverview) -> Chunks:
    hub, viewer = hub_of(call.services), call.link.principal.name
    sampled = hub.sampled
    shown = await call.link.ask(wanted)
    yield event("overview", hub.whole(shown, viewer))
    while True:
        await call.services.wait_for(call, _sample(sampled), _nothing)
        if call.services.is_closing:
            return
        is_quiet, sampled = not sampled.is_set(), hub.sampled
        try:
            now = await call.link.ask(wanted)
        except UnavailableError:  # the queue is being recovered; what it showed last stands
            call.link.check(wanted)
            continue
        if now is not shown and now.timestamp != shown.timestamp:
            yield event("changes", hub.changes(shown, now, viewer))
            shown = now
        elif is_quiet:
            yield _KEEPALIVE


async def _sample(sampled: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(sampled.wait(), KEEPALIVE_SECONDS)
    return True
