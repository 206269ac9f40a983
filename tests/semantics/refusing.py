"""Refused: the right error, with words that say what to do, and nothing is changed."""

from collections.abc import Awaitable, Callable

import pytest

from ortoo import Queue

Call = Callable[[Queue], Awaitable[object]]


async def refused(queue: Queue, call: Call, error: type[Exception], words: str) -> None:
    before = (await queue.topics(), await queue.stats())
    with pytest.raises(error, match=words):
        await call(queue)
    after = (await queue.topics(), await queue.stats())
    assert after == before
