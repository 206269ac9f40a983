"""Groups and their consumers."""

from __future__ import annotations

from ortoo.model.queries import GetTopic
from ortoo.model.replies import GroupInfo

from .call import Call
from .rendering import render
from .shapes import (
    GroupList,
    HeartbeatBody,
    LeaveAnywhereBody,
    LeaveBody,
    MessageList,
    NewGroup,
    Owned,
    SeekBody,
    StateQuery,
)


async def list_all(call: Call) -> GroupList:
    return GroupList((await call.link.ask(GetTopic(call.topic))).groups)


async def show(call: Call) -> GroupInfo:
    return await call.queue.group(call.params["topic"], call.params["group"])


async def create(call: Call) -> GroupInfo:
    body: NewGroup = call.body
    topic, group = call.params["topic"], call.params["group"]
    await call.queue.create_group(
        topic, group, body.start, offset=body.offset, time=body.time, ephemeral=body.ephemeral
    )
    return await call.queue.group(topic, group)


async def delete(call: Call) -> None:
    await call.queue.delete_group(call.params["topic"], call.params["group"])


async def seek(call: Call) -> None:
    body: SeekBody = call.body
    await call.queue.seek(
        call.params["topic"],
        call.params["group"],
        body.to,
        offset=body.offset,
        time=body.time,
        to_offset=body.to_offset,
        to_time=body.to_time,
    )


async def messages(call: Call) -> MessageList:
    query: StateQuery = call.query
    found = await call.queue.messages(
        call.params["topic"], group=call.params["group"], state=query.state, limit=query.limit
    )
    return MessageList([render(message) for message in found])


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
