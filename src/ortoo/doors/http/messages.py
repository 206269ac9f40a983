"""Single messages, by their ids."""

from __future__ import annotations

from ortoo.model.replies import Trace

from .call import Call
from .rendering import render
from .shapes import DeadLetterBody, MessageDetail, RetryBody


async def show(call: Call) -> MessageDetail:
    info = await call.queue.message(call.params["id"])
    return MessageDetail(render(info.message), info.states)


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
