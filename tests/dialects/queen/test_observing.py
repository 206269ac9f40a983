"""Are Queen's analytics, resources, status and groups answered as they were there, with true figures?"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ortoo.dialects.queen import observing
from ortoo.model import limits
from ortoo.testing.clock import ManualClock
from tests.dialects.queen.home import Home
from tests.dialects.queen.observing_home import Sampled, sampling

NONE = {"pending": 0, "processing": 0, "completed": 0, "failed": 0, "deadLetter": 0, "total": 0}
SHAPE = {"pending": 1, "processing": 1, "completed": 1, "failed": 0, "deadLetter": 1, "total": 4}
PARTITIONS = [
    {"name": "p1", "stats": NONE | {"completed": 1, "total": 1}},
    {"name": "p2", "stats": NONE | {"processing": 1, "total": 1}},
    {"name": "p3", "stats": NONE | {"pending": 1, "deadLetter": 1, "total": 2}},
]
OTHER = NONE | {"pending": 2, "total": 2}


@pytest_asyncio.fixture
async def sampled() -> AsyncIterator[Sampled]:
    async with sampling() as sampled:
        await sampled.furnish()
        yield sampled


@pytest.fixture
def home(sampled: Sampled) -> Home:
    return sampled.home


# -- analytics


async def test_counts_of_a_queue(home: Home) -> None:
    assert await home.get("/analytics/queue/shape") == {
        "queue": "shape",
        "namespace": "ns",
        "task": "t",
        "totals": SHAPE,
        "partitions": PARTITIONS,
    }
    assert await home.get("/analytics/queue/nosuch", 404) == {"error": "Queue not found", "code": "not_found"}


async def test_counts_of_all_queues_without_their_dead_letters(home: Home) -> None:
    found = (await home.get("/analytics/queues"))["queues"]
    assert [queue["queue"] for queue in found] == ["empty", "other", "shape"]
    assert found[0] == {"queue": "empty", "namespace": None, "task": None, "partitions": [], "totals": NONE}
    assert found[1]["partitions"] == [{"name": "Default", "stats": OTHER}]
    assert found[2]["totals"] == SHAPE
    [second] = (await home.get("/analytics/queues", limit=1, offset=1))["queues"]
    assert second == found[1]
    [named] = (await home.get("/analytics/queues", search="HAP"))["queues"]
    assert named == found[2]


async def test_counts_of_a_namespace_and_of_a_task(home: Home) -> None:
    found = await home.get("/analytics", namespace="ns")
    assert found["namespace"] == "ns"
    assert found["totals"] == {name: SHAPE[name] + OTHER[name] for name in SHAPE}
    assert found["queues"] == [
        {"queue": "other", "task": "u", "partitions": [{"name": "Default", "stats": OTHER}], "totals": OTHER},
        {"queue": "shape", "task": "t", "partitions": PARTITIONS, "totals": SHAPE},
    ]
    found = await home.get("/analytics", task="t")
    assert (found["task"], [queue["namespace"] for queue in found["queues"]]) == ("t", ["ns"])
    assert (await home.get("/analytics", namespace="nosuch"))["queues"] == []


async def test_depths(home: Home) -> None:
    depths = (await home.get("/analytics/queue-depths"))["depths"]
    assert depths[2] == {
        "queue": "shape",
        "depth": 1,
        "processing": 1,
        "partitions": [
            {"name": "p1", "depth": 0, "processing": 0},
            {"name": "p2", "depth": 0, "processing": 1},
            {"name": "p3", "depth": 1, "processing": 0},
        ],
    }


async def test_rows_by_group_have_numbers_as_text(home: Home) -> None:
    await home.pop("shape", "p3", consumerGroup="g1")
    rows = await home.get("/analytics/queue-stats", queue="shape")
    assert [(row["consumer_group"], row["partition"]) for row in rows] == [
        ("__QUEUE_MODE__", "p1"),
        ("__QUEUE_MODE__", "p2"),
        ("__QUEUE_MODE__", "p3"),
        ("g1", "p1"),
        ("g1", "p2"),
        ("g1", "p3"),
    ]
    assert rows[2] == {
        "queue": "shape",
        "namespace": "ns",
        "task": "t",
        "partition": "p3",
        "consumer_group": "__QUEUE_MODE__",
        "pending": "1",
        "processing": "0",
        "completed": "0",
        "failed": "0",
        "dead_letter": "1",
        "total_messages": "2",
        "consumer_groups_count": "2",
    }
    [row] = await home.get("/analytics/queue-stats", queue="shape", consumerGroup="g1", partition="p3")
    assert (row["pending"], row["processing"]) == ("1", "1")


async def test_the_group_furthest_behind_is_what_a_queue_shows(home: Home) -> None:
    await home.pop("shape", "p1", consumerGroup="slow")
    assert (await home.get("/analytics/queue/shape"))["totals"] == NONE | {"pending": 3, "processing": 1, "total": 4}
    assert (await home.get("/analytics/queue/shape", consumerGroup="__QUEUE_MODE__"))["totals"] == SHAPE


async def test_throughput_has_sixty_minutes_and_counts_what_happened(sampled: Sampled) -> None:
    await sampled.sample()
    buckets = (await sampled.home.get("/analytics/throughput"))["throughput"]
    assert len(buckets) == 60
    assert list(buckets[0]) == ["timestamp", "incoming", "completed", "processing", "failed", "deadLetter", "lag"]
    stamps = [bucket["timestamp"] for bucket in buckets]
    assert stamps == sorted(stamps, reverse=True)
    assert all(stamp.endswith(":00.000Z") for stamp in stamps)
    for name, count in (("incoming", 7), ("processing", 3), ("completed", 1), ("failed", 1), ("deadLetter", 1)):
        assert sum(bucket[name]["messagesPerMinute"] for bucket in buckets) == count, name
    assert buckets[0]["lag"] == {"avgSeconds": 0, "avgMilliseconds": 0, "sampleCount": 0}
    for query, count in (({"queue": "other"}, 2), ({"namespace": "ns"}, 6), ({"task": "u"}, 2), ({"queue": "no"}, 0)):
        buckets = (await sampled.home.get("/analytics/throughput", **query))["throughput"]
        assert sum(bucket["incoming"]["messagesPerMinute"] for bucket in buckets) == count


async def test_lag_tells_how_long_the_oldest_waits() -> None:
    clock = ManualClock()
    async with sampling(clock=clock) as sampled:
        await sampled.furnish()
        await clock.advance(90)
        [lag] = [one for one in (await sampled.home.get("/analytics/queue-lag"))["queues"] if one["queue"] == "shape"]
    assert lag["totals"] == {
        "pendingCount": 1,
        "processingCount": 1,
        "totalBacklog": 2,
        "completedMessages": 1,
        "avgProcessingTimeSeconds": 0,
        "medianProcessingTimeSeconds": 0,
        "p95ProcessingTimeSeconds": 0,
        "estimatedLagSeconds": lag["totals"]["estimatedLagSeconds"],
        "medianLagSeconds": lag["totals"]["medianLagSeconds"],
        "p95LagSeconds": lag["totals"]["p95LagSeconds"],
        "avgProcessingTime": "0s",
        "medianProcessingTime": "0s",
        "p95ProcessingTime": "0s",
        "estimatedLag": lag["totals"]["estimatedLag"],
        "medianLag": lag["totals"]["medianLag"],
        "p95Lag": lag["totals"]["p95Lag"],
    }
    assert 90 <= lag["totals"]["estimatedLagSeconds"] < 100
    assert lag["totals"]["estimatedLag"].startswith("9")
    assert [each["stats"]["estimatedLagSeconds"] >= 90 for each in lag["partitions"]] == [False, True, True]


# -- resources


async def test_queues_are_listed_newest_first(home: Home) -> None:
    found = (await home.get("/resources/queues"))["queues"]
    assert [queue["name"] for queue in found] == ["empty", "other", "shape"]
    assert found[2] == {
        "id": found[2]["id"],
        "name": "shape",
        "namespace": "ns",
        "task": "t",
        "createdAt": found[2]["createdAt"],
        "partitions": 3,
        "messages": {"total": 4, "pending": 1, "processing": 1},
    }
    assert found[0]["partitions"] == 0


async def test_a_queue_in_detail(home: Home) -> None:
    found = await home.get("/resources/queues/shape")
    assert (found["name"], found["totals"]) == ("shape", SHAPE)
    assert [(each["name"], each["stats"]) for each in found["partitions"]] == [
        (each["name"], each["stats"]) for each in PARTITIONS
    ]
    assert list(found["partitions"][0]) == ["id", "name", "createdAt", "stats", "oldestMessage", "newestMessage"]
    [message] = await home.pop("shape", "p3", consumerGroup="g1")
    assert found["partitions"][2]["id"] == message["partitionId"]
    assert found["partitions"][2]["oldestMessage"] == message["createdAt"]


async def test_what_is_left_to_do(home: Home) -> None:
    await home.pop("shape", "p1", consumerGroup="g1")
    found = await home.get("/resources/queues/shape/depth", group="__QUEUE_MODE__")
    assert found == {
        "queue": "shape",
        "group": "__QUEUE_MODE__",
        "pending": 2,
        "partitionsPending": 2,
        "conflation": False,
        "effectivePending": 2,
        "partitions": [
            {"partition": "p1", "pending": 0},
            {"partition": "p2", "pending": 1},
            {"partition": "p3", "pending": 1},
        ],
    }
    found = await home.get("/resources/queues/shape/depth")
    assert (found["group"], found["pending"], found["partitionsPending"]) == (None, 4, 3)


async def test_partitions_namespaces_tasks_and_all_together(home: Home) -> None:
    partitions = (await home.get("/resources/partitions"))["partitions"]
    assert [(each["queue"], each["name"]) for each in partitions] == [
        ("other", "Default"),
        ("shape", "p1"),
        ("shape", "p2"),
        ("shape", "p3"),
    ]
    assert partitions[3] == {
        "id": partitions[3]["id"],
        "name": "p3",
        "queue": "shape",
        "namespace": "ns",
        "task": "t",
        "queuePriority": 7,
        "createdAt": partitions[3]["createdAt"],
        "depth": 1,
        "processing": 0,
        "total": 2,
    }
    assert (await home.get("/resources/partitions", limit=2, offset=1))["partitions"] == partitions[1:3]
    assert (await home.get("/resources/partitions", queue="other"))["partitions"] == partitions[:1]
    assert (await home.get("/resources/namespaces"))["namespaces"] == [
        {"namespace": "ns", "queues": 2, "partitions": 4, "messages": {"total": 6, "pending": 3}}
    ]
    assert (await home.get("/resources/tasks"))["tasks"] == [
        {"task": "t", "queues": 1, "partitions": 3, "messages": {"total": 4, "pending": 1}},
        {"task": "u", "queues": 1, "partitions": 1, "messages": {"total": 2, "pending": 2}},
    ]
    found = await home.get("/resources/overview")
    assert found["timestamp"].endswith("Z")
    assert {name: found[name] for name in ("queues", "partitions", "namespaces", "tasks", "messages")} == {
        "queues": 3,
        "partitions": 4,
        "namespaces": 1,
        "tasks": 2,
        "messages": {name: SHAPE[name] + OTHER[name] for name in SHAPE},
    }


async def test_what_one_request_reads_is_bounded(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals stay true; of partitions, those are told that were read."""
    monkeypatch.setattr(observing, "_ROWS_MAX", 2)
    found = (await home.get("/analytics/queues"))["queues"]
    assert [len(queue["partitions"]) for queue in found] == [0, 1, 1]
    assert found[2]["totals"] == SHAPE
    assert (await home.get("/resources/overview"))["partitions"] == 2
    monkeypatch.setattr(limits, "KEYS_READ_MAX", 1)
    found = (await home.get("/analytics/queues"))["queues"]
    assert [len(queue["partitions"]) for queue in found] == [0, 1, 0]
