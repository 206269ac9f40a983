"""Are queues made, changed and watched through `$admin/queue`?

Document, Admin topics: `$admin/queue/create`, `$admin/queue/NAME/config`, `$admin/queue/NAME/stats`; Configuration guidelines:
the bodies and the defaults. That a request with a response topic is answered there is ours.
"""

from __future__ import annotations

import msgspec
import pytest

import ortoo

from .brokers import Broker
from .client import Properties
from .joining import Join, Kind
from .queues import FAILURE, put

PAHO = Kind("paho", 5)


pytestmark = pytest.mark.usefixtures("queues")


async def test_a_queue_is_made_as_it_is_described(broker: Broker, join: Join, name: str) -> None:
    body = {
        "name": f"$queue/{name}",
        "partitions": 4,
        "ordering": "partition",
        "retry_policy": {"max_retries": 2, "initial_backoff": "1s", "max_backoff": "1m", "backoff_multiplier": 3.0},
        "limits": {"max_message_size": 1000, "max_queue_depth": 50, "message_ttl": "24h"},
        "performance": {"delivery_timeout": "60s"},
    }
    admin = await join(PAHO)
    await admin.subscribe(f"{name}/answers")
    asked = Properties(response_topic=f"{name}/answers", correlation_data=b"1")
    assert await admin.publish("$admin/queue/create", msgspec.json.encode(body), properties=asked) == 0
    answer = await admin.receive()
    assert answer.properties.correlation_data == b"1"
    assert msgspec.json.decode(answer.payload)["name"] == f"$queue/{name}"
    async with ortoo.connect(broker.ortoo) as ours:
        config = (await ours.topic(name)).config
    assert (config.partitions, config.ordering, config.max_attempts) == (4, "partition", 3)
    assert (config.backoff_initial, config.backoff_max, config.backoff_factor) == (1, 60, 3)
    assert (config.max_message_bytes, config.max_depth, config.ttl, config.lease) == (1000, 50, 86_400, 60)
    assert await admin.publish("$admin/queue/create", msgspec.json.encode(body)) >= FAILURE  # it exists


@pytest.mark.parametrize("how", ["publishing", "subscribing"])
async def test_a_queue_that_is_only_used_has_the_defaults_of_the_document(
    broker: Broker, join: Join, how: str, name: str
) -> None:
    client = await join(PAHO)
    if how == "publishing":
        await put(client, name, b"1")
    else:
        await client.subscribe(f"$queue/{name}")
    async with ortoo.connect(broker.ortoo) as ours:
        config = (await ours.topic(name)).config
    assert (config.partitions, config.ordering, config.max_attempts) == (10, "partition", 11)
    assert (config.backoff_initial, config.backoff_max, config.backoff_factor) == (5, 300, 2)
    assert (config.total_timeout, config.ttl, config.lease) == (10_800, 7 * 86_400, 30)
    assert (config.max_depth, config.max_message_bytes, config.dlq) == (100_000, 1024 * 1024, True)


async def test_a_queue_is_changed(broker: Broker, join: Join, name: str) -> None:
    client = await join(PAHO)
    await put(client, name, b"1")
    change = {"retry_policy": {"max_retries": 1}, "performance": {"delivery_timeout": "2m"}}
    assert await client.publish(f"$admin/queue/{name}/config", msgspec.json.encode(change)) == 0
    async with ortoo.connect(broker.ortoo) as ours:
        config = (await ours.topic(name)).config
    assert (config.max_attempts, config.lease, config.partitions) == (2, 120, 10)
    assert await client.publish(f"$admin/queue/{name}/config", b'{"partitions": "many"}') >= FAILURE
    assert await client.publish(f"$admin/queue/{name}/config", b"{") >= FAILURE


async def test_a_queue_is_watched(join: Join, name: str) -> None:
    client = await join(PAHO)
    for number in range(3):
        await put(client, name, b"%d" % number)
    await client.subscribe(f"$admin/queue/{name}/stats")
    found = await client.receive()
    assert found.topic == f"$admin/queue/{name}/stats"
    assert msgspec.json.decode(found.payload)["depth"] == 3


async def test_what_does_not_exist_is_refused(join: Join, name: str) -> None:
    client = await join(PAHO)
    assert await client.publish(f"$admin/queue/{name}/config", b"{}") >= FAILURE
    assert await client.publish("$admin/queue/destroy", b"{}") >= FAILURE
