"""Does a server sample by itself, tell the same through every door, and stop when it stops?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

import ortoo
from ortoo.app.server import Server
from ortoo.model.series import GAUGES, RATES
from tests.app.test_server import ANY_PORT, change, http_url, remote, serving


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


async def next_sample(server: Server) -> None:
    async with asyncio.timeout(60):
        told = asyncio.Event()
        stop = server.sampler.subscribe(lambda _: told.set())
        await told.wait()
        stop()


async def ask(server: Server, path: str) -> Any:
    async with httpx.AsyncClient(base_url=http_url(server)) as http:
        return (await http.get(path)).json()


async def test_the_first_who_asks_sees_every_topic(tmp_path: Path) -> None:
    """A page that connects again keeps its place among the topics only if there is never a moment without any."""
    async with serving(change(ANY_PORT, data=str(tmp_path))) as server, remote(server) as queue:
        for name in "abc":
            await queue.publish(name, b"x")
    async with serving(change(ANY_PORT, data=str(tmp_path))) as server:
        told = await ask(server, "/v1/overview")
    assert [(row["name"], row["depth"]) for row in told["topics"]] == [("a", 1), ("b", 1), ("c", 1)]


async def test_every_door_tells_the_same(server: Server) -> None:
    async with remote(server) as queue:
        await queue.publish_many("jobs", [b"1", b"2", b"3"])
        [message] = await queue.lease("jobs", group="g")
        await message.ack()
        await next_sample(server)
        await next_sample(server)
        told = await queue.series("jobs", count=300)
        assert sum(told.figures["published"]) == 3
        assert sum(told.figures["acked"]) == 1
        assert told.figures["depth"][-1] == 2
        assert list(told.figures) == [*RATES, *GAUGES]
        await server.sampler.stop()  # so that all are asked of the same second
        for topic, more in (("jobs", {}), ("jobs", {"group": "g"}), (None, {}), (None, {"namespace": "default"})):
            for resolution in ("second", "minute"):
                asked: dict[str, Any] = {"resolution": resolution, "count": 7, **more}
                near = await queue.series(topic, **asked)
                query = "&".join(f"{name}={value}" for name, value in asked.items())
                far = await ask(server, f"/v1/series?{query}" + (f"&topic={topic}" if topic else ""))
                assert far["timestamps"] == near.timestamps
                assert far["figures"] == near.figures
                assert (far["topics"], far["left_out"]) == (near.topics, near.left_out) == (1, 0)
        with pytest.raises(ortoo.NotFoundError):
            await queue.series("unknown")
        with pytest.raises(ortoo.InvalidError, match="resolution"):
            await queue.series(resolution="hour")  # type: ignore[arg-type]
    for wrong in ("resolution=hour", "count=0", "count=1441", "group=g"):
        assert (await ask(server, f"/v1/series?{wrong}"))["code"] == "invalid"


async def test_keys_are_listed_through_every_door(server: Server) -> None:
    async with remote(server) as queue:
        for key in ("ann", "bob", None):
            await queue.publish("jobs", b"x", key=key)
        await queue.create_group("jobs", "g")
        found = await queue.message_keys("jobs", group="g")
        far = await ask(server, "/v1/topics/jobs/groups/g/keys")
        assert {key["key"]: key["pending"] for key in far["keys"]} == {"ann": 1, "bob": 1, None: 1}
        assert [(key.key, key.newest) for key in found.keys] == [(key["key"], key["newest"]) for key in far["keys"]]
        assert found.is_complete
        assert far["is_complete"]
        few = await ask(server, "/v1/topics/jobs/groups/g/keys?limit=1")
        assert (len(few["keys"]), few["is_complete"]) == (1, False)


async def test_the_doors_gate_has_the_sampler(server: Server) -> None:
    assert server._gates["http"].sampler is server.sampler


async def test_it_ends_with_the_server() -> None:
    async with serving() as server:
        await next_sample(server)
        task = server.sampler._runner._task
        assert task is not None
        assert not task.done()
    assert task.done()
    newest = server.sampler.newest
    await asyncio.sleep(0)
    assert server.sampler.newest == newest


async def test_every_door_shows_the_same_overview(server: Server) -> None:
    async with remote(server) as queue:
        await queue.publish_many("jobs", [b"1", b"2", b"3"])
        [message] = await queue.lease("jobs", group="g")
        await message.reject("no")
        await next_sample(server)
        await next_sample(server)
        await server.sampler.stop()  # so that all are asked of the same second
        near = await queue.overview(sort="name", limit=5)
        far = await ask(server, "/v1/overview?sort=name&limit=5")
        assert [row.name for row in near.topics] == ["jobs", "jobs.dlq"]
        assert near.topics[0].dead == 1
        assert [need.kind for need in near.needs] == ["dead_letters"]
        plain = msgspec.to_builtins(near)
        assert far | {"totals": None} == plain | {"totals": None}  # other connections are open by then
        events = msgspec.to_builtins(await queue.activity(limit=4))
        assert events == await ask(server, "/v1/activity?limit=4")
        assert len(events["events"]) == 4
        with pytest.raises(ortoo.InvalidError, match="sorted by"):
            await queue.overview(sort="size")  # type: ignore[arg-type]
    async with httpx.AsyncClient(base_url=http_url(server)) as http:
        exposed = (await http.get("/metrics")).text
    figures = dict(line.rsplit(" ", 1) for line in exposed.splitlines() if not line.startswith("#"))
    for name in ("ortoo_sampler_seconds", "ortoo_sampler_longest_turn_seconds", "ortoo_overview_seconds"):
        assert float(figures[name]) > 0, name
