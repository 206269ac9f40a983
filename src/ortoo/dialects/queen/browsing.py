"""Single messages, and lists of them: by status, dead letters, and those beside one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ortoo.client.dead_letters import DeadLetters
from ortoo.client.dead_letters import Letter as BriefLetter
from ortoo.dialects.callers import namespace_of
from ortoo.dialects.ids import to_uuid
from ortoo.dialects.rendering import in_parts, write_list
from ortoo.doors.http.answers import Streaming
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text, parse_instant, to_count
from ortoo.model import limits
from ortoo.model.commands import DeadLetter, DeleteMessage, Position, Redrive, RetryNow
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.message import Received
from ortoo.model.names import MessageRef, TopicName, parse_message_id
from ortoo.model.queries import FindMessages, GetMessage, GetTopic, ListMessages, ListTopics, Scan
from ortoo.model.replies import MessageFound, MessageState, Page
from ortoo.model.topic import TopicConfig

from .acking import Finder
from .options import DEFAULT_PARTITION, options_of, shown
from .places import partition_id
from .popping import group_name, shown_value, transaction_ids
from .scanning import keys_of
from .shapes import DlqQuery, GroupQuery, MessagesQuery

LIST_MAX = 1_000
_SKIPPED_MAX = limits.BATCH_MESSAGES_MAX - LIST_MAX
_LETTERS_MAX = limits.BATCH_MESSAGES_MAX  # that are looked through
_LETTERS_BYTES = 16 * 1024 * 1024  # of values that are answered together
_TOPICS_MAX = 1_000  # that one list looks into
_RELATED_MAX, _RELATED_MS, _RELATED_LOOK = 10, 3_600_000, 500
_STATUSES: dict[str, tuple[MessageState, ...]] = {
    "pending": ("ready", "delayed", "blocked"),
    "processing": ("leased",),
    "completed": ("done",),
    "failed": ("dead",),
    "dead_letter": ("dead",),
}
_STATUS_OF: dict[MessageState, str] = {
    "ready": "pending",
    "delayed": "pending",
    "blocked": "pending",
    "leased": "processing",
    "done": "completed",
    "dead": "dead_letter",
}
_CONFIG_SHOWN = ("leaseTime", "retryLimit", "retryDelay", "ttl", "priority")


class MessageView(msgspec.Struct, rename="camel"):
    id: str
    transaction_id: str
    queue_path: str
    queue: str
    partition: str
    namespace: str | None
    task: str | None
    payload: Raw
    data: Raw
    created_at: str
    status: str
    statuses: dict[str, str] | UnsetType = UNSET  # by group
    queue_config: dict[str, Any] | UnsetType = UNSET


class Letter(msgspec.Struct, rename="camel"):
    id: str
    transaction_id: str
    queue: str
    partition: str
    consumer_group: str | None
    data: Raw
    payload: Raw
    error_message: str | None
    retry_count: int
    failed_at: str
    created_at: str | None
    reason: str | None


class Done(msgspec.Struct, rename="camel", omit_defaults=True):
    transaction_id: str
    success: bool
    deleted: bool = False
    retried: bool = False
    moved_to_dlq: bool = msgspec.field(default=False, name="movedToDLQ")


class _Row(msgspec.Struct, gc=False):
    """A message that will be shown."""

    ref: MessageRef
    given: str  # its transaction id
    queue: str
    partition: str
    namespace: str | None
    task: str | None
    value: bytes
    is_json: bool
    stamp: int
    status: str


async def list_messages(call: Call) -> bytes | Streaming:
    """The oldest first, queue by queue; without a status, those that wait, that are being processed, and that are done. Fewer
    than were asked for when they are large."""
    query: MessagesQuery = call.query
    limit, skipped = _bounds(query.limit, query.offset)
    statuses = [query.status] if query.status else ["pending", "processing", "completed", "dead_letter"]
    for status in statuses:
        if status not in _STATUSES:
            raise InvalidError(f"status is one of {', '.join(_STATUSES)}, not {status[:40]!r}")
    states = [state for status in statuses for state in _STATUSES[status]]
    found: list[_Row] = []
    size = 0
    for topic in await _topics(call, query):
        config = call.link.settings_of(topic, "read")
        if config is None:
            continue
        places = await _in_states(call, topic, config, group_name(query.consumer_group), states, skipped + limit, query)
        for _, page, row, status in places[skipped:]:
            if len(found) >= limit or size >= limits.ANSWER_BYTES_MAX:
                break
            found.append(_row(page, row, config, status))
            size += len(found[-1].value)
        skipped = max(0, skipped - len(places))
        if len(found) >= limit or size >= limits.ANSWER_BYTES_MAX:
            break
    return _written(found)


def _row(page: Page, row: int, config: TopicConfig, status: str) -> _Row:
    columns, labels = page.columns.part(row, row + 1), config.labels
    ref = MessageRef(page.topic_id, page.partition, columns.offsets[0])
    [given], [value], [stamp] = transaction_ids(columns, [to_uuid(ref)]), columns.values, columns.timestamps
    key = columns.keys[0] if columns.keys else None
    is_json = columns.json is not None and columns.json[0]
    place = (ref, given, page.topic.name, key or DEFAULT_PARTITION, labels.get("namespace"), labels.get("task"))
    return _Row(*place, value, is_json, stamp, status)


def _written(rows: list[_Row]) -> bytes | Streaming:
    return write_list(b'{"messages":', in_parts(rows, lambda row: 2 * len(row.value)), _views, b"}")


def _views(rows: Sequence[_Row]) -> list[MessageView]:
    return [_view(row) for row in rows]


def _view(row: _Row) -> MessageView:
    value = shown_value(row.value, is_json=row.is_json)
    path, created = f"{row.queue}/{row.partition}", instant_text(row.stamp)
    named = (to_uuid(row.ref), row.given, path, row.queue, row.partition, row.namespace, row.task)
    return MessageView(*named, value, value, created, row.status)


def _bounds(limit: int, offset: int) -> tuple[int, int]:
    if not 0 <= offset <= _SKIPPED_MAX:
        raise InvalidError(f"offset is 0 to {_SKIPPED_MAX}, not {offset}; name a partition or a status")
    return min(max(limit, 1), LIST_MAX), offset


async def _topics(call: Call, query: MessagesQuery) -> list[TopicName]:
    namespace = namespace_of(call.link)
    if query.queue:
        return [TopicName(namespace, query.queue)]
    labels = {name: value for name, value in (("namespace", query.namespace), ("task", query.task)) if value}
    infos = await call.link.ask(ListTopics(namespace))
    meant = [info for info in infos if info.config.labels.items() >= labels.items()]
    return [TopicName(namespace, info.name) for info in meant[:_TOPICS_MAX]]


async def _in_states(
    call: Call,
    topic: TopicName,
    config: TopicConfig,
    group: str,
    states: Sequence[MessageState],
    count: int,
    query: MessagesQuery,
) -> list[tuple[int, Page, int, str]]:
    """When each came, where it is, and what became of it. Before a group's first pop, all messages wait for it."""
    found: list[tuple[int, Page, int, str]] = []

    def add(page: Page, status: str) -> None:
        wanted = query.partition
        rows = [row for row, key in enumerate(keys_of(page)) if key == wanted] if wanted else range(len(page.columns))
        found.extend((page.columns.timestamps[row], page, row, status) for row in rows)

    try:
        for state in states:
            for page in await call.link.ask(ListMessages(topic, group, state, count)):
                add(page, _STATUS_OF[state])
            await asyncio.sleep(0)
    except NotFoundError:
        if "ready" in states:
            for partition in range(config.partitions):
                add(await call.link.ask(Scan(topic, partition, Position("start"), None, count)), "pending")
                await asyncio.sleep(0)
    found.sort(key=itemgetter(0))
    return found


# -- one message


async def _find(call: Call) -> MessageRef:
    """Clients of the later generation also name the partition: then it is of that one, or it is not there."""
    given, partition = call.params["transaction_id"], call.params.get("partition_id")
    finder = Finder(call.link)
    try:
        queue = finder.queue_named(partition, None)
    except NotFoundError:
        raise NotFoundError("Message not found") from None
    [ref] = await finder.refs([given], partition, queue, None)
    if ref is None or (partition is not None and not await _is_in(call, ref, partition)):
        raise NotFoundError("Message not found")
    return ref


async def _is_in(call: Call, ref: MessageRef, partition: str) -> bool:
    page = (await call.link.ask(GetMessage(ref))).page
    return partition_id(page.topic_id, keys_of(page)[0]) == partition


async def _look(call: Call) -> tuple[MessageFound, TopicConfig]:
    try:
        found = await call.link.ask(GetMessage(await _find(call)))
    except NotFoundError:
        raise NotFoundError("Message not found") from None
    return found, call.link.settings_of(found.page.topic, "read") or TopicConfig()


async def show(call: Call) -> MessageView:
    found, config = await _look(call)
    statuses = {group: _STATUS_OF[state] for group, state in found.states.items()}
    status = statuses.get(group_name(None)) or next(iter(statuses.values()), "pending")
    view = _view(_row(found.page, 0, config, status))
    options = shown(options_of(config))
    view.queue_config = {name: options[name] for name in _CONFIG_SHOWN}
    if len(statuses) > 1:
        view.statuses = statuses
    return view


async def delete(call: Call) -> Done:
    await call.link.call(DeleteMessage(await _find(call)))
    return Done(call.params["transaction_id"], True, deleted=True)


async def retry(call: Call) -> Done:
    """Whatever it waits for, or became of it, it is delivered at once; in one group, or in all. A dead letter comes back."""
    query: GroupQuery = call.query
    found, _ = await _look(call)
    page = found.page
    ref = MessageRef(page.topic_id, page.partition, page.columns.offsets[0])
    if "dead" in found.states.values():
        letters = DeadLetters(call.link, await call.link.ask(GetTopic(page.topic)), query.consumer_group)
        mine: list[BriefLetter] = []
        while (some := await letters.take_briefly()) is not None:
            mine += [letter for letter in some if letter.origin == str(ref)]
        for letter in mine:
            await call.link.call(Redrive(letter.ref, ref, letter.group, letter.key))
        if mine:
            return Done(call.params["transaction_id"], True, retried=True)
    await call.link.call(RetryNow(ref, query.consumer_group))
    return Done(call.params["transaction_id"], True, retried=True)


async def move_to_dlq(call: Call) -> Done:
    query: GroupQuery = call.query
    await call.link.call(DeadLetter(await _find(call), query.consumer_group, "moved by hand"))
    return Done(call.params["transaction_id"], True, moved_to_dlq=True)


async def related(call: Call) -> bytes | Streaming:
    """Those of the same partition around it: at most ten, none further away than an hour."""
    found, config = await _look(call)
    page = found.page
    [offset], [stamp], [key] = page.columns.offsets, page.columns.timestamps, keys_of(page)
    start = Position(offset=max(0, offset - _RELATED_LOOK))
    around = await call.link.ask(Scan(page.topic, page.partition, start, None, 2 * _RELATED_LOOK))
    columns = around.columns
    rows = [
        row
        for row, (where, when, whose) in enumerate(
            zip(columns.offsets, columns.timestamps, keys_of(around), strict=True)
        )
        if where != offset and whose == key and abs(when - stamp) <= _RELATED_MS
    ]
    nearest = sorted(sorted(rows, key=lambda row: abs(columns.offsets[row] - offset))[:_RELATED_MAX])
    return _written([_row(around, row, config, "") for row in nearest])


# -- dead letters


async def dead_letters(call: Call) -> bytes | Streaming:
    query: DlqQuery = call.query
    if not query.queue:
        raise InvalidError("queue is required")
    limit, skipped = _bounds(query.limit, query.offset)
    begins = parse_instant("from", query.begins) if query.begins else float("-inf")
    ends = parse_instant("to", query.ends) if query.ends else float("inf")
    group = group_name(query.consumer_group) if query.consumer_group else None
    try:
        info = await call.link.ask(GetTopic(TopicName(namespace_of(call.link), query.queue)))
    except NotFoundError:
        return b'{"messages":[],"total":0}'
    letters, shown = DeadLetters(call.link, info, group), list[Letter]()
    count = size = 0
    while count < _LETTERS_MAX and (some := await letters.take()) is not None:  # a page at a time: they may be large
        for letter in some:
            is_meant = query.partition in (None, "", letter.key or DEFAULT_PARTITION)
            if not is_meant or not begins <= letter.timestamp <= ends:
                continue
            if skipped <= count and len(shown) < limit and size < _LETTERS_BYTES:
                shown.append(await _letter(call, query.queue, letter))
                size += len(letter.value)
            count += 1
    parts = in_parts(shown, lambda letter: 2 * len(bytes(letter.data)))
    return write_list(b'{"messages":', parts, list, b',"total":%d}' % count)


async def _letter(call: Call, queue: str, letter: Received) -> Letter:
    """With what the original was called and when it came, if it is still there."""
    headers = letter.headers
    ref = _origin(letter)
    made = given = headers.get("ortoo-origin", "")
    created = None
    if ref is not None:
        made = given = to_uuid(ref)
        with suppress(NotFoundError):
            columns = (await call.link.ask(GetMessage(ref))).page.columns
            [given], created = transaction_ids(columns, [made]), instant_text(columns.timestamps[0])
    value = shown_value(letter.value, is_json=letter.is_json)
    attempts = headers.get("ortoo-attempts", "0")
    return Letter(
        made,
        given,
        queue,
        letter.key or DEFAULT_PARTITION,
        headers.get("ortoo-group"),
        value,
        value,
        headers.get("ortoo-error"),
        max(0, to_count(attempts, 0) - 1),
        instant_text(letter.timestamp_ms),
        created,
        headers.get("ortoo-reason"),
    )


def _origin(letter: Received) -> MessageRef | None:
    """Headers can say anything."""
    try:
        return parse_message_id(letter.headers.get("ortoo-origin", ""))
    except InvalidError:
        return None


LOOKING = (FindMessages, GetMessage, GetTopic, Scan)
DELETING = (*LOOKING, DeleteMessage)
BURYING = (*LOOKING, DeadLetter)
RETRYING = (*LOOKING, RetryNow, Redrive)
LISTING = (ListTopics, ListMessages, Scan)
LETTERS = (GetTopic, Scan, GetMessage)
