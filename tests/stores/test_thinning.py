"""The memory store gives back what was superseded, also where a few messages that stay lie among very many that do not."""

from __future__ import annotations

import ortoo
from ortoo import Message
from ortoo.broker import Broker
from ortoo.stores.memory import MemoryStore

ROUNDS, EACH = 60, 1_000


async def test_the_memory_of_what_was_superseded_is_given_back() -> None:
    async with ortoo.open() as queue:
        await queue.create_topic("state", partitions=1, keep="latest")
        for number in range(ROUNDS):
            await queue.publish("state", b"cold", key=f"cold {number}")
            rows = [Message(b"hot %d" % number, key=f"hot {row % 10}") for row in range(EACH)]
            await queue.publish_many("state", rows)
        broker = queue._link
        assert isinstance(broker, Broker)
        assert isinstance(broker.store, MemoryStore)
        [log] = broker.store._logs.values()
        assert sum(len(segment) for segment in log.segments) < 3 * 8_192
        assert len(log.segments) <= 5
        values = [message.value async for message in queue.read("state")]
        assert sorted(values) == sorted([b"cold"] * ROUNDS + [b"hot %d" % (ROUNDS - 1)] * 10)
