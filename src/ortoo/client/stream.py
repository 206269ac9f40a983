"""What `consume` and its kind give: an iterator that can also be held in `async with`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")


class Stream(AsyncIterator[T]):
    """Iterate it as it is, or hold it: `async with queue.consume("orders") as messages: async for message in messages: ...`

    Held, it has begun when the block begins (a subscriber misses nothing from there on), and has given back what it had
    leased ahead when the block ends. Iterated as it is, it begins with the first message asked for, and gives back what it
    had leased ahead soon after the loop is left.
    """

    def __init__(self, items: AsyncGenerator[T, None], begin: Callable[[], Awaitable[None]] | None = None) -> None:
        self._items = items
        self._begin = begin

    async def __aenter__(self) -> Stream[T]:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[T]:
        return self if self._begin is not None else self._items  # without a step between, for each message

    async def __anext__(self) -> T:
        await self._start()
        return await anext(self._items)

    async def _start(self) -> None:
        begin, self._begin = self._begin, None
        if begin is not None:
            await begin()

    async def aclose(self) -> None:
        await self._items.aclose()
