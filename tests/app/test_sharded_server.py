"""A server with several stores: every door reaches every shard, and clients notice nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

import ortoo
from ortoo.app.server import Server
from ortoo.app.shards import check_shards
from ortoo.model.commands import CreateTopic
from ortoo.model.errors import ConfigError
from ortoo.model.names import TopicName
from ortoo.model.shards import shard_of
from ortoo.model.topic import TopicConfig
from tests.app.test_server import ANY_PORT, change, http_url, remote, serving

HERE, THERE = (
    next(name for name in ("a", "b", "c", "d", "e") if shard_of(TopicName("default", name), 2) == shard)
    for shard in (0, 1)
)


def two(tmp_path: Path) -> Any:
    return change(ANY_PORT, store=[str(tmp_path / "1"), str(tmp_path / "2")])


async def ask(server: Server, path: str) -> Any:
    async with httpx.AsyncClient(base_url=http_url(server), timeout=60) as http:
        answer = await http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json() if "json" in answer.headers["content-type"] else answer.text


async def test_every_door_reaches_every_shard(tmp_path: Path) -> None:
    async with serving(two(tmp_path)) as server, remote(server) as queue:
        for topic in (HERE, THERE):
            await queue.publish(topic, topic.encode())
            async with httpx.AsyncClient(base_url=http_url(server), timeout=60) as http:
                leased = await http.post(f"/v1/topics/{topic}/groups/g/lease", json={"max_messages": 1})
                [message] = leased.json()["messages"]
                settled = await http.post(f"/v1/topics/{topic}/groups/g/ack", json={"receipts": [message["receipt"]]})
                assert settled.json()["results"][0]["ok"]
        assert [row["topics"] for row in (await ask(server, "/v1/shards"))["shards"]] == [1, 1]
        assert {row["name"] for row in (await ask(server, "/v1/topics"))["topics"]} == {HERE, THERE}
        text = await ask(server, "/metrics")
        for topic in (HERE, THERE):
            assert f'ortoo_messages_acked_total{{namespace="default",topic="{topic}"}} 1.0' in text
            assert f'ortoo_delivery_latency_seconds_count{{namespace="default",topic="{topic}",group="g"}} 1.0' in text
        assert await ask(server, "/ready") is not None
        told = await ask(server, "/v1/overview")
        assert {row["name"] for row in told["topics"]} <= {HERE, THERE}
    assert await asyncio.to_thread(check_shards, [str(tmp_path / "1"), str(tmp_path / "2")]) == []


async def test_stores_in_another_order_or_number_are_refused_at_the_start(tmp_path: Path) -> None:
    async with serving(two(tmp_path)) as server, remote(server) as queue:
        await queue.publish(HERE, b"1")
    for stores in (["2", "1"], ["1"], ["1", "2", "3"]):
        with pytest.raises(ConfigError, match="shard"):
            await Server(change(ANY_PORT, store=[str(tmp_path / name) for name in stores])).start()
    async with serving(two(tmp_path)) as server, remote(server) as queue:
        assert (await queue.topic(HERE)).depth == 1


async def test_a_topic_in_the_wrong_shard_is_found_by_a_check(tmp_path: Path) -> None:
    async with serving(two(tmp_path)) as server:
        await server.shards.brokers[0].call(CreateTopic(TopicName("default", THERE), TopicConfig()))
    [problem] = await asyncio.to_thread(check_shards, [str(tmp_path / "1"), str(tmp_path / "2")])
    assert repr(THERE) in problem
    assert "looked for in shard 1" in problem


async def test_mqtt_queues_of_every_shard(tmp_path: Path) -> None:
    aiomqtt = pytest.importorskip("aiomqtt")
    settings = two(tmp_path)
    async with serving(settings) as server, remote(server) as queue:
        host, port = server.addresses["mqtt"]
        async with aiomqtt.Client(host, port, protocol=aiomqtt.ProtocolVersion.V5, identifier="worker-1") as client:
            for topic in (HERE, THERE):
                await client.subscribe(f"$queue/{topic}", qos=1)
                await client.publish(f"$queue/{topic}", topic.encode(), qos=1)
            await client.subscribe("plain/#", qos=1)
            await client.publish("plain/1", b"plain", qos=1)
            came = set[bytes]()
            async with asyncio.timeout(60):
                async for message in client.messages:
                    came.add(message.payload)
                    if len(came) == 3:
                        break
        assert came == {HERE.encode(), THERE.encode(), b"plain"}
        for topic in (HERE, THERE):
            assert len((await queue.topic(topic)).partitions) == 10


async def test_transactions_across_shards_are_refused_over_every_door(tmp_path: Path) -> None:
    async with serving(two(tmp_path)) as server, remote(server) as queue:
        with pytest.raises(ortoo.InvalidError, match="span shards"):
            async with queue.transaction() as tx:
                tx.publish(HERE, b"1")
                tx.publish(THERE, b"1")
        body = {"publish": [{"topic": name, "messages": [{"value": 1}]} for name in (HERE, THERE)]}
        async with httpx.AsyncClient(base_url=http_url(server), timeout=60) as http:
            answer = await http.post("/v1/transactions", json=body)
        assert answer.status_code == 400, answer.text
        assert await queue.topics() == []
