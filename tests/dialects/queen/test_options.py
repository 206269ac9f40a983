"""Do options of queues and partitions mean here what Queen's document says?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ortoo.dialects.queen.options import FIRST_USE
from ortoo.stores.disk.crypto import KeyRing
from ortoo.stores.disk.files import RealDisk
from ortoo.stores.disk.store import DiskStore
from ortoo.testing import ManualClock
from tests.dialects.queen.home import Home, serving


def on_disk(path: Path) -> DiskStore:
    return DiskStore(RealDisk(path), KeyRing({}), in_threads=False)


def data(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["data"] for message in messages]


async def test_options_mean_settings_of_a_topic(home: Home) -> None:
    options = {
        "leaseTime": 600,
        "retryLimit": 5,
        "dlqAfterMaxRetries": True,
        "priority": 10,
        "delayedProcessing": 60,
        "windowBuffer": 30,
        "retentionSeconds": 86400,
        "completedRetentionSeconds": 3600,
        "retentionEnabled": True,
        "maxWaitTimeSeconds": 600,
        "ttl": 120,
        "maxSize": 5,
    }
    answer = await home.configure("q", options, namespace="shop", task="bill")
    assert {name: answer["options"][name] for name in options} == options
    config = (await home.queue.topic("q")).config
    assert (config.lease, config.max_attempts, config.priority) == (600, 6, 499_990)
    assert (config.delay, config.window_seconds, config.max_wait) == (60, 30, 600)
    assert (config.retention_seconds, config.retention_done_seconds) == (86400, 3600)
    assert (config.ttl, config.max_depth, config.ordering) == (120, 5, "key")
    assert config.labels.items() >= {"namespace": "shop", "task": "bill", "queen-priority": "10"}.items()
    answer = await home.configure("q", {"leaseTime": 5, "ttl": None})
    config = (await home.queue.topic("q")).config
    assert (config.lease, config.ttl, config.max_depth, config.labels) == (5, None, None, {})


async def test_defaults_neither_lose_nor_refuse_messages(home: Home) -> None:
    answer = await home.configure("q")
    assert (answer["options"]["ttl"], answer["options"]["maxSize"]) == (3600, 10000)
    config = (await home.queue.topic("q")).config
    assert config == FIRST_USE
    assert (config.ttl, config.max_depth, config.retention_seconds, config.max_wait) == (None, None, None, None)


async def test_labels_of_others_stay(home: Home) -> None:
    await home.queue.create_topic("q", labels={"team": "blue", "namespace": "old"}, partitions=3)
    await home.configure("q", {}, task="t")
    config = (await home.queue.topic("q")).config
    assert (config.labels, config.partitions) == ({"team": "blue", "task": "t"}, 3)


async def test_a_queue_cannot_be_encrypted_without_keys(tmp_path: Path) -> None:
    body = {"queue": "q", "options": {"encryptionEnabled": True}}
    async with serving(store=on_disk(tmp_path)) as home:
        assert "key" in (await home.post("/configure", body, 400))["error"]
        assert await home.queue.topics() == []


async def test_what_is_encrypted_stays_so(home: Home) -> None:
    """Later clients always send that they want no encryption."""
    await home.configure("q", {"encryptionEnabled": True})
    answer = await home.configure("q", {"encryptionEnabled": False})
    assert answer["options"]["encryptionEnabled"] is True
    assert (await home.queue.topic("q")).config.encrypted


async def test_a_partition_has_a_priority_of_its_own(home: Home) -> None:
    answer = await home.configure("q", {"priority": 3})
    answer = await home.configure("q", {"priority": 10, "leaseTime": 60}, partition="urgent")
    assert (answer["partition"], answer["options"]["priority"], answer["options"]["leaseTime"]) == ("urgent", 10, 60)
    await home.push("q", "later", partition="other")
    await home.push("q", "sooner", partition="urgent")
    first, second = [(await home.pop("q"))[0] for _ in range(2)]
    assert (first["data"], first["priority"]) == ("sooner", 10)
    assert (second["data"], second["priority"]) == ("later", 3)
    assert (await home.queue.topic("q")).config.lease == 60


async def test_the_most_important_queue_goes_first(home: Home) -> None:
    for queue, priority in (("low", -5), ("high", 100), ("usual", 0)):
        await home.configure(queue, {"priority": priority}, namespace="app", task=queue)
        await home.push(queue, queue)
    found = [(await home.get("/pop", namespace="app"))["messages"][0]["data"] for _ in range(3)]
    assert found == ["high", "usual", "low"]
    await home.push("low", "again", partition="x")
    assert data((await home.get("/pop", namespace="app", task="low"))["messages"]) == ["again"]
    assert await home.get("/pop", 204, namespace="app", task="nosuch") is None


async def test_delayed_messages_wait() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home:
        await home.configure("q", {"delayedProcessing": 60})
        await home.push("q", 1)
        assert await home.pop("q") == []
        await clock.advance(60)
        assert data(await home.pop("q")) == [1]
