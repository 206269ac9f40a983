"""Do long polls wait for messages, and for queues, and leave nothing behind?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.dialects.queen.home import Home


def data(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["data"] for message in messages]


async def test_a_poll_waits_for_a_message(home: Home) -> None:
    await home.configure("q")
    waiting = asyncio.create_task(home.pop("q", wait="true", timeout=30_000))
    while not len(home.broker.waiters):  # noqa: ASYNC110
        await asyncio.sleep(0)
    await home.push("q", 1)
    assert data(await waiting) == [1]


@pytest.mark.parametrize("mode", ["all", "new"])
async def test_a_poll_waits_for_a_queue(home: Home, mode: str) -> None:
    query: dict[str, Any] = {"wait": "true", "timeout": 30_000, "consumerGroup": "g", "subscriptionMode": mode}
    waiting = asyncio.create_task(home.pop("q", **query))
    await asyncio.sleep(0.1)
    await home.push("q", 1)
    assert data(await waiting) == [1]


async def test_a_poll_ends_with_nothing(home: Home) -> None:
    await home.configure("q")
    for queue in ("q", "nosuch"):
        assert await home.get(f"/pop/queue/{queue}", 204, wait="true", timeout=20) is None


async def test_what_comes_for_a_client_that_left_is_for_others(home: Home) -> None:
    await home.configure("q")
    waiting = asyncio.create_task(home.pop("q", wait="true"))
    while not len(home.broker.waiters):  # noqa: ASYNC110
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    while len(home.broker.waiters):  # noqa: ASYNC110
        await asyncio.sleep(0)
    await home.push("q", 1)
    [message] = await home.pop("q")
    assert message["retryCount"] == 0


async def test_many_polls_on_many_queues(home: Home) -> None:
    for number in range(200):
        await home.configure(f"q{number}")
    async with asyncio.TaskGroup() as group:
        polls = [group.create_task(home.pop(f"q{number}", wait="true")) for number in range(200)]
        while len(home.broker.waiters) < 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        items = [{"queue": f"q{number}", "payload": number} for number in range(200)]
        await home.post("/push", {"items": items}, 201)
    assert [data(poll.result()) for poll in polls] == [[number] for number in range(200)]
