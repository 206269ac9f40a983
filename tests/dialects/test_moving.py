"""Do the programs that the pages of docs/coming-from give move the data over?

The system that they move from is played by a dialect on a port of its own: it answers what that system's document promises.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.goqueue.home import serving as goqueue
from tests.dialects.mqueue.home import serving as mqueue
from tests.dialects.queen.home import serving as queen

PAGES = Path(__file__).parents[2] / "docs" / "coming-from"
_PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)


def program(page: str) -> dict[str, Any]:
    """What the program of a page defines."""
    text = (PAGES / page).read_text().partition("## Moving the data over")[2]
    [code] = _PROGRAM.findall(text)
    found: dict[str, Any] = {"__name__": "move"}
    exec(compile(code, page, "exec"), found)
    return found


async def test_from_queen() -> None:
    pytest.importorskip("queen")
    async with queen() as old, queen() as new:
        for number in range(5):
            await old.push("q", {"number": number}, partition="A" if number < 3 else "B", transactionId=f"id-{number}")
        for home in (old, new):
            await home.configure("q")
        await new.push("q", {"number": 0}, partition="A", transactionId="id-0")  # moved before
        await program("queen.md")["move"]("q", old.own_url, new.own_url)
        assert await old.pop("q") == []
        found = [(await new.pop("q", name, batch=10)) for name in "AB"]
        assert [[message["data"]["number"] for message in some] for some in found] == [[0, 1, 2], [3, 4]]
        assert [message["transactionId"] for message in found[0]] == ["id-0", "id-1", "id-2"]


async def test_from_mqueue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQUEUE_TOKEN", "theirs")
    place = {"namespace": "n", "topic": "a b"}
    async with mqueue() as old, mqueue() as new:
        items = [
            {**place, "payload": "eA==", "priority": number % 2, "metadata": {"n": number}} for number in range(250)
        ]
        items[0]["idempotency_key"] = "k"
        await old.own.post("/enqueue", json=items)
        move = program("mqueue.md")["move"]
        for _ in range(2):  # the second time there is nothing left
            await asyncio.to_thread(move, old.own_url, new.own_url, "n", "a b")
        assert (await old.queue.group("a b", "default", namespace="n")).backlog == 0
        found = (await new.own.get("/dequeue", params={**place, "limit": 1_000})).json()
        assert [item["Metadata"]["n"] for item in found] == [*range(0, 250, 2), *range(1, 250, 2)]
        assert {item["Priority"] for item in found} == {0, 1}
        assert found[0]["IdempotencyKey"] == "k"
        assert found[1]["IdempotencyKey"].startswith("mqueue-")


async def test_from_goqueue() -> None:
    async with goqueue() as old, goqueue() as new:
        for home in (old, new):
            await home.post("/topics", {"name": "or/ders", "num_partitions": 3}, 201)
        messages = [
            {"value": f"v{number}", "key": f"k{number % 7}", "priority": "high" if number % 5 else "low"}
            for number in range(2_500)
        ]
        await old.post("/topics/or%2Fders/messages", {"messages": messages})
        await asyncio.to_thread(program("goqueue.md")["move"], old.own_url, new.own_url, "or/ders", 3)
        for partition in range(3):
            path = f"/topics/or%2Fders/partitions/{partition}/messages"
            pages = [await home.get(path, limit=1_000) for home in (old, new)]
            fields = ("offset", "key", "value", "priority")
            there, here = ([[each[name] for name in fields] for each in page["messages"]] for page in pages)
            assert there == here
            assert pages[0]["next_offset"] == pages[1]["next_offset"]


async def test_from_goqueue_what_is_refused_ends_it() -> None:
    async with goqueue() as old, goqueue() as new:
        await old.queue.create_topic("t", partitions=1, max_message_bytes=100)
        await new.queue.create_topic("t", partitions=1, max_message_bytes=10)
        await old.post("/topics/t/messages", {"messages": [{"value": "x" * 50}]})
        with pytest.raises((SystemExit, OSError)):
            await asyncio.to_thread(program("goqueue.md")["move"], old.own_url, new.own_url, "t", 1)
