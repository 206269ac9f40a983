"""Are durable queues there for clients of MQTT: groups, acks, retries, dead letters?

Docstrings say where a claim comes from: "Document" is that of MQTT durable queues, with its section; "Ours" is a choice that it
leaves open.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import ortoo

from .brokers import Broker
from .client import WAIT_SECONDS, Client, Properties
from .joining import SOME, Join, Kind, able
from .line import Line
from .programs import listening, publish
from .queues import FAILURE, all_done, consume, ids_of, put, settle, user

FIVE = able(versions=(5,))
PAHO, OLD = Kind("paho", 5), Kind("paho", 4)


pytestmark = pytest.mark.usefixtures("queues")


async def test_the_first_example(broker: Broker, name: str) -> None:
    """With mosquitto's programs, and the same message through our own client."""
    queue = f"tasks/{name}"
    subscription = ["-V", "mqttv5", "-t", f"$queue/{queue}", "-q", "1"]
    group = ["-D", "subscribe", "user-property", "consumer-group", "workers"]
    key = ["-D", "publish", "user-property", "partition-key", "user-123"]
    async with listening(broker.tcp, *subscription, *group) as worker:
        await publish(broker.tcp, "-V", "mqttv5", "-t", f"$queue/{queue}", "-q", "1", "-m", "job", *key)
        assert await worker.line() == "job"
    async with ortoo.connect(broker.ortoo) as ours:
        [message] = await ours.lease(queue, group="audit", wait=10)
    assert (message.value, message.key) == (b"job", "user-123")


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_a_message_is_delivered_with_an_id_and_what_its_publisher_said(join: Join, kind: Kind, name: str) -> None:
    """Document, Acknowledgment topics: `message-id`. Its Request/Response use case needs the rest."""
    producer, worker = await join(kind), await join(kind)
    assert await consume(worker, name) == 1
    sent = Properties(
        user=(("partition-key", "user-123"), ("z", "1"), ("a", "2")),
        content_type="text/plain",
        response_topic="replies/7",
        correlation_data=b"\x00\x07",
    )
    assert await producer.publish(f"$queue/{name}", b"job", properties=sent) == 0
    found = await worker.receive()
    assert (found.topic, found.payload, found.qos) == (f"$queue/{name}", b"job", 1)
    assert len(ids_of(found)) == 1
    assert found.properties.user[:3] == sent.user
    assert (found.properties.content_type, found.properties.response_topic) == ("text/plain", "replies/7")
    assert found.properties.correlation_data == b"\x00\x07"


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_what_is_acked_is_done(broker: Broker, join: Join, kind: Kind, name: str) -> None:
    """Document, Acknowledgment types: `$ack`, DELETED, which here is: done for this group."""
    producer, worker = await join(kind), await join(kind)
    await consume(worker, name)
    await put(producer, name, b"1")
    assert await settle(worker, name, "ack", await worker.receive()) == 0
    async with ortoo.connect(broker.ortoo) as ours:
        assert (await ours.group(name, "workers")).backlog == 0


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_what_is_not_acked_goes_to_another_member(join: Join, kind: Kind, name: str, line: Line) -> None:
    """Document, Overview: at-least-once delivery. That a lost connection gives messages back at once is ours."""
    producer, first = await join(kind), await join(kind, through=line)
    await consume(first, name)
    await put(producer, name, b"1")
    lost = await first.receive()
    line.cut()
    second = await join(kind)
    await consume(second, name)
    again = await second.receive()
    assert (again.payload, ids_of(again)) == (b"1", ids_of(lost))


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_what_is_nacked_comes_again_at_once(join: Join, kind: Kind, name: str) -> None:
    """Document, Acknowledgment types: `$nack`, retry immediately."""
    producer, worker = await join(kind), await join(kind)
    await consume(worker, name)
    await put(producer, name, b"1")
    first = await worker.receive()
    assert await settle(worker, name, "nack", first) == 0
    again = await worker.receive()
    assert (again.payload, ids_of(again)) == (b"1", ids_of(first))


async def test_a_nack_may_come_before_the_puback(join: Join, name: str) -> None:
    """Ours: a library sends its PUBACK when it likes; what is nacked comes again in any case."""
    producer, worker = await join(PAHO), await join(PAHO, acks_by_hand=True)
    await consume(worker, name)
    await put(producer, name, b"1")
    first = await worker.receive()
    await settle(worker, name, "nack", first)
    await worker.ack(first)
    assert ids_of(await worker.receive()) == ids_of(first)


async def test_a_nack_may_ask_for_a_pause(broker: Broker, join: Join, name: str) -> None:
    """Ours: the user property `delay`. What is published meanwhile is first, where the order does not matter."""
    async with ortoo.connect(broker.ortoo) as ours:
        await ours.create_topic(name, ordering="none")
    producer, worker = await join(PAHO), await join(PAHO)
    await consume(worker, name)
    await put(producer, name, b"1")
    await settle(worker, name, "nack", await worker.receive(), delay="1s")
    await put(producer, name, b"2")
    assert [message.payload for message in await worker.receive_many(2)] == [b"2", b"1"]


async def test_a_nack_is_counted(join: Join, broker: Broker, name: str) -> None:
    """Document, Retry policy: after `max_retries` retries a message is moved to the dead letters."""
    async with ortoo.connect(broker.ortoo) as ours:
        await ours.create_topic(name, max_attempts=3)
    producer, worker, undertaker = await join(PAHO), await join(PAHO), await join(PAHO)
    await consume(worker, name)
    await consume(undertaker, f"dlq/{name}")
    await put(producer, name, b"1")
    for _ in range(3):
        await settle(worker, name, "nack", await worker.receive())
    assert (await undertaker.receive()).payload == b"1"
    assert await worker.nothing_more()


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_what_is_rejected_is_among_the_dead_letters(
    broker: Broker, join: Join, kind: Kind, name: str, line: Line
) -> None:
    """Document, Dead-letter queue topics: `$queue/dlq/NAME`. That it is consumed and settled as any queue is ours."""
    producer, worker, undertaker = await join(kind), await join(kind), await join(kind)
    await consume(worker, name)
    await put(producer, name, b"poison")
    assert await settle(worker, name, "reject", await worker.receive(), reason="cannot be read") == 0
    async with ortoo.connect(broker.ortoo) as ours:
        [letter] = await ours.dead_letters(name)
        assert "cannot be read" in letter.headers.values()
        await consume(undertaker, f"dlq/{name}")
        found = await undertaker.receive()
        assert (found.topic, found.payload) == (f"$queue/dlq/{name}", b"poison")
        assert await settle(undertaker, f"dlq/{name}", "ack", found) == 0
        assert (await ours.group(f"{name}.dlq", "workers")).backlog == 0


@pytest.mark.parametrize("kind", [PAHO, Kind("gmqtt", 5), Kind("aiomqtt", 5)], ids=str)
async def test_several_are_acked_at_once(broker: Broker, join: Join, kind: Kind, name: str) -> None:
    """Document, Future enhancements: batch acknowledgments. That the property is repeated is ours."""
    producer, worker = await join(kind), await join(kind)
    async with ortoo.connect(broker.ortoo) as ours:
        await ours.create_topic(name, ordering="none")
        await consume(worker, name)
        for number in range(5):
            await put(producer, name, b"%d" % number)
        assert await settle(worker, name, "ack", *await worker.receive_many(5)) == 0
        assert (await ours.group(name, "workers")).backlog == 0


async def test_an_ack_that_fails_is_told_by_its_puback(join: Join, name: str) -> None:
    """Ours."""
    producer, worker = await join(PAHO), await join(PAHO)
    await consume(worker, name)
    await put(producer, name, b"1")
    message = await worker.receive()
    topic, partition, _ = ids_of(message)[0].split(".")
    for wrong in (f"{topic}.{partition}.4711", "999999.0.0", "no id", ""):
        named = Properties((("message-id", wrong),))
        assert await worker.publish(f"$queue/{name}/$ack", properties=named) >= FAILURE
    assert await settle(worker, name, "ack", message) == 0
    assert await settle(worker, name, "ack", message) == 0  # a repetition, as after a PUBACK that was lost
    assert await settle(worker, name, "nack", message) >= FAILURE  # what is done is done
    assert await settle(worker, name, "ack") >= FAILURE  # without an id


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_each_group_gets_all_and_each_member_a_part(join: Join, kind: Kind, name: str) -> None:
    """Document, Consumer group semantics. Of a partition, the next message comes when the one before it is settled."""
    members = [await join(kind) for _ in range(2)]
    analyst, producer = await join(kind), await join(kind)
    for member in members:
        await consume(member, name)
    await consume(analyst, name, "analytics")
    for number in range(20):
        await put(producer, name, b"%d" % number, partition_key=str(number))
    everything = sorted(b"%d" % number for number in range(20))
    assert sorted(await _work([analyst], name, 20)) == everything
    assert sorted(await _work(members, name, 20)) == everything


async def _work(members: list[Client], name: str, count: int) -> list[bytes]:
    """What they get together, each acknowledging its own."""
    found: list[bytes] = []
    is_done = asyncio.Event()

    async def work(member: Client) -> None:
        while True:
            message = await member.inbox.get()
            assert await settle(member, name, "ack", message) == 0
            found.append(message.payload)
            if len(found) >= count:
                is_done.set()

    async with asyncio.timeout(WAIT_SECONDS):
        working = [asyncio.create_task(work(member)) for member in members]
        await is_done.wait()
    for task in working:
        task.cancel()
    return found


async def test_without_a_group_the_client_id_names_it(broker: Broker, join: Join, name: str) -> None:
    """Document, Consumer group semantics: the prefix of the client id; ours: up to its first dash."""
    worker = await join(PAHO, f"painters{join.new_id()}-1")
    await worker.subscribe(f"$queue/{name}")
    async with ortoo.connect(broker.ortoo) as ours:
        assert [group.name for group in await ours.groups(name)] == [worker.options.client_id.partition("-")[0]]


@pytest.mark.parametrize("kind", [PAHO, Kind("mqttjs", 5)], ids=str)
async def test_messages_with_the_same_key_keep_their_order(join: Join, kind: Kind, name: str) -> None:
    """Document, Partition strategy."""
    producer, worker = await join(kind), await join(kind)
    await consume(worker, name)
    for number in range(30):
        await put(producer, name, b"%d" % number, partition_key=f"user-{number % 3}")
    seen: dict[str, list[int]] = {}
    for _ in range(30):
        message = await worker.receive()
        [key] = message.properties.values("partition-key")
        seen.setdefault(key, []).append(int(message.payload))
        await settle(worker, name, "ack", message)
    assert seen == {f"user-{rest}": list(range(rest, 30, 3)) for rest in range(3)}


async def test_what_a_publisher_may_ask_for(broker: Broker, join: Join, name: str) -> None:
    """Ours: `priority`, `delay`, `deliver-at`, `ttl` and `dedup-id`."""
    async with ortoo.connect(broker.ortoo) as ours:
        await ours.create_topic(name, ordering="none", partitions=1)
        await ours.create_group(name, "workers")
        producer = await join(PAHO)
        next_year = (datetime.now(UTC) + timedelta(days=365)).isoformat()
        sent = [
            await put(producer, name, b"delayed", delay="1s"),
            await put(producer, name, b"next year", deliver_at=next_year),
            await put(producer, name, b"expired", ttl="1ms"),
            await put(producer, name, b"normal", dedup_id="7"),
            await put(producer, name, b"a second time", dedup_id="7"),
            await put(producer, name, b"urgent", priority="1"),
        ]
        assert max(sent) < FAILURE
        worker = await join(PAHO)
        await consume(worker, name)
        assert [message.payload for message in await worker.receive_many(3)] == [b"urgent", b"normal", b"delayed"]
        group = await ours.group(name, "workers")
        assert (group.leased, group.delayed) == (3, 1)


async def test_what_makes_no_sense_is_refused(join: Join, name: str) -> None:
    """Ours: nothing is lost silently."""
    producer = await join(PAHO)
    assert await put(producer, name, b"1", delay="soon") >= FAILURE
    assert await put(producer, name, b"1", priority="high and low") >= FAILURE
    assert await producer.publish(f"$queue/{name}/$ack/more", b"") >= FAILURE


@pytest.mark.parametrize("library", ["paho", "gmqtt", "mqttjs"])
async def test_an_old_client_settles_by_puback(broker: Broker, join: Join, library: str, name: str) -> None:
    """Ours: MQTT 3.1.1 has no user properties. The group is named by the client id."""
    kind = Kind(library, 4)
    producer, worker = await join(kind), await join(kind, f"old{name.replace('-', '')}-1")
    assert await worker.subscribe(f"$queue/{name}") == 1
    for number in range(3):
        await producer.publish(f"$queue/{name}", b"%d" % number)
    assert sorted(message.payload for message in await worker.receive_many(3)) == [b"0", b"1", b"2"]
    async with ortoo.connect(broker.ortoo) as ours:
        await all_done(ours, name, worker.options.client_id.partition("-")[0])


async def test_what_an_old_client_did_not_puback_comes_again(join: Join, name: str, line: Line) -> None:
    """Ours, as above."""
    producer, worker = await join(OLD), await join(OLD, "oldest-1", through=line, acks_by_hand=True)
    await worker.subscribe(f"$queue/{name}")
    await producer.publish(f"$queue/{name}", b"1")
    await worker.receive()
    line.cut()
    await worker.wait_ended()
    again = await join(OLD, "oldest-2")
    await again.subscribe(f"$queue/{name}")
    assert (await again.receive()).payload == b"1"


@pytest.mark.parametrize("kind", [*SOME, PAHO], ids=str)
async def test_a_subscription_to_a_queue_needs_qos_1(join: Join, kind: Kind, name: str) -> None:
    """Ours: what nobody confirms cannot be settled."""
    worker = await join(kind)
    refused = await worker.subscribe(f"$queue/{name}", 0)
    assert refused == FAILURE if kind.version == 4 else refused >= FAILURE


async def test_an_mqtt_publish_is_leased_and_acked_over_tcp(broker: Broker, join: Join, name: str) -> None:
    producer = await join(PAHO)
    sent = Properties(user(partition_key="k", color="red"), response_topic="replies")
    await producer.publish(f"$queue/{name}", b"from mqtt", properties=sent)
    async with ortoo.connect(broker.ortoo) as ours:
        [message] = await ours.lease(name, group="g", wait=10)
        assert (message.value, message.key, message.headers["color"]) == (b"from mqtt", "k", "red")
        await ours.ack([message])
        assert (await ours.group(name, "g")).backlog == 0


async def test_a_tcp_publish_is_acked_over_mqtt(broker: Broker, join: Join, name: str) -> None:
    worker = await join(PAHO)
    async with ortoo.connect(broker.ortoo) as ours:
        await ours.publish(name, b"from tcp", key="k", headers={"color": "red"})
        await consume(worker, name, "g")
        message = await worker.receive()
        assert message.payload == b"from tcp"
        assert message.properties.values("color") == ["red"]
        assert await settle(worker, name, "ack", message) == 0
        assert (await ours.group(name, "g")).backlog == 0


async def test_ordinary_topics_are_captured_by_a_queue(join: Join, name: str) -> None:
    """As EMQX has it: `$queue/NAME/FILTER`; PUBACK settles there."""
    sensor, worker, listener = await join(OLD), await join(PAHO), await join(OLD)
    await listener.subscribe(f"{name}/+/temperature")
    assert await worker.subscribe(f"$queue/{name}/{name}/+/temperature") == 1
    await sensor.publish(f"{name}/1/temperature", b"21")
    assert (await listener.receive()).payload == b"21"
    found = await worker.receive()
    assert (found.topic, found.payload) == (f"{name}/1/temperature", b"21")


@pytest.mark.parametrize("kind", FIVE, ids=str)
async def test_a_request_through_a_queue_is_answered(join: Join, kind: Kind, name: str) -> None:
    """Document, Use cases, 3."""
    gateway, service = await join(kind), await join(kind)
    await consume(service, name, "auth")
    await gateway.subscribe(f"{name}/replies")
    asked = Properties(response_topic=f"{name}/replies", correlation_data=b"42")
    await gateway.publish(f"$queue/{name}", b"token", properties=asked)
    request = await service.receive()
    assert request.properties.response_topic is not None
    answer = Properties(correlation_data=request.properties.correlation_data)
    await service.publish(request.properties.response_topic, b"valid", properties=answer)
    await settle(service, name, "ack", request)
    reply = await gateway.receive()
    assert (reply.payload, reply.properties.correlation_data) == (b"valid", b"42")
