"""Administration of many partitions: a few in each turn of the event loop, for all connections together. Counted, not timed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ortoo.broker import heavy
from ortoo.broker.heavy import Line
from ortoo.broker.reader import Reader
from ortoo.engine import Engine
from ortoo.model import commands as c
from ortoo.model import queries as q
from ortoo.model.batch import Outgoing
from ortoo.model.names import TopicName
from ortoo.model.topic import TopicConfig
from ortoo.wire import protocol as p
from ortoo.wire.frames import encode_frame
from tests.doors.tcp.home import Home, Wire
from tests.turns import Turns, counting_turns

WIDE = TopicName("default", "wide")


@pytest.fixture
async def turns() -> AsyncIterator[Turns]:
    async with counting_turns() as turns:
        yield turns


@pytest.fixture
def decided(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Any]]:
    """In which turn each command was decided."""
    made: list[tuple[int, Any]] = []
    decide = Engine.decide

    def noted(engine: Engine, command: Any, now: int) -> Any:
        made.append((turns.count, c.unwrap(command)))
        return decide(engine, command, now)

    monkeypatch.setattr(Engine, "decide", noted)
    return made


def pipeline(wire: Wire, requests: list[Any]) -> None:
    wire.writer.write(b"".join(bytes(encode_frame((number, one))) for number, one in enumerate(requests, 1)))


async def answers(wire: Wire, count: int) -> list[tuple[int, int, Any]]:
    return [await wire.receive() for _ in range(count)]


def most_in_a_turn(decided: list[tuple[int, Any]], kind: type) -> int:
    return max(Counter(turn for turn, command in decided if type(command) is kind).values())


@pytest.mark.parametrize("wires", [1, 5])
async def test_a_turn_does_a_few_whoever_asks(home: Home, decided: list[tuple[int, Any]], wires: int) -> None:
    await home.queue.create_topic("wide", partitions=1_000)
    connected = [home.wire() for _ in range(wires)]
    opened = [await one.__aenter__() for one in connected]
    for wire in opened:
        pipeline(wire, [c.PurgeTopic(WIDE)] * 20)
    for wire in opened:
        assert {kind for kind, _, _ in await answers(wire, 20)} == {p.ANSWER}
    for one in connected:
        await one.__aexit__(None, None, None)
    assert most_in_a_turn(decided, c.PurgeTopic) <= 2 * heavy._UNITS // 1_000


async def test_offsets_of_many_partitions_are_found_in_turns(
    home: Home, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.queue.create_topic("wide", partitions=1_000)
    asked: list[int] = []
    offsets = Reader.offsets

    async def noted(reader: Reader, *args: Any) -> list[int]:
        asked.append(turns.count)
        return await offsets(reader, *args)

    monkeypatch.setattr(Reader, "offsets", noted)
    async with home.wire() as wire:
        pipeline(wire, [q.GetOffsets(WIDE, c.START)] * 50)
        await answers(wire, 50)
    assert max(Counter(asked).values()) <= 2


async def test_what_comes_behind_a_heavy_one_does_not_overtake_it(home: Home, decided: list[tuple[int, Any]]) -> None:
    publish = c.Publish(WIDE, Outgoing([b"x"]))
    requests: list[Any] = [c.CreateTopic(WIDE, TopicConfig(partitions=1_000))]
    for _ in range(10):
        requests += [publish, publish, c.PurgeTopic(WIDE), c.Seek(WIDE, "g", c.START)]
    async with home.wire() as wire:
        pipeline(wire, requests)
        told = await answers(wire, len(requests))
    assert [type(command) for _, command in decided if type(command) in set(map(type, requests))] == [
        type(request) for request in requests
    ]
    purged = [
        body
        for kind, number, body in sorted(told, key=lambda one: one[1])
        if requests[number - 1] == c.PurgeTopic(WIDE)
    ]
    assert purged == [2] * 10


async def test_others_are_served_meanwhile(home: Home, decided: list[tuple[int, Any]]) -> None:
    await home.queue.create_topic("wide", partitions=1_000)
    async with home.wire() as heavy_one, home.wire() as other:
        pipeline(heavy_one, [c.PurgeTopic(WIDE)] * 100)
        await asyncio.sleep(0)
        assert (await other.ask(c.Publish(TopicName("default", "t"), Outgoing([b"x"]))))[0] == p.ANSWER
        done = sum(type(command) is c.PurgeTopic for _, command in decided)
        await answers(heavy_one, 100)
    assert done < 100


async def test_a_connection_that_goes_while_it_waits_leaves_nothing_behind(home: Home) -> None:
    await home.queue.create_topic("wide", partitions=1_000)
    async with home.wire() as wire:
        pipeline(wire, [c.PurgeTopic(WIDE)] * 100)
    async with asyncio.timeout(60):
        while home.gate.connections or home.gate.budget.bytes or home.broker.line._waiting:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_the_first_to_come_is_the_first_to_go() -> None:
    line, gone = Line(), list[int]()
    for number in range(6):
        line.enter(heavy._UNITS, lambda number=number: gone.append(number))  # type: ignore[misc]
    assert gone == [0]
    for number in range(1, 6):
        await asyncio.sleep(0)
        assert gone == list(range(number + 1))


async def test_a_client_that_asks_request_by_request_waits_in_the_same_line(
    home: Home, decided: list[tuple[int, Any]]
) -> None:
    await home.queue.create_topic("wide", partitions=1_000)
    await asyncio.gather(*(home.gate.admit(None).call(c.PurgeTopic(WIDE)) for _ in range(20)))
    assert most_in_a_turn(decided, c.PurgeTopic) <= 2 * heavy._UNITS // 1_000
