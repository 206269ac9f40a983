"""Does a scrape tell the truth about the queue, in names that do not drift?"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import ortoo
from ortoo.app.families import FAMILIES
from ortoo.app.metrics import Metrics
from ortoo.app.webhook import Webhook
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate
from ortoo.client import Queue
from ortoo.model import metrics as metrics_module
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Lease, Publish
from ortoo.model.errors import NotFoundError, TooManyError, UnauthenticatedError
from ortoo.model.histogram import Histogram
from ortoo.model.metrics import RedisFigures
from ortoo.model.names import TopicName
from ortoo.model.queries import GetTopic
from ortoo.model.settings import DialectName, LimitSettings
from ortoo.ports import Store
from ortoo.stores.disk import open_directory
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock
from ortoo.testing.clock import settle

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scraped:
    def __init__(self, text: str) -> None:
        self.samples: Samples = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                place = (sample.name, frozenset(sample.labels.items()))
                assert place not in self.samples, "the same series twice"
                self.samples[place] = sample.value

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name, frozenset(labels.items())]

    def labels(self, name: str, label: str) -> set[str]:
        return {dict(labels)[label] for found, labels in self.samples if found == name}

    def names(self) -> set[str]:
        return {name for name, _ in self.samples}


class World:
    """A broker with one door, on a manual clock."""

    def __init__(
        self, store: Store, connections: int = 10, dialects: Collection[DialectName] = ("mqueue", "mqtt-queues")
    ) -> None:
        self.clock = ManualClock()
        self.broker = Broker(store, self.clock)
        self.webhook = Webhook(self.broker, self.broker.on_dead_letters)
        limits = LimitSettings(connections=connections)
        self.gate = Gate("tcp", self.broker, Authenticator("s3cret"), limits, Budget(1000))
        self.broker.meters.redis = lambda: RedisFigures(True, 1, 0, {"quota": 0, "dedup": 0})
        self.metrics = Metrics(self.broker, self.webhook, lambda: 86_400.0, dialects)
        self.queue = Queue(self.broker)

    async def scrape(self) -> Scraped:
        return Scraped((await self.metrics.render()).decode())


@asynccontextmanager
async def world(
    store: Store | None = None,
    connections: int = 10,
    dialects: Collection[DialectName] = ("mqueue", "mqtt-queues"),
) -> AsyncIterator[World]:
    made = World(store or MemoryStore(), connections, dialects)
    async with made.queue:
        made.webhook.start()
        yield made
        await made.webhook.close()


def publish(topic: str, *values: bytes) -> Publish:
    return Publish(TopicName("default", topic), Outgoing(values=list(values)))


def lease(topic: str, group: str = "default", max_messages: int = 1, lease_ms: int = 30_000, wait_ms: int = 0) -> Lease:
    return Lease(
        topic=topic, group=group, consumer="ann", max_messages=max_messages, lease_ms=lease_ms, wait_ms=wait_ms
    )


async def let_everything_happen(here: World) -> None:
    queue = here.queue
    await queue.set_namespace("default", topics=100)
    await queue.create_topic("orders", max_attempts=2, backoff_initial=0, retention_seconds=60, ordering="none")
    await queue.create_topic("dropping", dlq=False)
    await queue.publish("orders", b"1", dedup_id="a")
    await queue.publish("orders", b"1", dedup_id="a")
    await queue.publish_many("orders", [b"2", b"3", b"4", b"5"])
    await queue.publish("dropping", b"6")
    first, second, third, fourth, _ = await queue.lease("orders", group="billing", max_messages=5)
    await first.ack()
    await second.nack()
    await third.release()
    await fourth.reject("never")
    [last] = await queue.lease("dropping")
    await last.reject("never")
    link = here.gate.admit("s3cret")
    await link.publish(publish("orders", b"7"))
    await link.lease(lease("orders", group="other", max_messages=10))
    with pytest.raises(NotFoundError):
        await link.ask(GetTopic(TopicName("default", "nowhere")))


OF_DATABASES = {
    "ortoo_shard_healthy": 0,
    "ortoo_spilled_commits": 7,
    "ortoo_spilled_bytes": 800,
    "ortoo_drained_commits_total": 9,
    "ortoo_buffer_on": 1,
    "ortoo_buffer_commits": 2,
    "ortoo_buffer_bytes": 30,
    "ortoo_buffer_drained_total": 4,
    "ortoo_buffer_failures_total": 5,
}


async def test_the_metrics_of_shards_in_databases_are_exposed() -> None:
    class Away(MemoryStore):
        def figures(self) -> metrics_module.StoreFigures:  # type: ignore[override]
            buffer = metrics_module.BufferHealth(True, 2, 30, 4, 5)
            health = metrics_module.ShardHealth(False, "no", 1.0, 7, 800, 9, buffer=buffer)
            return metrics_module.StoreFigures(Histogram(), Histogram(), shards={"3": health})

    async with world(Away()) as here:
        scrape = await here.scrape()
    assert {name: scrape.value(name, shard="3") for name in OF_DATABASES} == OF_DATABASES


async def test_every_metric_is_exposed_and_every_exposed_one_is_described(tmp_path: Path) -> None:
    async with world(open_directory(tmp_path / "data")) as here:
        await let_everything_happen(here)
        text = (await here.metrics.render()).decode()
    exposed = {family.name: family for family in text_string_to_metric_families(text)}
    described = {family.name.removesuffix("_total"): family for family in FAMILIES.values()}
    assert {name for name in exposed if not name.startswith("process_")} == described.keys()
    assert {name for name, family in exposed.items() if not family.samples} == {
        name.removesuffix("_total") for name in OF_DATABASES
    }
    for name, family in described.items():
        assert exposed[name].type == family.kind
        for sample in exposed[name].samples:
            assert sample.labels.keys() - {"le", "quantile"} == set(family.labels), name
    assert "process_resident_memory_bytes" in exposed


async def test_names_follow_the_conventions() -> None:
    for family in FAMILIES.values():
        assert family.name.startswith(("ortoo_", "mqtt_queue_", "mqueue_"))
        assert family.name.endswith("_total") == (family.kind == "counter")
        if family.kind in ("histogram", "summary"):
            assert family.name.endswith(("_seconds", "_records"))


async def test_counters_tell_per_topic_what_happened() -> None:
    async with world() as here:
        await let_everything_happen(here)
        found = await here.scrape()
        stats = await here.queue.stats()
    orders = {"namespace": "default", "topic": "orders"}
    assert {
        what: found.value(f"ortoo_messages_{what}_total", **orders)
        for what in ("published", "duplicate", "delivered", "acked", "retried", "released", "skipped")
    } == {
        "published": 6,
        "duplicate": 1,
        "delivered": 11,
        "acked": 1,
        "retried": 1,
        "released": 1,
        "skipped": 0,
    }
    assert found.value("ortoo_messages_dead_lettered_total", **orders, reason="rejected") == 1
    assert found.value("ortoo_messages_dropped_total", namespace="default", topic="dropping", reason="rejected") == 1
    total = {name: value for (name, _), value in found.samples.items() if name.startswith("mqueue_")}
    assert total["mqueue_enqueue_total"] == stats.counters.published == 8
    assert total["mqueue_dequeue_total"] == stats.counters.delivered == 12
    assert total["mqueue_ack_total"] == stats.counters.acked == 1
    assert total["mqueue_nack_total"] == stats.counters.retried == 1


async def test_the_names_of_other_queues_tell_the_same_numbers() -> None:
    async with world() as here:
        await let_everything_happen(here)
        found = await here.scrape()
    queue, topic = {"namespace": "default", "queue": "orders"}, {"namespace": "default", "topic": "orders"}
    for alias, name in {
        "mqtt_queue_depth": "ortoo_topic_depth",
        "mqtt_queue_enqueue_total": "ortoo_messages_published_total",
        "mqtt_queue_dequeue_total": "ortoo_messages_delivered_total",
        "mqtt_queue_ack_total": "ortoo_messages_acked_total",
        "mqtt_queue_nack_total": "ortoo_messages_retried_total",
    }.items():
        assert found.value(alias, **queue) == found.value(name, **topic) > 0
    latencies = [value for (name, _), value in found.samples.items() if name == "ortoo_delivery_latency_seconds_count"]
    assert (
        found.value("mqtt_queue_delivery_latency_seconds_count", **queue) == sum(latencies) - 1 > 0
    )  # one is dropping's
    assert found.value("mqtt_queue_dlq_total", **queue, reason="rejected") == 1
    assert found.value("mqueue_shard_health", shard="0", type="primary") == 1
    assert found.value("mqueue_enqueue_latency_seconds_count") == 1


@pytest.mark.parametrize("dialects", [(), ("mqueue",), ("queen", "goqueue", "mqtt-queues")])
async def test_names_of_other_queues_are_exposed_where_their_api_is_served(dialects: tuple[DialectName, ...]) -> None:
    async with world(dialects=dialects) as here:
        await let_everything_happen(here)
        text = (await here.metrics.render()).decode()
    prefixes = {"mqueue": "mqueue_", "mqtt-queues": "mqtt_queue_"}
    assert {name for name, prefix in prefixes.items() if prefix in text} == set(dialects) & prefixes.keys()
    assert 'ortoo_messages_published_total{namespace="default",topic="orders"} 6' in text


async def test_a_message_that_failed_too_often_is_called_max_retries_by_mqtt_queues() -> None:
    async with world() as here:
        await here.queue.create_topic("orders", max_attempts=1)
        await here.queue.publish("orders", b"x")
        [message] = await here.queue.lease("orders")
        await message.nack()
        found = await here.scrape()
    assert found.value("mqtt_queue_dlq_total", namespace="default", queue="orders", reason="max_retries") == 1
    assert (
        found.value("ortoo_messages_dead_lettered_total", namespace="default", topic="orders", reason="attempts") == 1
    )


async def test_groups_tell_what_state_their_messages_are_in() -> None:
    async with world() as here:
        queue = here.queue
        await queue.create_topic("orders", partitions=1, backoff_initial=100)
        for key in ("a", "a", "b"):
            await queue.publish("orders", b"x", key=key)
        await queue.publish("orders", b"later", delay=50)
        await queue.publish("orders", b"free")
        [a] = await queue.lease("orders", group="billing", max_messages=1)
        await here.clock.advance(7)
        found = await here.scrape()
        labels = {"namespace": "default", "topic": "orders", "group": "billing"}
        states = ("backlog", "ready", "delayed", "leased", "blocked", "dead", "leases", "consumers")
        assert {state: found.value(f"ortoo_group_{state}", **labels) for state in states} == {
            "backlog": 5,
            "ready": 2,
            "delayed": 1,
            "leased": 1,
            "blocked": 1,
            "dead": 0,
            "leases": 1,
            "consumers": 1,
        }
        assert found.value("ortoo_group_oldest_pending_seconds", **labels) == 7
        assert found.value("ortoo_topic_depth", namespace="default", topic="orders") == 5
        assert found.value("ortoo_topic_bytes", namespace="default", topic="orders") == 15  # of values and keys
        assert found.value("ortoo_leases") == 1
        await a.reject("no")
        for message in await queue.lease("orders", group="billing", max_messages=10):
            await message.ack()
        await here.clock.advance(60)
        for message in await queue.lease("orders", group="billing", max_messages=10):
            await message.ack()
        found = await here.scrape()
        assert found.value("ortoo_group_oldest_pending_seconds", **labels) == 0
        assert found.value("ortoo_group_dead", **labels) == 1


async def test_the_oldest_pending_message_is_the_oldest_that_is_not_settled() -> None:
    async with world() as here:
        await here.queue.create_topic("orders", partitions=1)
        for value in (b"first", b"second"):
            await here.queue.publish("orders", value)
            await here.clock.advance(5)
        [first] = await here.queue.lease("orders", group="billing")
        await first.ack()
        found = await here.scrape()
    labels = {"namespace": "default", "topic": "orders", "group": "billing"}
    assert found.value("ortoo_group_oldest_pending_seconds", **labels) == 5


async def test_the_blocked_are_counted_as_they_are_listed() -> None:
    async with world() as here:
        await here.queue.create_topic("orders", partitions=3)
        for number in range(60):
            await here.queue.publish("orders", b"x", key=f"k{number % 7}")
        await here.queue.lease("orders", max_messages=4)
        listed = await here.queue.messages("orders", group="default", state="blocked")
        found = await here.scrape()
        labels = {"namespace": "default", "topic": "orders", "group": "default"}
        assert found.value("ortoo_group_blocked", **labels) == len(listed) > 0


async def test_a_topic_that_is_deleted_goes_and_the_totals_stay() -> None:
    async with world() as here:
        await let_everything_happen(here)
        before = (await here.queue.stats()).counters
        await here.queue.delete_topic("orders")
        found = await here.scrape()
        assert "orders" not in found.labels("ortoo_messages_published_total", "topic")
        assert "orders" not in found.labels("ortoo_delivery_latency_seconds_count", "topic")
        assert (await here.queue.stats()).counters == before
        await here.queue.publish("orders", b"anew")
        found = await here.scrape()
        assert found.value("ortoo_messages_published_total", namespace="default", topic="orders") == 1


async def test_counters_begin_anew_when_the_queue_is_opened_again(tmp_path: Path) -> None:
    async with world(open_directory(tmp_path)) as here:
        await here.queue.publish("orders", b"x")
    async with world(open_directory(tmp_path)) as here:
        found = await here.scrape()
        assert found.value("ortoo_messages_published_total", namespace="default", topic="orders") == 0
        assert found.value("ortoo_topic_messages", namespace="default", topic="orders") == 1
        assert found.value("ortoo_epoch") == 2


async def test_passing_listeners_are_one_group() -> None:
    async with world() as here:
        await here.queue.create_topic("news")
        streams = [here.queue.subscribe("news") for _ in range(3)]
        for stream in streams:
            await asyncio.wait_for(stream.__aenter__(), 60)
        found = await here.scrape()
        assert found.labels("ortoo_group_consumers", "group") == {"_ephemeral"}
        assert found.value("ortoo_group_consumers", namespace="default", topic="news", group="_ephemeral") == 3
        for stream in streams:
            await stream.aclose()


async def test_any_name_fits_into_a_label() -> None:
    name = 'a "quoted" \\ {name}, ö/\'; DROP TABLE'
    async with world() as here:
        await here.queue.publish(name, b"x")
        found = await here.scrape()
    assert found.value("ortoo_topic_messages", namespace="default", topic=name) == 1


async def test_requests_are_timed_and_errors_counted_by_door_and_code() -> None:
    async with world() as here:
        link = here.gate.admit("s3cret")
        for _ in range(3):
            await link.publish(publish("orders", b"x"))
        with pytest.raises(NotFoundError):
            await link.lease(lease("nowhere"))
        with pytest.raises(UnauthenticatedError):
            here.gate.admit("wrong")
        found = await here.scrape()
    assert found.value("ortoo_requests_total", door="tcp", operation="publish") == 3
    assert found.value("ortoo_request_seconds_count", door="tcp", operation="publish") == 3
    assert found.value("ortoo_request_seconds_bucket", door="tcp", operation="publish", le="+Inf") == 3
    assert found.value("ortoo_requests_total", door="tcp", operation="lease") == 1
    assert found.value("ortoo_request_seconds_count", door="tcp", operation="lease") == 0
    assert found.value("ortoo_request_errors_total", door="tcp", operation="lease", code="not_found") == 1
    assert found.value("ortoo_request_errors_total", door="tcp", operation="connect", code="unauthenticated") == 1


async def test_the_time_of_a_lease_does_not_count_its_waiting() -> None:
    async with world() as here:
        await here.queue.create_topic("orders")
        link = here.gate.admit("s3cret")
        waiting = asyncio.create_task(link.lease(lease("orders", wait_ms=60_000)))
        await settle()
        await asyncio.sleep(0.3)  # real time, which is what would be measured
        await here.queue.publish("orders", b"x")
        [run] = await waiting
        assert run.columns.values == [b"x"]
        found = await here.scrape()
    assert found.value("ortoo_request_seconds_count", door="tcp", operation="lease") == 1
    assert found.value("ortoo_request_seconds_sum", door="tcp", operation="lease") < 0.3


async def test_latencies_count_from_publishing_to_the_first_delivery_and_from_there_to_the_ack() -> None:
    async with world() as here:
        await here.queue.publish("orders", b"x")
        await here.clock.advance(2)
        [first] = await here.queue.lease("orders", lease=7200)
        await here.clock.advance(3600)
        await first.ack()
        await here.queue.publish("orders", b"y")
        await here.clock.advance(2)
        await here.queue.lease("orders", lease=1)
        await here.clock.advance(86_400)
        await here.queue.lease("orders")  # again
        found = await here.scrape()
    orders = {"namespace": "default", "topic": "orders", "group": "default"}
    assert found.value("ortoo_delivery_latency_seconds_count", **orders) == 2
    assert found.value("ortoo_delivery_latency_seconds_sum", **orders) == 4
    assert found.value("ortoo_delivery_latency_seconds_bucket", le="1.0", **orders) == 0
    assert found.value("ortoo_delivery_latency_seconds_bucket", le="3.0", **orders) == 2
    assert found.value("ortoo_ack_latency_seconds_count", **orders) == 1
    assert found.value("ortoo_ack_latency_seconds_sum", **orders) == 3600
    assert found.value("ortoo_ack_latency_seconds_bucket", le="3000.0", **orders) == 0
    assert found.value("ortoo_ack_latency_seconds_bucket", le="10000.0", **orders) == 1
    bounds = [float(dict(labels)["le"]) for name, labels in found.samples if name == "ortoo_ack_latency_seconds_bucket"]
    assert (min(bounds), sorted(bounds)[-2]) == (0.001, 300_000)  # a millisecond to days
    assert found.value("mqtt_queue_delivery_latency_seconds", namespace="default", queue="orders", quantile="0.99") == 3


async def test_groups_count_what_became_of_their_messages() -> None:
    async with world() as here:
        await here.queue.create_topic("orders", max_attempts=2, backoff_initial=0, partitions=1, ordering="none")
        for group in ("billing", "shipping"):
            await here.queue.create_group("orders", group)
        await here.queue.publish_many("orders", [b"1", b"2", b"3"])
        labels = {"namespace": "default", "topic": "orders", "group": "billing"}
        names = ("delivered", "acked", "retried", "dead_lettered")
        before = await here.scrape()
        assert [before.value(f"ortoo_group_{name}_total", **labels) for name in names] == [0, 0, 0, 0]
        first, second, third = await here.queue.lease("orders", group="billing", max_messages=3)
        await first.ack()
        await second.nack()
        await third.reject("no")
        await here.queue.lease("orders", group="billing")
        found = await here.scrape()
        assert [found.value(f"ortoo_group_{name}_total", **labels) for name in names] == [4, 1, 1, 1]
        shipping = {**labels, "group": "shipping"}
        assert [found.value(f"ortoo_group_{name}_total", **shipping) for name in names] == [0, 0, 0, 0]


async def test_the_lag_of_what_was_delayed_begins_when_it_comes_due() -> None:
    async with world() as here:
        await here.queue.create_topic("orders", partitions=1)
        await here.queue.create_group("orders", "billing")
        labels = {"namespace": "default", "topic": "orders", "group": "billing"}

        async def lag() -> float:
            return (await here.scrape()).value("ortoo_group_lag_seconds", **labels)

        await here.queue.publish_many("orders", [ortoo.Message(b"1", delay=100), ortoo.Message(b"2", delay=100)])
        await here.clock.advance(103)
        assert await lag() == 3
        [first] = await here.queue.lease("orders", group="billing")
        await first.ack()
        assert await lag() == 3
        [second] = await here.queue.lease("orders", group="billing")
        await second.ack()
        await here.queue.publish("orders", b"3", delay=50)
        await here.queue.publish("orders", b"4")
        await here.queue.publish("orders", b"5", delay=20)
        await here.clock.advance(60)
        assert await lag() == 60, "what was not delayed waits behind what was"
        found = await here.queue.lease("orders", group="billing", max_messages=3)
        await next(message for message in found if message.value == b"4").ack()
        assert await lag() in (10, 40), "the later date may stand for both"


async def test_the_lag_in_seconds_is_of_what_is_due() -> None:
    async with world() as here:
        await here.queue.create_topic("orders", partitions=1)
        await here.queue.create_group("orders", "billing")
        await here.queue.publish("orders", b"later", delay=100)
        await here.clock.advance(10)
        await here.queue.publish("orders", b"now")
        await here.clock.advance(5)
        found = await here.scrape()
        labels = {"namespace": "default", "topic": "orders", "group": "billing"}
        assert found.value("ortoo_group_lag_seconds", **labels) == 5
        assert found.value("ortoo_group_oldest_pending_seconds", **labels) == 15
        [message] = await here.queue.lease("orders", group="billing")
        await message.ack()
        assert (await here.scrape()).value("ortoo_group_lag_seconds", **labels) == 0


async def test_a_client_beyond_the_limit_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with world(connections=2) as here:
        visit = here.gate.enter()
        here.gate.enter()
        for _ in range(5):
            with pytest.raises(TooManyError):
                here.gate.enter()
        visit.leave()
        found = await here.scrape()
    assert found.value("ortoo_connections", door="tcp") == 1
    assert found.value("ortoo_connections_opened_total", door="tcp") == 2
    assert found.value("ortoo_connections_refused_total", door="tcp") == 5
    assert [record.levelname for record in caplog.records if record.name == "ortoo.gate"] == ["WARNING"]


async def test_commits_syncs_and_checkpoints_are_timed(tmp_path: Path) -> None:
    store = open_directory(tmp_path)
    async with world(store) as here:
        await here.queue.publish("orders", b"x" * 1000)
        lying = [(await here.scrape()).value(name) for name in ("ortoo_wal_bytes", "ortoo_segment_bytes")]
        assert lying[0] > 1000 > lying[1] == 0
        store._flush_bytes = 0
        await store.checkpoint(here.broker.engine.snapshot(), here.broker.now())
        assert store._checkpointing is not None
        await store._checkpointing
        found = await here.scrape()
    assert found.value("ortoo_wal_bytes") < 1000
    assert found.value("ortoo_commit_seconds_count") >= 1
    assert found.value("ortoo_commit_records_sum") >= 2
    assert found.value("mqueue_flush_latency_seconds_count") == found.value("ortoo_commit_seconds_count")
    assert found.value("ortoo_sync_seconds_count") >= 1
    assert found.value("ortoo_checkpoint_seconds_count") == 1
    assert found.value("ortoo_segment_bytes") > 0
    assert found.value("ortoo_disk_free_bytes") > 0


async def test_a_scrape_works_while_the_queue_refuses() -> None:
    async with world() as here:
        await here.queue.publish("orders", b"x")
    found = await here.scrape()
    assert found.value("ortoo_ready") == 0
    assert found.value("ortoo_topic_messages", namespace="default", topic="orders") == 1
