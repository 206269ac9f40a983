"""A topic that is filled, purged and deleted, and one whose files are damaged, in a simulation on disk."""

from __future__ import annotations

from random import Random

from ortoo.client import Queue
from ortoo.model.message import Message


async def scratch(queue: Queue, random: Random, topic: str, frail: str) -> None:
    how = random.choice(["fill", "fill", "fill", "fill", "id", "id", "frail", "frail", "purge", "delete"])
    values = [random.randbytes(8_000) for _ in range(random.randint(1, 3))]
    dedup_id = f"s{random.randint(1, 20)}"
    if how == "fill":
        await queue.publish_many(topic, [Message(value) for value in values])
    elif how == "id":
        await queue.publish(topic, b"once", dedup_id=dedup_id)
    elif how == "frail":
        await queue.publish(frail, b"frail")
    elif how == "purge":
        await queue.purge(topic)
    elif random.random() < 0.3:
        await queue.delete_topic(topic)
