"""Queues: configured, emptied, deleted."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec import UNSET

from ortoo.broker.authorized import AuthorizedLink
from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.call import Call
from ortoo.model.commands import ChangeTopic, CreateTopic, DeleteMessage, DeleteTopic, PurgeTopic
from ortoo.model.errors import ExistsError, InvalidError, NotFoundError
from ortoo.model.names import MessageRef, TopicName, check_name
from ortoo.model.queries import GetTopic, Scan
from ortoo.model.topic import TopicConfig

from .options import (
    Options,
    complete,
    is_ours,
    new_config,
    options_of,
    partition_label,
    shown,
    to_labels,
    to_settings,
)
from .scanning import each_message
from .shapes import ConfigureBody, Configured, OptionsSent, PartitionQuery

_DELETED_AT_ONCE = 200


class Cleared(msgspec.Struct):
    cleared: bool
    count: int
    queue: str
    partition: str


class DeletedQueue(msgspec.Struct):
    deleted: bool
    queue: str
    existed: bool


async def configure(call: Call) -> Configured:
    """Says all about a queue: an option that is not sent has its default. With `partition`, the priority is that partition's, and
    what is not sent stays as it is."""
    body: ConfigureBody = call.body
    if not body.queue:
        raise InvalidError("queue is required")
    topic = TopicName(namespace_of(call.link), check_name("a queue's name", body.queue))
    sent = body.options or OptionsSent()
    found = call.link.settings_of(topic, "admin")
    if body.partition:
        options = await _configure_partition(call.link, topic, found, body, sent)
    else:
        options = complete(sent)
        settings, labels = to_settings(options, sent), to_labels(options, body.namespace, body.task)
        await _apply(call.link, topic, found, settings, labels)
        if found is not None and found.encrypted:
            options = msgspec.structs.replace(options, encryption_enabled=True)
    return Configured(body.queue, body.namespace, body.task, True, shown(options), body.partition or UNSET)


async def _apply(
    link: AuthorizedLink,
    topic: TopicName,
    found: TopicConfig | None,
    settings: dict[str, object],
    labels: dict[str, str],
) -> None:
    if found is None:
        try:
            await link.call(CreateTopic(topic, new_config(settings, labels)))
            return
        except ExistsError:  # somebody else was first
            found = link.settings_of(topic, "admin") or TopicConfig()
    kept = {name: value for name, value in found.labels.items() if not is_ours(name)}
    changes = {**settings, "labels": kept | labels}
    if found.encrypted:
        del changes["encrypted"]  # that cannot be taken back
    await link.call(ChangeTopic(topic, changes))


async def _configure_partition(
    link: AuthorizedLink, topic: TopicName, found: TopicConfig | None, body: ConfigureBody, sent: OptionsSent
) -> Options:
    label = partition_label(body.partition or "")
    priority = sent.priority or 0
    rest = msgspec.structs.replace(sent, priority=None)
    if found is None:
        options = complete(rest)
        labels = to_labels(options, body.namespace, body.task) | {label: str(priority)}
        await _apply(link, topic, None, to_settings(options, rest), labels)
    else:
        before = options_of(found)
        given = {name: value for name, value in msgspec.structs.asdict(rest).items() if value is not None}
        options = msgspec.structs.replace(before, **given)
        changes = _changed(to_settings(before, rest), to_settings(options, rest))
        kept = {name: value for name, value in found.labels.items() if not is_ours(name)}
        groups = {"namespace": body.namespace, "task": body.task}
        group_labels = {name: given or found.labels.get(name) for name, given in groups.items()}
        labels = kept | to_labels(options, group_labels["namespace"], group_labels["task"]) | {label: str(priority)}
        if found.encrypted:
            changes.pop("encrypted", None)
        await link.call(ChangeTopic(topic, {**changes, "labels": labels}))
    return msgspec.structs.replace(options, priority=priority)


def _changed(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in after.items() if before[name] != value}


async def clear(call: Call) -> Cleared:
    query: PartitionQuery = call.query
    queue = call.params["queue"]
    topic = TopicName(namespace_of(call.link), queue)
    if not query.partition:
        return Cleared(True, await call.link.call(PurgeTopic(topic)), queue, "all")
    call.link.check(PurgeTopic(topic))
    count, some = 0, list[MessageRef]()
    async for ref in each_message(call.link, topic, query.partition):
        some.append(ref)
        if len(some) == _DELETED_AT_ONCE:
            count += await _delete_all(call.link, some)
            some = []
    return Cleared(True, count + await _delete_all(call.link, some), queue, query.partition)


async def _delete_all(link: AuthorizedLink, refs: list[MessageRef]) -> int:
    """How many of them were there. What is asked for in one turn is one commit."""
    answers = await asyncio.gather(*(_delete(link, ref) for ref in refs))
    return sum(answers)


async def _delete(link: AuthorizedLink, ref: MessageRef) -> bool:
    try:
        await link.call(DeleteMessage(ref))
    except NotFoundError:
        return False  # retention was first
    return True


async def delete(call: Call) -> DeletedQueue:
    """One that is not there is as good as deleted: clients delete before they begin."""
    queue = call.params["queue"]
    topic = TopicName(namespace_of(call.link), queue)
    try:
        await call.link.call(DeleteTopic(topic))
    except NotFoundError:
        return DeletedQueue(True, queue, existed=False)
    return DeletedQueue(True, queue, existed=True)


CLEARING = (PurgeTopic, DeleteMessage, Scan, GetTopic)
