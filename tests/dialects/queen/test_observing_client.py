"""Does what Queen's own Python client has for operators work here as it is?"""

from __future__ import annotations

from typing import Any

from queen import Queen  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.dialects.queen.observing_home import sampling


async def test_queens_own_client_looks_at_everything() -> None:
    async with sampling() as sampled:
        await sampled.furnish()
        await sampled.sample()
        [message] = await sampled.home.pop("other", consumerGroup="g")
        async with Queen(sampled.home.own_url) as queen:
            admin: Any = queen.admin
            assert (await admin.get_overview())["queues"] == 3
            assert [each["namespace"] for each in (await admin.get_namespaces())["namespaces"]] == ["ns"]
            assert [each["task"] for each in (await admin.get_tasks())["tasks"]] == ["t", "u"]
            assert [each["name"] for each in (await admin.list_queues(limit=2))["queues"]] == ["empty", "other"]
            assert (await admin.get_queue("shape"))["totals"]["total"] == 4
            assert (await admin.get_queue_depth("shape"))["pending"] == 2
            assert len((await admin.get_partitions(queue="shape"))["partitions"]) == 3
            assert (await admin.get_status())["messages"]["deadLetter"] == 1
            assert len((await admin.get_queue_stats(limit=1))["queues"]) == 1
            assert (await admin.get_queue_detail("shape"))["queue"]["name"] == "shape"
            assert sum(point["messages"] for point in (await admin.get_analytics(interval="hour"))["dataPoints"]) == 7
            assert [each["name"] for each in await admin.list_consumer_groups()] == ["__QUEUE_MODE__", "g"]
            assert (await admin.get_consumer_group("g"))["other"]["partitions"][0]["offsetLag"] == 2
            assert await admin.get_lagging_consumers(60) == []
            assert (await admin.refresh_consumer_stats())["success"] is True
            traces = await admin.get_traces_for_message(message["partitionId"], message["transactionId"])
            assert [trace["eventType"] for trace in traces] == ["published", "delivered"]
            assert await admin.get_traces_by_name("x") == []
            assert (await admin.get_trace_names())["total"] == 0
            assert (await admin.health())["status"] == "healthy"
            assert (await admin.metrics())["messages"]["total"] == 7
            assert (await admin.seek_consumer_group("g", "other", {"toEnd": True}))["seekToEnd"] is True
            assert (await admin.delete_consumer_group_for_queue("g", "other"))["deletedPartitions"] == 1
            assert (await queen.delete_consumer_group("__QUEUE_MODE__"))["success"] is True
            answer = await queen.update_consumer_group_timestamp("nosuch", "2020-01-01T00:00:00Z")
            assert answer["rowsUpdated"] == 0
