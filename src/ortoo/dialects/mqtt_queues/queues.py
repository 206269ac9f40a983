"""Queues: made, listed, shown, changed, emptied and deleted; and their dead letters."""

from __future__ import annotations

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.turns import Turns
from ortoo.client.dead_letters import DeadLetters, is_letter
from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.call import Call
from ortoo.doors.times import instant_text, to_count
from ortoo.model.commands import ChangeTopic, CreateTopic, DeleteTopic, PurgeTopic, Redrive
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.message import Received
from ortoo.model.names import TopicName, is_inbox, parse_message_id
from ortoo.model.queries import GetMessage, GetTopic, ListTopics
from ortoo.model.replies import TopicInfo

from .names import queue_of, topic_in_path, topic_of
from .settings import changes, new_config, view
from .shapes import (
    LETTERS_MAX,
    Consumer,
    ConsumerList,
    Deleted,
    Letter,
    LetterList,
    LettersQuery,
    ListQuery,
    Purged,
    QueueBody,
    QueueView,
    Retried,
)

_ORIGIN, _GROUP, _REASON, _ATTEMPTS, _ERROR = (
    "ortoo-origin",
    "ortoo-group",
    "ortoo-reason",
    "ortoo-attempts",
    "ortoo-error",
)
REASONS = {"attempts": "max_retries"}  # the document's name; the others are the same, or are not in it

_LETTERS_BYTES = 16 * 1024 * 1024  # of values that are answered together

_encode = msgspec.json.Encoder().encode


def name_of(call: Call) -> TopicName:
    return TopicName(namespace_of(call.link), topic_in_path(call.params["name"]))


async def _info(call: Call) -> TopicInfo:
    return await call.link.ask(GetTopic(name_of(call)))


async def create(call: Call) -> QueueView:
    return await create_queue(call.link, namespace_of(call.link), call.body)


async def create_queue(link: AuthorizedLink, namespace: str, body: QueueBody) -> QueueView:
    name = TopicName(namespace, topic_of(body.name))
    await link.call(CreateTopic(name, new_config(body, name.name), exist_ok=False))
    return view(await link.ask(GetTopic(name)))


async def list_all(call: Call) -> bytes:
    """A `QueueList`, written in turns."""
    query: ListQuery = call.query
    infos = [
        info for info in await call.link.ask(ListTopics(namespace_of(call.link))) if not is_inbox(info.config.labels)
    ]
    written, turns = [], Turns()
    for info in infos[query.offset : query.offset + query.limit]:
        written.append(_encode(view(info)))
        await turns.worked(1)
    return b'{"queues":[%b],"total":%d}' % (b",".join(written), len(infos))


async def show(call: Call) -> QueueView:
    return view(await _info(call))


async def change(call: Call) -> QueueView:
    """What is not given stays."""
    return await change_queue(call.link, name_of(call), call.body)


async def change_queue(link: AuthorizedLink, name: TopicName, body: QueueBody) -> QueueView:
    if body.name and topic_of(body.name) != name.name:
        raise InvalidError("the name of a queue cannot be changed")
    await link.call(ChangeTopic(name, changes(body, name.name)))
    return view(await link.ask(GetTopic(name)))


async def delete(call: Call) -> Deleted:
    name = name_of(call)
    await call.link.call(DeleteTopic(name))
    return Deleted(queue_of(name.name))


async def purge(call: Call) -> Purged:
    name = name_of(call)
    return Purged(queue_of(name.name), await call.link.call(PurgeTopic(name)))


async def consumers(call: Call) -> ConsumerList:
    info = await _info(call)
    found = [
        Consumer(consumer, group.name, partitions)
        for group in info.groups
        for consumer, partitions in group.consumers.items()
    ]
    return ConsumerList(queue_of(info.name), found, len(found))


# -- dead letters


async def letters(call: Call) -> LetterList:
    """The oldest first; fewer when they are large."""
    query: LettersQuery = call.query
    info = await _info(call)
    limit, size = min(query.limit, LETTERS_MAX), 0
    found: list[Received] = []
    more = DeadLetters(call.link, info, query.group)
    while len(found) < limit and size < _LETTERS_BYTES and (some := await more.take()) is not None:
        found += some
        size += sum(len(letter.value) for letter in some)
    shown = [_letter(info, letter) for letter in found[:limit]]
    return LetterList(queue_of(info.name), queue_of(info.dlq), shown, len(shown))


def _letter(info: TopicInfo, letter: Received) -> Letter:
    headers = letter.headers
    reason = headers.get(_REASON, "")
    attempts = headers.get(_ATTEMPTS, "1")
    return Letter(
        letter.id,
        headers[_ORIGIN],
        queue_of(info.name),
        queue_of(info.dlq),
        headers[_GROUP],
        REASONS.get(reason, reason),
        max(0, to_count(attempts, 0) - 1),
        instant_text(letter.timestamp_ms),
        letter.value,
        {name: value for name, value in headers.items() if not name.startswith("ortoo-")},
        letter.key,
        headers.get(_ERROR),
    )


async def retry(call: Call) -> Retried:
    """For the group that failed it."""
    info, letter_id = await _info(call), call.params["id"]
    ref = parse_message_id(letter_id)
    letter = (await call.link.ask(GetMessage(ref))).to_info().message
    is_here = (letter.namespace, letter.topic) == (info.namespace, info.dlq)
    if not is_here or not is_letter(letter, info):
        raise NotFoundError(f"{queue_of(info.name)} has no dead letter {letter_id}")
    await call.link.call(Redrive(ref, parse_message_id(letter.headers[_ORIGIN]), letter.headers[_GROUP], letter.key))
    return Retried(letter_id, queue_of(info.name))
