"""Dead letters may be more than fit in memory: they are looked at page by page, through every door. Counted in bytes."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ortoo import NotFoundError, Queue
from ortoo.client import dead_letters
from ortoo.engine import Engine
from ortoo.model import commands as c
from ortoo.stores.memory import MemoryStore
from ortoo.stores.postgres import PostgresStore

from .actors import publish, take, values

LETTERS, SIZE = 60, 1_000


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is read, in bytes of values, and which letters are redriven or deleted, in order."""
    monkeypatch.setattr(dead_letters, "_PAGE_BYTES", 5 * SIZE, raising=False)
    found: list[Any] = []
    decide = Engine.decide

    def counted(read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def reading(*args: Any) -> Any:
            columns = await read(*args)
            found.append(sum(map(len, columns.values)))
            return columns

        return reading

    def decided(engine: Engine, command: c.Command, now: int) -> Any:
        if isinstance(c.unwrap(command), c.Redrive | c.DeleteMessage):
            found.append(c.unwrap(command))
        return decide(engine, command, now)

    for store in (MemoryStore, PostgresStore):
        monkeypatch.setattr(store, "read", counted(store.read))
    monkeypatch.setattr(Engine, "decide", decided)
    return found


async def fill(queue: Queue) -> list[str]:
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", *(b"%d" % (n % 10) * SIZE for n in range(LETTERS)))
    for _ in range(LETTERS // 10):
        await queue.reject(await take(queue, "orders", 10))
    return [letter.id for letter in await queue.dead_letters("orders")]


def most_held(happened: list[Any]) -> int:
    """The most that was read before something was done with it."""
    held = most = 0
    for one in happened:
        held = held + one if isinstance(one, int) else 0
        most = max(most, held)
    return most


async def test_redriving_all_keeps_one_page_at_a_time(queue: Queue, happened: list[Any]) -> None:
    await fill(queue)
    happened.clear()
    assert await queue.redrive("orders") == LETTERS
    assert most_held(happened) <= 20 * SIZE
    assert len(await take(queue, "orders")) == LETTERS


async def test_purging_keeps_one_page_at_a_time(queue: Queue, happened: list[Any]) -> None:
    await fill(queue)
    happened.clear()
    assert await queue.purge_dead_letters("orders") == LETTERS
    assert most_held(happened) <= 20 * SIZE
    assert await queue.dead_letters("orders") == []


async def test_redriving_some_reads_only_those(queue: Queue, happened: list[Any]) -> None:
    ids = await fill(queue)
    happened.clear()
    assert await queue.redrive("orders", [ids[7], ids[3], ids[7]]) == 2
    assert sum(one for one in happened if isinstance(one, int)) == 2 * SIZE
    assert values(await take(queue, "orders")) == [b"3" * SIZE, b"7" * SIZE]


async def test_what_is_no_dead_letter_of_the_topic_is_not_redriven(queue: Queue, happened: list[Any]) -> None:
    """Neither are the others then."""
    ids = await fill(queue)
    [other] = await publish(queue, "other", b"x", headers={"ortoo-origin": "1.0.0", "ortoo-group": "default"})
    topic = ids[0].partition(".")[0]
    happened.clear()
    for wrong in ("9.9.9", other.id, f"{topic}.0.{LETTERS}", f"{topic}.1.0"):
        with pytest.raises(NotFoundError, match=f"'orders' has no dead letter {wrong}"):
            await queue.redrive("orders", [ids[0], wrong])
    assert not [one for one in happened if isinstance(one, c.Redrive)]


async def test_what_fails_meanwhile_is_not_chased(queue: Queue, happened: list[Any]) -> None:
    """Else a group that fails whatever it gets would keep a redrive going for ever."""
    await fill(queue)
    take_some = dead_letters.DeadLetters.take
    late = 0

    async def failing(letters: dead_letters.DeadLetters) -> Any:
        nonlocal late
        found = await take_some(letters)
        if found is not None:
            late += 1
            await publish(queue, "orders", b"late")
            [message] = [one for one in await take(queue, "orders") if one.value == b"late"]
            await message.reject()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dead_letters.DeadLetters, "take", failing)
        assert await queue.redrive("orders") == LETTERS
    assert values(await queue.dead_letters("orders")) == [b"late"] * late
    assert late > 2
