"""Whoever waits for tasks in the background waits for all of them, and not for ever."""

from __future__ import annotations

import asyncio

from ortoo.client.background import Background


async def test_tasks_that_have_ended_are_not_waited_for_again() -> None:
    """Also in the turn in which they end, before the event loop has told of it."""
    tasks = Background()
    ended = asyncio.Event()

    async def work() -> None:
        ended.set()

    tasks.start(work())
    async with asyncio.timeout(60):
        await ended.wait()
        await tasks.drain()
    assert not tasks


async def test_what_is_started_meanwhile_is_waited_for_too() -> None:
    tasks = Background()
    done: list[int] = []

    async def work(left: int) -> None:
        await asyncio.sleep(0)
        if left:
            tasks.start(work(left - 1))
        done.append(left)

    tasks.start(work(3))
    await tasks.drain()
    assert done == [3, 2, 1, 0]


async def test_one_that_was_cancelled_has_ended() -> None:
    tasks = Background()

    async def cancel() -> None:
        raise asyncio.CancelledError

    tasks.start(cancel())
    await tasks.drain()
    assert not tasks
