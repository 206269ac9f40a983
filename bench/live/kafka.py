"""Kafka: one node in KRaft mode, acks=all, offsets committed after each batch.

Twice: with every write synced before its answer, as the others do, and as it comes, which leaves syncing to the operating
system. Its acknowledgement is an offset for each partition, not one for each message, so no single message can be given back.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from bench.processes import free_port, running, wait_for_port
from ortoo.model.errors import ConfigError
from ortoo.pipeline.spark.java import java_home

from .contender import Contender, Publish, Server, Take

JARS = Path(sys.prefix) / "kafka"  # `make rivals` puts them there
_CLUSTER = "b3J0b28tYmVuY2gta2Fma2"  # any 16 bytes, in Base64
_TOPIC, _GROUP, _PARTITIONS = "bench", "bench", 4
_TIMEOUT_SECONDS = 30.0
_PRODUCER = {
    "acks": "all",
    "batch.size": 1 << 20,
    "linger.ms": 5,
    "log_level": 2,  # it warns at its end of what it no longer has to tell
}
_MEMORY = ("-Xms1g", "-Xmx1g")  # what its own start script asks for
# The first lines make one node of it, the replicas of its own topics included; the rest is its config/server.properties.
_CONFIG = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
num.network.threads=3
num.io.threads=8
{more}
"""


class Kafka(Contender):
    name = "kafka"
    packages = ("confluent-kafka",)
    settings = "acks=all, log.flush.interval.messages=1; an ack is an offset for a partition"
    producers, consumers = 32, _PARTITIONS
    more: ClassVar[str] = "log.flush.interval.messages=1"  # of its own topics, too, so that offsets are synced

    def missing(self) -> list[str]:
        lacks = super().missing()
        try:
            java_home()
        except ConfigError:
            lacks.append("Java 17 or newer (`apt install default-jre-headless`)")
        if not (JARS / ".ready").exists():
            lacks.append("its jars (`make rivals`, which needs `apt install maven`)")
        return lacks

    def version(self) -> str:
        [jar] = JARS.glob("kafka_*.jar")
        return f"Kafka {jar.stem.rpartition('-')[2]}, confluent-kafka {version('confluent-kafka')}"

    @contextmanager
    def serve(self, folder: Path) -> Iterator[Server]:
        port, log, config = free_port(), folder / "kafka.log", folder / "kafka.properties"
        config.write_text(
            _CONFIG.format(port=port, controller=free_port(), folder=folder / "kafka", more=self.more), "ascii"
        )
        java = [str(java_home() / "bin" / "java"), *_MEMORY, "-cp", f"{JARS}/*"]
        make = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER, "--config", str(config)]
        subprocess.run(make, check=True, capture_output=True)
        with running([*java, "-server", "-XX:+UseG1GC", "kafka.Kafka", str(config)], log=log) as process:
            wait_for_port(port, process, log)
            yield Server(f"127.0.0.1:{port}", process.pid)

    async def prepare(self, address: str) -> None:
        admin = import_module("confluent_kafka.admin")
        client = admin.AdminClient({"bootstrap.servers": address})
        topics = client.create_topics([admin.NewTopic(_TOPIC, _PARTITIONS, 1)], operation_timeout=_TIMEOUT_SECONDS)
        topics[_TOPIC].result(_TIMEOUT_SECONDS)
        await _commit_first(address)

    @asynccontextmanager
    async def publishing(self, address: str) -> AsyncIterator[Publish]:
        """One client for all tasks: it gathers what they publish at the same time. Another for what should not wait for more."""
        client, loop, is_over = import_module("confluent_kafka"), asyncio.get_running_loop(), threading.Event()
        gathering = client.Producer({**_PRODUCER, "bootstrap.servers": address})
        single = client.Producer({**_PRODUCER, "bootstrap.servers": address, "linger.ms": 0})

        def poll() -> None:
            while not is_over.is_set():
                gathering.poll(0.1)

        async def publish(_: int, values: list[bytes]) -> None:
            confirmed, left = loop.create_future(), len(values)

            def delivered(error: object, _: object) -> None:
                nonlocal left
                left -= 1
                if error is not None or not left:
                    loop.call_soon_threadsafe(_end, confirmed, error)

            if left == 1:
                single.produce(_TOPIC, values[0], on_delivery=delivered)
                await asyncio.to_thread(single.flush, _TIMEOUT_SECONDS)
            else:
                gathering.produce_batch(_TOPIC, [{"value": value} for value in values], on_delivery=delivered)
            await confirmed

        polling = loop.run_in_executor(None, poll)
        try:
            yield publish
        finally:
            is_over.set()
            await polling

    @asynccontextmanager
    async def taking(self, address: str) -> AsyncIterator[Take]:
        """One client for each partition, assigned by hand: nobody has to wait until a group has agreed."""
        client = import_module("confluent_kafka")
        consumers = [_consumer(address) for _ in range(self.consumers)]
        for partition, consumer in enumerate(consumers):
            consumer.assign([client.TopicPartition(_TOPIC, partition, client.OFFSET_STORED)])

        def receive(consumer: Any, count: int) -> list[bytes]:
            """Waits for one, then takes what is there: to ask for more waits until there are as many."""
            first = consumer.poll(1.0)
            if first is None:
                return []
            messages = [first, *consumer.consume(count - 1, timeout=0)]
            consumer.commit(asynchronous=False)
            return [message.value() for message in messages]

        async def take(which: int, count: int) -> list[bytes]:
            return await asyncio.to_thread(receive, consumers[which], count)

        yield take
        for consumer in consumers:
            await asyncio.to_thread(consumer.close)


def _end(confirmed: asyncio.Future[None], error: object) -> None:
    if confirmed.done():
        return  # one of its messages failed before
    if error is None:
        confirmed.set_result(None)
    else:
        confirmed.set_exception(RuntimeError(f"Kafka did not confirm: {error}"))


def _consumer(address: str) -> Any:
    options = {
        "bootstrap.servers": address,
        "group.id": _GROUP,
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 1,
    }
    return import_module("confluent_kafka").Consumer(options)


async def _commit_first(address: str) -> None:
    """The topic of offsets is made when a group first asks, and refuses until it is there."""
    client, consumer = import_module("confluent_kafka"), _consumer(address)
    offsets = [client.TopicPartition(_TOPIC, partition, 0) for partition in range(_PARTITIONS)]
    for _ in range(100):
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
            break
        except client.KafkaException:
            await asyncio.sleep(0.1)
    consumer.close()


class KafkaDefault(Kafka):
    name = "kafka, not synced"
    settings = "acks=all, its default: confirmed before it is on disk; an ack is an offset for a partition"
    is_synced = False
    more = ""
