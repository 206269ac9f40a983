"""Are turns shared so that nobody takes all of them, and is none lost?"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from ortoo.app.turns import Turns


class Clients:
    """Each takes a turn and holds it until it is told to go."""

    def __init__(self, most: int) -> None:
        self.turns = Turns(most)
        self.holding: list[str] = []
        self._go: dict[str, asyncio.Queue[None]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def come(self, *namespaces: str) -> None:
        self.tasks += [asyncio.create_task(self._take(name)) for name in namespaces]
        await settle()

    async def _take(self, namespace: str) -> None:
        async with self.turns.turn(namespace):
            self.holding.append(namespace)
            try:
                await self._go.setdefault(namespace, asyncio.Queue()).get()
            finally:
                self.holding.remove(namespace)

    async def go(self, namespace: str) -> None:
        self._go.setdefault(namespace, asyncio.Queue()).put_nowait(None)
        await settle()

    async def __aenter__(self) -> Clients:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_that_is_alone_gets_half_and_the_next_half_of_the_rest() -> None:
    async with Clients(8) as clients:
        await clients.come(*["a"] * 10, *["b"] * 10, *["c"] * 10)
        assert (clients.holding.count("a"), clients.holding.count("b"), clients.holding.count("c")) == (4, 2, 1)
        await clients.come("d")
        assert "d" in clients.holding


async def test_a_turn_goes_to_who_holds_the_fewest() -> None:
    async with Clients(8) as clients:
        await clients.come(*["a"] * 10, *["b"] * 10, *["c"] * 10, "d", "e")
        assert "e" not in clients.holding
        await clients.go("a")
        assert "e" in clients.holding


async def test_among_those_that_hold_as_many_the_one_served_last_comes_last() -> None:
    async with Clients(1) as clients:
        await clients.come("a", "a", "a", "b", "b")
        order = []
        for _ in range(5):
            [now] = clients.holding
            order.append(now)
            await clients.go(now)
        assert order == ["a", "a", "b", "a", "b"]


async def test_who_is_cancelled_while_waiting_leaves_no_turn_taken() -> None:
    async with Clients(2) as clients:
        await clients.come("a", "a", "a")
        clients.tasks[1].cancel()
        await clients.go("a")
        assert clients.holding == ["a"]
        clients.tasks[2].cancel()
        await settle()
        await clients.come("a")
        assert clients.holding == ["a"]


async def test_a_turn_given_in_the_moment_of_a_cancellation_goes_on_to_the_next() -> None:
    turns = Turns(1)
    async with AsyncExitStack() as held:
        await held.enter_async_context(turns.turn("a"))
        waits = asyncio.create_task(turns.turn("a").__aenter__())
        await settle()
        await held.aclose()  # gives it to the task, which has not run yet
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
    async with asyncio.timeout(5), turns.turn("a"):
        pass
