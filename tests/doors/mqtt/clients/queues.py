"""Durable queues as a client of MQTT uses them."""

from __future__ import annotations

import ortoo
from tests.doors.tcp.home import until

from .client import WAIT_SECONDS, Client, Message, Properties

FAILURE = 0x80


def user(**pairs: str) -> tuple[tuple[str, str], ...]:
    return tuple((name.replace("_", "-"), value) for name, value in pairs.items())


def ids_of(message: Message) -> list[str]:
    return message.properties.values("message-id")


async def consume(client: Client, name: str, group: str = "workers") -> int:
    return await client.subscribe(f"$queue/{name}", 1, user=user(consumer_group=group))


async def put(client: Client, name: str, payload: bytes, **instructions: str) -> int:
    return await client.publish(f"$queue/{name}", payload, properties=Properties(user(**instructions)))


async def settle(client: Client, name: str, how: str, *messages: Message, **more: str) -> int:
    """`how` is ack, nack or reject."""
    named = tuple(("message-id", one) for message in messages for one in ids_of(message))
    return await client.publish(f"$queue/{name}/${how}", properties=Properties(named + user(**more)))


async def all_done(ours: ortoo.Queue, name: str, group: str) -> None:
    """Returns when the group has settled all that there is."""

    async def is_done() -> bool:
        return (await ours.group(name, group)).backlog == 0

    await until(is_done, WAIT_SECONDS)
