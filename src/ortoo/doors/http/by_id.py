"""Settling by ids, for clients that keep no receipts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from .call import Call
from .id_shapes import ByIdBody, FindBody, Found, IdResult, IdResults

Action = Literal["ack", "nack", "reject", "release", "extend"]
_OPTIONS: dict[Action, tuple[str, ...]] = {"nack": ("error", "delay"), "reject": ("error",), "extend": ("seconds",)}


def settle(action: Action) -> Callable[[Call], Awaitable[IdResults]]:
    async def handler(call: Call) -> IdResults:
        body: ByIdBody = call.body
        options: dict[str, Any] = {name: getattr(body, name) for name in _OPTIONS.get(action, ())}
        method = getattr(call.queue, f"{action}_by_id")
        states = await method(body.ids, dedup_ids=body.dedup_ids, topic=body.topic, group=body.group, **options)
        return IdResults(list(map(IdResult, body.ids + body.dedup_ids, states)))

    return handler


async def find(call: Call) -> Found:
    body: FindBody = call.body
    return Found(await call.queue.find_messages(body.dedup_ids, topic=body.topic, group=body.group))
