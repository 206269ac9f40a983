"""Asking for every route of a dialect in the name of a role."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec

from ortoo.doors.http.routing import Dialect
from tests.dialects.goqueue.home import Home, serving
from tests.dialects.goqueue.samples import handle_of
from tests.doors.roles import OURS, Roles


async def furnish(home: Home) -> dict[str, str]:
    """A topic with a message that is leased and one that is dead; and what stands for these in samples."""
    queue = home.queue
    await queue.create_topic("orders", namespace=OURS)
    await queue.publish_many("orders", [b"1", b"2"], namespace=OURS)
    [dead] = await queue.lease("orders", namespace=OURS, group="g")
    await queue.reject(dead)
    [letter] = await queue.dead_letters("orders", namespace=OURS)
    [leased] = await queue.lease("orders", namespace=OURS, group="g", lease=300)
    return {"{receipt}": handle_of(leased.receipt), "{dead}": letter.id}


def filled(sample: Any, known: dict[str, str]) -> Any:
    text = msgspec.json.encode(sample).decode()
    for name, value in known.items():
        text = text.replace(name, value)
    return msgspec.json.decode(text)


async def ask_all(dialect: Dialect, samples: dict[tuple[str, str], Any], role: str) -> dict[str, httpx.Response]:
    """Each of a queue of its own, and on a port of its own."""
    answers = {}
    for route in (*dialect.routes, *dialect.own_routes):
        if not route.does:
            continue
        async with serving(dialect, access=Roles()) as home:
            sample = filled(samples[route.method, route.path], await furnish(home))
            path = route.path.format(**sample["params"])
            answers[f"{route.method} {route.path}"] = await home.own.request(
                route.method,
                f"{path}?{sample['query']}",
                json=sample["body"],
                headers={"authorization": f"Bearer {role}"},
            )
    return answers
