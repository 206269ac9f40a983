"""Messages as they are shown: written as JSON, one by its id, and a topic read without a group.

A topic is read a page at a time, or all of it as one stream. The partitions are merged, oldest message first. What is
published while someone reads is not chased: the end of each partition is taken once, and travels in the continuation.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Iterable
from heapq import heappop, heappush

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ortoo.broker.authorized import AuthorizedLink
from ortoo.client.admin import to_position
from ortoo.client.dead_letters import is_letter
from ortoo.model.commands import START, Position
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.message import Received
from ortoo.model.names import TopicId, TopicName
from ortoo.model.publishers import Publishers
from ortoo.model.queries import GetTopic, Scan
from ortoo.model.replies import LeasedRun, Page, Trace
from ortoo.model.topic import DEFAULT_PRIORITY

from .answers import Streaming
from .call import Call
from .operator_shapes import FoundPage
from .raw import NDJSON
from .shapes import (
    DeadLetterBody,
    DeadLettersQuery,
    MessageDetail,
    MessagePage,
    MessageView,
    ReplayQuery,
    RetryBody,
)

_check = msgspec.json.Decoder(Raw).decode
_check_all = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode
_PART_BYTES, _PART_MESSAGES = 4 * 1024 * 1024, 1_000  # that are written at a time
_TOGETHER_BYTES = 1024 * 1024  # of values that are copied to be looked at together
_NO_HEADERS: dict[str, str] = {}


def as_json(value: bytes) -> Raw | UnsetType:
    """The value as it stands, if it can stand inside a JSON text. Its flag says so, but a client set that flag."""
    try:
        _check(value)
        if not value.isascii():
            value.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNSET
    return Raw(value)


def all_as_json(values: list[bytes]) -> list[Raw] | None:
    """The same of all in one go, as mostly. None where one cannot stand so, or they are large: then each has to be looked at."""
    if sum(map(len, values)) > _TOGETHER_BYTES:
        return None
    joined = b",".join(values)
    try:
        raws = _check_all(b"[%b]" % joined)
        if not joined.isascii():
            joined.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return raws if list(map(bytes, raws)) == values else None  # a comma between values may have been in a value


def render_runs(runs: Iterable[LeasedRun]) -> list[MessageView]:
    views: list[MessageView] = []
    for run in runs:
        views += render_run(run)
    return views


async def encode_runs(envelope: bytes, runs: list[LeasedRun]) -> bytes:
    """The messages, in an envelope that was written without any. Large ones a part at a time: others get their turns."""
    size = sum(sum(map(len, run.columns.values)) for run in runs)
    views = render_runs(runs)
    step = max(1, len(views) * _PART_BYTES // max(1, size))
    parts = []
    for at in range(0, len(views), step):
        if at:
            await asyncio.sleep(0)
        parts.append(_encode_bare(views[at : at + step]))
    return _fill(envelope, parts)


async def encode_messages(envelope: msgspec.Struct, messages: list[Received], cut: int | None = None) -> bytes:
    """The same of messages that were read, where the first empty list of the envelope stands."""
    parts, some, size = [], list[MessageView](), 0
    for message in messages:
        some.append(render(message, cut))
        size += len(message.value) if cut is None else min(cut, len(message.value))
        if size >= _PART_BYTES or len(some) >= _PART_MESSAGES:
            parts.append(_encode_bare(some))
            some, size = [], 0
            await asyncio.sleep(0)
    if some:
        parts.append(_encode_bare(some))
    return _fill(_encode(envelope), parts)


def _encode_bare(views: list[MessageView]) -> memoryview:
    return memoryview(_encode(views))[1:-1]  # without the brackets of each list


def _fill(envelope: bytes, parts: list[memoryview]) -> bytes:
    before, _, after = envelope.partition(b"[]")
    return b"".join([before, b"[", b",".join(parts), b"]", after])


def render_run(run: LeasedRun) -> Iterable[MessageView]:
    taken, columns = run.taken, run.columns
    offsets = columns.offsets
    count = len(offsets)
    message = f"{taken.topic_id}.{taken.partition}."
    receipt = f"{taken.topic_id}.{taken.group_id}.{taken.lease}.{taken.partition}."
    values, binaries = _values(columns.values, columns.json)
    attempts = taken.attempts
    return map(
        MessageView,
        [f"{message}{offset}" for offset in offsets],
        [taken.topic.name] * count,
        [taken.topic.namespace] * count,
        [taken.partition] * count,
        offsets,
        [stamp / 1000 for stamp in columns.timestamps],
        columns.keys or [None] * count,
        [headers or _NO_HEADERS for headers in columns.headers] if columns.headers else [_NO_HEADERS] * count,
        columns.priorities or [DEFAULT_PRIORITY] * count,
        [attempts.get(offset, 1) for offset in offsets] if attempts else [1] * count,
        values,
        binaries,
        [taken.group] * count,
        [f"{receipt}{offset}" for offset in offsets],
        _publishers(columns.publishers, count),
    )


def _publishers(publishers: Publishers | None, count: int) -> list[str | UnsetType]:
    if isinstance(publishers, list):
        return [UNSET if name is None else name for name in publishers]
    return [UNSET if publishers is None else publishers] * count


def _values(values: list[bytes], json: list[bool] | None) -> tuple[list[Raw | UnsetType], list[bytes | UnsetType]]:
    if json is None:
        return [UNSET] * len(values), list(values)
    if all(json) and (together := all_as_json(values)) is not None:
        return list[Raw | UnsetType](together), [UNSET] * len(values)
    raws = [as_json(value) if flag else UNSET for value, flag in zip(values, json, strict=True)]
    return raws, [value if raw is UNSET else UNSET for value, raw in zip(values, raws, strict=True)]


def render(message: Received, cut: int | None = None) -> MessageView:
    """One message that was read, looked at, or answered a request; of a value that is larger than `cut`, its beginning."""
    value, is_cut = message.value, cut is not None and len(message.value) > cut
    raw = as_json(value) if message.is_json and not is_cut else UNSET
    return MessageView(
        message.id,
        message.topic,
        message.namespace,
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.headers,
        message.priority,
        message.attempt,
        raw,
        UNSET if raw is not UNSET else value[:cut] if is_cut else value,
        publisher=UNSET if message.publisher is None else message.publisher,
        due=UNSET if message.due is None else message.due,
        expires=UNSET if message.expires is None else message.expires,
        value_bytes=len(value) if is_cut else UNSET,
    )


# -- single messages, by their ids


async def show(call: Call) -> MessageDetail:
    info = await call.queue.message(call.params["id"])
    return MessageDetail(render(info.message, call.query.value_bytes), info.states)


async def delete(call: Call) -> None:
    await call.queue.delete_message(call.params["id"])


async def retry(call: Call) -> None:
    body: RetryBody = call.body
    await call.queue.retry_now(call.params["id"], group=body.group)


async def dead_letter(call: Call) -> None:
    body: DeadLetterBody = call.body
    await call.queue.dead_letter(call.params["id"], group=body.group, error=body.error)


async def trace(call: Call) -> Trace:
    return await call.queue.trace(call.params["id"])


# -- reading a topic

_CHUNK_MESSAGES, _CHUNK_BYTES = 500, 256 * 1024  # of a stream: what is made before the client has to read
_PAGE_BYTES = 16 * 1024 * 1024  # a page of large messages ends early, and says where to go on
_SCAN_FIRST, _SCAN_BYTES = 32, 1024 * 1024  # how many to ask the store for, before and after their size is known

_encode_lines = msgspec.json.Encoder().encode_lines


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """How far a partition has been read, and how far it is to be read."""

    partition: int
    offset: int
    end: int


class Bookmark(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    topic: TopicId
    marks: list[Mark]


_encode_bookmark = msgspec.msgpack.Encoder().encode
_decode_bookmark = msgspec.msgpack.Decoder(Bookmark).decode


class Track:
    """One partition on its way through the merge. The next message is the last of `messages`."""

    __slots__ = ("end", "messages", "next_offset", "partition")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.messages: list[Received] = []
        self.next_offset = 0
        self.end = 0

    def mark(self) -> Mark:
        return Mark(self.partition, self.messages[-1].offset if self.messages else self.next_offset, self.end)


class Replay:
    def __init__(self, link: AuthorizedLink, topic: TopicName, batch: int) -> None:
        self._link = link
        self._topic = topic
        self._batch = batch
        self._count = min(batch, _SCAN_FIRST)
        self._topic_id: TopicId | None = None
        self._tracks: list[Track] = []
        self._heads: list[tuple[int, int]] = []  # time of the next message, and which track it is on

    async def begin(self, partitions: list[int], start: Position, until: Position | None) -> None:
        for partition in partitions:
            page = await self._link.ask(Scan(self._topic, partition, start, until, self._count))
            await self._add(Track(partition), page)

    async def resume(self, bookmark: Bookmark) -> None:
        self._topic_id = bookmark.topic
        for mark in bookmark.marks:
            until = Position(offset=mark.end)
            here = Position(offset=mark.offset)
            page = await self._link.ask(Scan(self._topic, mark.partition, here, until, self._count))
            await self._add(Track(mark.partition), page)

    async def _add(self, track: Track, page: Page) -> None:
        track.end = page.end
        self._tracks.append(track)
        self._load(track, page)
        await self._line_up(len(self._tracks) - 1)

    def _load(self, track: Track, page: Page) -> None:
        if self._topic_id is not None and page.topic_id != self._topic_id:
            raise InvalidError("the topic was deleted and recreated; start again")
        self._topic_id = page.topic_id
        track.next_offset = page.next_offset
        if len(page.columns):
            average = sum(map(len, page.columns.values)) // len(page.columns) + 1
            self._count = max(1, min(self._batch, _SCAN_BYTES // average))
        track.messages = [message for message in page.to_messages() if message.offset < track.end]
        track.messages.reverse()

    async def _line_up(self, which: int) -> None:
        track = self._tracks[which]
        while not track.messages and track.next_offset < track.end:
            start, until = Position(offset=track.next_offset), Position(offset=track.end)
            self._load(track, await self._link.ask(Scan(self._topic, track.partition, start, until, self._count)))
        if track.messages:
            heappush(self._heads, (track.messages[-1].timestamp_ms, which))

    async def take(self, count: int, bytes_max: int) -> list[Received]:
        """The next messages, until there are so many or their values are so large; [] at the end."""
        taken: list[Received] = []
        size = 0
        while self._heads and len(taken) < count and size < bytes_max:
            _, which = heappop(self._heads)
            messages = self._tracks[which].messages
            limit = self._heads[0] if self._heads else None
            while messages and len(taken) < count and size < bytes_max:
                if limit is not None and (messages[-1].timestamp_ms, which) >= limit:
                    break
                taken.append(messages.pop())
                size += len(taken[-1].value)
            await self._line_up(which)
        return taken

    def bookmark(self) -> str | None:
        """Where to go on; None at the end."""
        if not self._heads or self._topic_id is None:
            return None
        marks = [self._tracks[which].mark() for _, which in sorted(self._heads)]
        return urlsafe_b64encode(_encode_bookmark(Bookmark(self._topic_id, marks))).decode().rstrip("=")

    async def lines(self, cut: int | None) -> AsyncGenerator[bytes, None]:
        while messages := await self.take(_CHUNK_MESSAGES, _CHUNK_BYTES):
            yield _encode_lines([render(message, cut) for message in messages])


def parse_bookmark(text: str) -> Bookmark:
    try:
        bookmark = _decode_bookmark(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, msgspec.DecodeError):
        raise InvalidError("`next` is not a continuation; pass it as it came") from None
    partitions = [mark.partition for mark in bookmark.marks]
    if min((min(msgspec.structs.astuple(mark)) for mark in bookmark.marks), default=0) < 0 or len(
        set(partitions)
    ) != len(partitions):
        raise InvalidError("`next` is not a continuation; pass it as it came")
    return bookmark


def is_stream(call: Call, query: ReplayQuery) -> bool:
    return query.format == "ndjson" or (query.format is None and NDJSON in call.headers.get(b"accept", b"").lower())


async def replay(call: Call, query: ReplayQuery) -> bytes | Streaming:
    streamed = is_stream(call, query)
    reading = Replay(call.link, call.topic, _CHUNK_MESSAGES if streamed else query.limit)
    await _start(call, query, reading)
    if streamed:
        return Streaming(reading.lines(query.value_bytes), NDJSON)
    messages = await reading.take(query.limit, _PAGE_BYTES)
    after = reading.bookmark()
    return await encode_messages(FoundPage([], after, len(messages), after is None), messages, query.value_bytes)


async def dead_letters(call: Call) -> bytes:
    """A page of large ones ends early, as it does when a topic is read."""
    query: DeadLettersQuery = call.query
    topic = await call.link.ask(GetTopic(call.topic))
    replay = Replay(call.link, TopicName(topic.namespace, topic.dlq), query.limit)
    letters: list[Received] = []
    size = 0
    try:
        await (replay.begin([0], START, None) if query.next is None else replay.resume(parse_bookmark(query.next)))
        while len(letters) < query.limit and size < _PAGE_BYTES:
            some = await replay.take(min(query.limit - len(letters), _CHUNK_MESSAGES), _PART_BYTES)
            if not some:
                break
            found = [letter for letter in some if is_letter(letter, topic, query.group)]
            letters += found
            size += sum(len(letter.value) for letter in found)
            await asyncio.sleep(0)
    except NotFoundError:
        pass  # it never had any
    return await encode_messages(MessagePage([], replay.bookmark()), letters, query.value_bytes)


async def _start(call: Call, query: ReplayQuery, replay: Replay) -> None:
    begins = (query.from_offset, query.from_time, query.to_offset, query.to_time, query.partition)
    if query.next is not None:
        if any(given is not None for given in begins):
            raise InvalidError("`next` goes on with the range it came from; give no other")
        await replay.resume(parse_bookmark(query.next))
        return
    start = to_position(None, query.from_offset, query.from_time)
    until = None
    if query.to_offset is not None or query.to_time is not None:
        until = to_position(None, query.to_offset, query.to_time)
    partitions = [query.partition] if query.partition is not None else None
    if partitions is None:
        partitions = list(range(len((await call.link.ask(GetTopic(call.topic))).partitions)))
    await replay.begin(partitions, start, until)
