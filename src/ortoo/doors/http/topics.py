"""Topics, their groups, and the consumers of these."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from ortoo.broker.turns import Turns
from ortoo.client.admin import to_position
from ortoo.model.browsing import SeekPreview
from ortoo.model.errors import InvalidError
from ortoo.model.masking import shown_settings
from ortoo.model.queries import GetOffsets, GetTopic, ListKeys
from ortoo.model.replies import GroupInfo, KeysFound, TopicInfo

from .call import Call, InNamespace
from .operator_shapes import PauseBody, SeekOrPreviewBody
from .paging import PageQuery, TopicsQuery
from .shapes import Count, OffsetsQuery
from .topic_shapes import (
    Affected,
    ArchivedBody,
    GroupList,
    HeartbeatBody,
    LeaveAnywhereBody,
    LeaveBody,
    NewGroup,
    Offsets,
    Owned,
    TopicSettings,
    TopicView,
)

_encode = msgspec.json.Encoder().encode


class KeysQuery(InNamespace, kw_only=True):
    limit: Count = 1000


def view(info: TopicInfo, *, is_brief: bool = False) -> TopicView:
    fields = {name: getattr(info, name) for name in TopicView.__struct_fields__}
    if is_brief:
        return TopicView(**{**fields, "config": UNSET, "partitions": UNSET, "groups": UNSET})
    fields["config"] = TopicSettings(**shown_settings(info.config))
    return TopicView(**fields)


async def create(call: Call) -> TopicView:
    settings: dict[str, Any] = call.body
    name, exist_ok = settings.pop("name", None), settings.pop("exist_ok", True)
    if not isinstance(name, str):
        raise InvalidError("a topic needs a name, as a string")
    if not isinstance(exist_ok, bool):
        raise InvalidError("exist_ok is true or false")
    if "namespace" in settings:
        raise InvalidError("the namespace belongs in the query: POST /v1/topics?namespace=NAME")
    return view(await call.queue.create_topic(name, exist_ok=exist_ok, **settings))


async def list_all(call: Call) -> bytes:
    """A `TopicList`, written in turns: of a thousand topics it is a megabyte."""
    query: TopicsQuery = call.query
    written, turns = [], Turns()
    found = await call.queue.topics_page(limit=query.limit, next=query.next)
    for info in found.topics:
        written.append(_encode(view(info, is_brief=query.view == "brief")))
        await turns.worked(len(info.partitions) * (1 + len(info.groups)))
    return b'{"topics":[%b],"next":%b}' % (b",".join(written), _encode(found.next))


async def show(call: Call) -> TopicView:
    return view(await call.link.ask(GetTopic(call.topic)), is_brief=call.query.view == "brief")


async def change(call: Call) -> TopicView:
    if "namespace" in call.body:
        raise InvalidError("a topic stays in its namespace")
    return view(await call.queue.update_topic(call.params["topic"], **call.body))


async def delete(call: Call) -> None:
    await call.queue.delete_topic(call.params["topic"], if_id=call.query.if_id)


async def purge(call: Call) -> Affected:
    return Affected(await call.queue.purge(call.params["topic"], if_id=call.query.if_id))


async def offsets(call: Call) -> Offsets:
    query: OffsetsQuery = call.query
    at = "end" if query.time is None and query.at is None else query.at
    return Offsets(await call.link.ask(GetOffsets(call.topic, to_position(at, None, query.time))))


async def mark_archived(call: Call) -> Offsets:
    body: ArchivedBody = call.body
    return Offsets(await call.queue.mark_archived(call.params["topic"], body.ends))


# -- groups and their consumers


async def list_groups(call: Call) -> GroupList:
    query: PageQuery = call.query
    found = await call.queue.groups_page(call.params["topic"], limit=query.limit, next=query.next)
    return GroupList(found.groups, found.next)


async def show_group(call: Call) -> GroupInfo:
    return await call.queue.group(call.params["topic"], call.params["group"])


async def create_group(call: Call) -> GroupInfo:
    body: NewGroup = call.body
    topic, group = call.params["topic"], call.params["group"]
    await call.queue.create_group(
        topic, group, body.start, offset=body.offset, time=body.time, ephemeral=body.ephemeral
    )
    return await call.queue.group(topic, group)


async def delete_group(call: Call) -> None:
    await call.queue.delete_group(call.params["topic"], call.params["group"])


async def seek(call: Call) -> SeekPreview | None:
    body: SeekOrPreviewBody = call.body
    place = {"offset": body.offset, "time": body.time, "to_offset": body.to_offset, "to_time": body.to_time}
    names = call.params["topic"], call.params["group"]
    if body.dry_run:
        return await call.queue.preview_seek(*names, body.to, **place)  # type: ignore[arg-type]  # each as its field is
    await call.queue.seek(*names, body.to, **place)  # type: ignore[arg-type]
    return None


async def pause(call: Call) -> GroupInfo:
    body: PauseBody = call.body
    names = call.params["topic"], call.params["group"]
    await call.queue.pause_group(*names, seconds=body.seconds, reason=body.reason)
    return await call.queue.group(*names)


async def resume(call: Call) -> GroupInfo:
    names = call.params["topic"], call.params["group"]
    await call.queue.resume_group(*names)
    return await call.queue.group(*names)


async def list_keys(call: Call) -> KeysFound:
    query: KeysQuery = call.query
    return await call.link.ask(ListKeys(call.topic, call.params["group"], query.limit))


async def heartbeat(call: Call) -> Owned:
    body: HeartbeatBody = call.body
    topic, group = call.params["topic"], call.params["group"]
    return Owned(await call.queue.heartbeat(topic, group, body.consumer, session=body.session))


async def leave(call: Call) -> None:
    body: LeaveBody = call.body
    await call.queue.leave(body.consumer, call.params["topic"], call.params["group"])


async def leave_anywhere(call: Call) -> None:
    body: LeaveAnywhereBody = call.body
    await call.queue.leave(body.consumer, body.topic, body.group)
