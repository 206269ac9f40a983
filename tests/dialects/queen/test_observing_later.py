"""Are status, consumer groups and traces answered as later clients of Queen need it, and is what is not there refused?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from ortoo.dialects.queen import unserved
from ortoo.dialects.queen.observing_table import OBSERVING
from ortoo.testing.clock import ManualClock
from tests.dialects.queen.home import API, Home
from tests.dialects.queen.observing_home import Sampled, sampling
from tests.dialects.queen.test_observing import OTHER, PARTITIONS, SHAPE


@pytest_asyncio.fixture
async def sampled() -> AsyncIterator[Sampled]:
    async with sampling() as sampled:
        await sampled.furnish()
        yield sampled


@pytest.fixture
def home(sampled: Sampled) -> Home:
    return sampled.home


# -- status


async def test_status_and_its_points(sampled: Sampled) -> None:
    await sampled.sample()
    found = await sampled.home.get("/status")
    assert found["messages"] == {name: SHAPE[name] + OTHER[name] for name in SHAPE}
    assert (found["bucketMinutes"], found["pointCount"]) == (1, len(found["throughput"]))
    assert sum(point["ingested"] for point in found["throughput"]) == 7
    assert sum(point["processed"] for point in found["throughput"]) == 1
    assert [(queue["name"], queue["totalConsumed"]) for queue in found["queues"]] == [("other", 0), ("shape", 2)]
    assert found["leases"]["totalBatchSize"] == 1
    assert found["deadLetterQueue"]["totalMessages"] == 1
    wide = await sampled.home.get("/status", **{"from": "2000-01-01T00:00:00Z"})
    assert wide["bucketMinutes"] == 15
    assert len(wide["throughput"]) <= 97
    assert sum(point["ingested"] for point in wide["throughput"]) == 7


async def test_status_of_queues(home: Home) -> None:
    found = await home.get("/status/queues", limit=2)
    assert [queue["name"] for queue in found["queues"]] == ["empty", "other"]
    assert found["pagination"] == {"limit": 2, "offset": 0}
    found = await home.get("/status/queues/shape")
    assert found["queue"]["name"] == "shape"
    assert found["queue"]["config"]["retryLimit"] == 0
    assert found["totals"]["messages"] == SHAPE
    assert {name: found["totals"][name] for name in SHAPE} == SHAPE
    assert found["partitions"][2]["messages"] == PARTITIONS[2]["stats"]
    assert await home.get("/status/queues/nosuch", 404) == {"error": "Queue not found", "code": "not_found"}


async def test_the_newest_messages_of_a_queue(home: Home) -> None:
    found = await home.get("/status/queues/shape/messages")
    assert [(row["partition"], row["status"]) for row in found] == [
        ("p3", "pending"),
        ("p3", "dead_letter"),
        ("p2", "processing"),
        ("p1", "completed"),
    ]
    assert found[0]["queuePath"] == "shape/p3"
    assert await home.get("/status/queues/shape/messages", limit=1, offset=2) == found[2:3]
    assert await home.get("/status/queues/empty/messages") == []
    await home.get("/status/queues/shape/messages", 400, offset=10_000)
    await home.get("/status/queues/nosuch/messages", 404)


async def test_analytics_over_time_and_buffers(sampled: Sampled) -> None:
    await sampled.sample()
    for interval in ("minute", "hour", "day"):
        found = await sampled.home.get("/status/analytics", interval=interval)
        assert (found["interval"], sum(point["messages"] for point in found["dataPoints"])) == (interval, 7)
    assert await sampled.home.get("/status/buffers") == {"pending": 0, "failed": 0, "dbHealthy": True, "worker": 0}


# -- groups


async def groups(home: Home) -> list[tuple[str, str, int]]:
    return [(row["name"], row["queueName"], row["totalLag"]) for row in await home.get("/consumer-groups")]


async def test_groups_are_listed_and_looked_at(home: Home) -> None:
    await home.pop("other", consumerGroup="g1")
    assert await groups(home) == [("__QUEUE_MODE__", "shape", 2), ("g1", "other", 2)]
    [row, _] = await home.get("/consumer-groups")
    assert (row["topics"], row["state"], row["subscriptionMode"]) == (["shape"], "Stable", None)
    assert await home.get("/consumer-groups/g1") == {
        "other": {
            "partitions": [
                {
                    "partition": "Default",
                    "workerId": None,
                    "lastConsumedAt": None,
                    "totalConsumed": 0,
                    "offsetLag": 2,
                    "timeLagSeconds": 0,
                    "leaseActive": True,
                }
            ]
        }
    }
    found = await home.get("/consumer-groups/__QUEUE_MODE__")
    assert [each["offsetLag"] for each in found["shape"]["partitions"]] == [0, 1, 1]
    assert await home.get("/consumer-groups/nosuch") == {}


async def test_groups_that_lag() -> None:
    clock = ManualClock()
    async with sampling(clock=clock) as sampled:
        await sampled.furnish()
        assert await sampled.home.get("/consumer-groups/lagging", minLagSeconds=60) == []
        await clock.advance(250)
        found = await sampled.home.get("/consumer-groups/lagging", minLagSeconds=60)
        assert [(row["consumer_group"], row["queue_name"], row["partition_name"]) for row in found] == [
            ("__QUEUE_MODE__", "shape", "p2"),
            ("__QUEUE_MODE__", "shape", "p3"),
        ]
        assert (found[0]["offset_lag"], found[0]["time_lag_seconds"], found[0]["lag_hours"]) == (1, 250, 0.07)
        await clock.advance(7200 - 250)
        [found] = await sampled.home.get("/consumer-groups/lagging", minLagSeconds=60)
        assert (found["partition_name"], found["lag_hours"]) == ("p3", 2.0)  # the other lease ended, as a failure
        [row] = await sampled.home.get("/consumer-groups")
        assert row["state"] == "Lagging"
        assert await sampled.home.get("/consumer-groups/lagging", minLagSeconds=100_000) == []


async def test_a_group_is_moved_and_delivers_again(home: Home) -> None:
    [first] = await home.pop("other", consumerGroup="g")
    await home.ack(first, consumerGroup="g")
    answer = await home.post("/consumer-groups/g/queues/other/seek", {"timestamp": "2000-01-01T00:00:00Z"})
    assert answer == {
        "success": True,
        "consumerGroup": "g",
        "queueName": "other",
        "seekToEnd": False,
        "targetTimestamp": "2000-01-01T00:00:00.000Z",
        "partitionsUpdated": 1,
    }
    [again] = await home.pop("other", consumerGroup="g")
    assert again["id"] == first["id"]
    answer = await home.post("/consumer-groups/g/queues/other/seek", {"toEnd": True})
    assert answer["seekToEnd"] is True
    assert await home.pop("other", consumerGroup="g") == []
    answer = await home.post("/consumer-groups/g/subscription", {"subscriptionTimestamp": "2000-01-01T00:00:00Z"})
    assert (answer["success"], answer["rowsUpdated"]) == (True, 1)
    assert len(await home.pop("other", consumerGroup="g", batch=2)) == 2


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/consumer-groups/g/queues/other/seek", {}, 400),
        ("/consumer-groups/g/queues/other/seek", {"timestamp": "soon"}, 400),
        ("/consumer-groups/g/queues/other/seek", {"toEnd": "x"}, 400),
        ("/consumer-groups/nosuch/queues/other/seek", {"toEnd": True}, 404),
        ("/consumer-groups/g/queues/nosuch/seek", {"toEnd": True}, 404),
        ("/consumer-groups/g/queues/other/partitions/p/seek", {"toEnd": True}, 501),
        ("/consumer-groups/g/subscription", {}, 400),
        ("/consumer-groups/g/subscription", [], 400),
        ("/traces", {}, 400),
        ("/system/maintenance", {}, 400),
        ("/system/maintenance", {"enabled": True}, 501),
        ("/system/maintenance/pop", {"enabled": True}, 501),
        ("/migration/start", {}, 501),
    ],
)
async def test_what_cannot_be_done_is_refused_in_queens_form(home: Home, path: str, body: Any, status: int) -> None:
    answer = await home.post(path, body, status)
    assert answer["error"]
    assert answer["code"]


async def test_a_group_is_deleted_of_one_queue_or_of_all(home: Home) -> None:
    for queue in ("other", "shape"):
        await home.pop(queue, consumerGroup="g")
    answer = await home.delete("/consumer-groups/g/queues/shape", deleteMetadata="true")
    assert answer == {
        "success": True,
        "consumerGroup": "g",
        "queueName": "shape",
        "deletedPartitions": 1,
        "metadataDeleted": True,
    }
    assert ("g", "other", 2) in await groups(home)
    answer = await home.delete("/consumer-groups/g", deleteMetadata="false")
    assert answer == {"success": True, "consumerGroup": "g", "deletedPartitions": 1, "metadataDeleted": False}
    assert [name for name, _, _ in await groups(home)] == ["__QUEUE_MODE__"]
    assert (await home.delete("/consumer-groups/g"))["deletedPartitions"] == 0


# -- traces, and what there is not


async def test_what_happened_to_a_message(home: Home) -> None:
    [message] = await home.pop("other", consumerGroup="g")
    await home.ack(message, consumerGroup="g")
    path = f"/traces/{message['partitionId']}/{message['transactionId']}"
    found = await home.get(path)
    assert [(one["eventType"], one["consumerGroup"]) for one in found] == [
        ("published", None),
        ("delivered", "g"),
        ("acknowledged", "g"),
    ]
    assert list(found[0]) == ["id", "eventType", "data", "consumerGroup", "workerId", "createdAt", "traceNames"]
    for other in ("/traces/nosuch/nosuch", f"/traces/{message['partitionId']}/nosuch", "/traces/1.2/x"):
        assert await home.get(other) == []
    [elsewhere] = await home.pop("shape", "p3", consumerGroup="g")
    assert await home.get(f"/traces/{elsewhere['partitionId']}/{message['transactionId']}") == []


async def test_traces_of_ones_own_are_not_kept_and_nothing_says_so_falsely(home: Home) -> None:
    answer = await home.post("/traces", {"transactionId": "a", "partitionId": "b", "data": {"x": 1}}, 200)
    assert answer["success"] is False
    assert "/api/v1/traces/" in answer["error"]
    assert await home.get("/traces/by-name/x") == []
    assert await home.get("/traces/names") == {
        "traceNames": [],
        "total": 0,
        "pagination": {"limit": 50, "offset": 0},
    }


async def test_there_is_no_maintenance(home: Home) -> None:
    off = {"maintenanceMode": False, "popMaintenanceMode": False, "bufferedMessages": 0, "bufferHealthy": True}
    assert await home.get("/system/maintenance") == off
    assert await home.post("/system/maintenance", {"enabled": False}) == off
    assert await home.get("/system/maintenance/pop") == {"popMaintenanceMode": False}
    assert await home.post("/system/maintenance/pop", {"enabled": False}) == {"popMaintenanceMode": False}


@pytest.mark.parametrize("path", ["/streams/v1/queries", "/streams/v1/cycle", "/streams/v1/state/get"])
async def test_streams_are_refused_with_a_pointer(home: Home, path: str) -> None:
    response = await home.web.post(path, json={})
    assert response.status_code == 501
    assert "pipeline" in response.json()["error"]


async def test_metrics_for_prometheus(sampled: Sampled) -> None:
    await sampled.sample()
    response = await sampled.home.own.get("/metrics/prometheus")
    assert response.headers["content-type"].startswith("text/plain")
    lines = response.text.splitlines()
    assert 'queen_cluster_push_messages_total{scope="cluster"} 7' in lines
    assert 'queen_cluster_ack_total{scope="cluster",result="success"} 1' in lines
    assert 'queen_dlq_depth{scope="cluster"} 1' in lines
    assert 'queen_dlq_depth_by_queue{queue="shape"} 1' in lines
    assert "# TYPE queen_dlq_depth gauge" in lines
    assert (await sampled.home.web.get("/metrics/prometheus")).status_code == 404


async def test_figures_are_those_of_ones_own_namespace() -> None:
    clock = ManualClock()
    async with sampling(clock=clock) as sampled:
        home = sampled.home
        await home.configure("same")
        await home.queue.publish_many("same", [b"1", b"2"], namespace="elsewhere")
        await home.queue.lease("same", namespace="elsewhere", lease=3600)
        await clock.advance(600)
        await home.push("same", 1)
        await home.pop("same")
        await sampled.sample()
        [row] = await home.get("/consumer-groups")
        assert (row["totalLag"], row["maxTimeLag"], row["state"]) == (1, 0, "Stable")
        assert (await home.get("/resources/overview"))["messages"]["total"] == 1
        assert (await home.get("/status"))["messages"]["total"] == 1
        lines = (await home.own.get("/metrics/prometheus")).text.splitlines()
        assert 'queen_cluster_push_messages_total{scope="cluster"} 1' in lines


# -- bad input


ODD_QUERIES = (
    "limit=x",
    "offset=-1",
    "offset=99999999999999999999",
    "limit=0&offset=0",
    "unknown=1",
    "limit=99999999",
    "namespace=%ff",
    "minLagSeconds=-1",
    "consumerGroup=" + 300 * "x",
)


async def test_odd_queries_are_answered_or_refused_and_never_fail(home: Home) -> None:
    for route in OBSERVING:
        if route.method != "GET" or route.handler is unserved.server_metrics:
            continue
        path = route.path.replace("{queue}", "shape").replace("{group}", "g")
        for query in ODD_QUERIES:
            response = await home.web.get(f"{path}?{query}")
            assert response.status_code in (200, 400, 501), (path, query, response.text)
            if response.status_code != 200:
                assert response.json()["error"]


async def test_instants_and_intervals_that_make_no_sense(home: Home) -> None:
    for path, query in (
        ("/status", {"from": "yesterday"}),
        ("/status", {"from": "2999-01-01T00:00:00Z"}),
        ("/status", {"from": "2020-01-02T00:00:00Z", "to": "2020-01-01T00:00:00Z"}),
        ("/status/analytics", {"interval": "century"}),
    ):
        assert (await home.get(path, 400, **query))["error"]
    assert (await home.get("/status", **{"from": "2020-01-01", "to": "2020-01-02"}))["throughput"] == []


async def test_the_wrong_method_is_refused_in_queens_form(home: Home) -> None:
    response = await home.web.post(f"{API}/analytics/queues", json={})
    assert response.status_code == 405
    assert response.json()["error"]
