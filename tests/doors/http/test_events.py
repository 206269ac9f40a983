"""Server-sent events: a topic followed, a group consumed, the overview watched; as `EventSource` and `curl -N` do it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ortoo.doors.http import events
from ortoo.doors.http.connection import Connection
from ortoo.doors.http.live import hub_of
from ortoo.doors.http.messages import Replay
from tests.doors.http.home import Home, serving, until


class Events:
    """What a browser would make of the stream."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.place = ""  # what it would come back with

    async def next(self) -> tuple[str, Any]:
        """The kind and the data of the next event; a comment is one, too."""
        kind, data = "message", list[str]()
        async with asyncio.timeout(60):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if not line and data:
                    return kind, json.loads("\n".join(data))
                if line.startswith(":"):
                    return "comment", line
                if name == "event":
                    kind = value
                elif name == "id":
                    self.place = value
                elif name == "data":
                    data.append(value)
        return "end", None

    async def values(self, count: int) -> list[Any]:
        found = [await self.next() for _ in range(count)]
        assert {kind for kind, _ in found} == {"message"}, found
        return [message["value"] for _, message in found]


@asynccontextmanager
async def opened(home: Home, path: str, begins: str = "begin", **options: Any) -> AsyncIterator[Events]:
    async with home.client.stream("GET", path, **options) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"] == "text/event-stream"
        stream = Events(response.aiter_lines())
        assert (await stream.next())[0] == begins
        yield stream


async def test_a_tail_goes_on_where_it_was_cut(home: Home) -> None:
    await home.queue.create_topic("t", partitions=3)
    await home.publish("t", "before")
    async with opened(home, "/v1/topics/t/tail") as stream:
        await home.publish("t", 1, 2, 3, 4)
        assert set(await stream.values(2)) < {1, 2, 3, 4}
        place = stream.place
        rest = await stream.values(2)
    await home.publish("t", 5)
    async with opened(home, "/v1/topics/t/tail", headers={"last-event-id": place}) as stream:
        assert await stream.values(3) == [*rest, 5], "what came meanwhile, too, and nothing twice"


async def test_a_tail_begins_where_it_is_told_to_and_filters(home: Home) -> None:
    await home.queue.create_topic("t", partitions=1)
    await home.publish("t", *({"n": n} for n in range(5)))
    path = "/v1/topics/t/tail?from_offset=1&filter=value.n>2"
    async with opened(home, path) as stream:
        assert await stream.values(2) == [{"n": 3}, {"n": 4}]


async def test_a_value_may_have_lines(home: Home) -> None:
    await home.queue.create_topic("t", partitions=1)
    body = b'{"value": {"a":\r\n [1,\r\n\n2]}}'
    await home.client.post("/v1/topics/t/messages", content=body, headers={"content-type": "application/json"})
    async with opened(home, "/v1/topics/t/tail?from_offset=0") as stream:
        assert await stream.values(1) == [{"a": [1, 2]}]


@pytest.mark.parametrize("place", ["x", "AAAA", "k80", "7", "%C3"])
async def test_an_odd_place_is_refused(home: Home, place: str) -> None:
    await home.queue.create_topic("t")
    answer = await home.client.get("/v1/topics/t/tail", headers={"last-event-id": place})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


async def test_what_is_not_there_is_said_at_once(home: Home) -> None:
    for path in ("/v1/topics/none/tail", "/v1/topics/none/groups/g/consume"):
        assert (await home.client.get(path)).status_code == 404
    assert (await home.client.get("/v1/topics/none/tail?filter=a:b:c>")).status_code in (400, 404)


async def test_a_tail_ends_with_its_topic(home: Home) -> None:
    await home.publish("t", 1)
    async with opened(home, "/v1/topics/t/tail") as stream:
        await home.queue.delete_topic("t")
        kind, problem = await stream.next()
        assert (kind, problem["code"]) == ("error", "not_found")
        assert (await stream.next())[0] == "end"
    await home.publish("t", 1)
    answer = await home.client.get("/v1/topics/t/tail", headers={"last-event-id": stream.place})
    assert "recreated" in answer.json()["detail"]


async def test_a_quiet_stream_shows_that_it_is_there(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEEPALIVE_SECONDS", 0.01)
    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)
    await home.publish("t", 1)
    async with opened(home, "/v1/topics/t/tail") as stream:
        assert (await stream.next())[0] == "comment"
    async with opened(home, "/v1/topics/t/groups/g/consume?start=new") as stream:
        assert (await stream.next())[0] == "comment"


async def test_a_stream_whose_client_settles_nothing_shows_that_it_is_there(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "KEEPALIVE_SECONDS", 0.01)
    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)
    await home.publish("t", 1, 2)
    async with opened(home, "/v1/topics/t/groups/g/consume?max_in_flight=1") as stream:
        assert (await stream.next())[0] == "message"
        assert (await stream.next())[0] == "comment"


async def test_what_does_not_match_is_not_looked_at_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEEPALIVE_SECONDS", 0.01)
    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)
    await home.queue.create_topic("t", partitions=1)
    await home.publish("t", *({"n": n} for n in range(3)))
    async with opened(home, "/v1/topics/t/tail?from_offset=0&filter=value.n>2") as stream:
        while events._read_place(stream.place).offsets != [3]:
            assert (await stream.next())[0] == "comment"
    await home.publish("t", {"n": 3})
    async with opened(home, "/v1/topics/t/tail", headers={"last-event-id": stream.place}) as stream:
        assert await stream.values(1) == [{"n": 3}]


async def test_nobody_looks_on_for_who_has_left(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_CHUNK_MESSAGES", 1)
    looked = list[int]()
    at_rest, gone = asyncio.Event(), asyncio.Event()
    take = Replay.take

    async def slow(replay: Replay, count: int, size: int) -> Any:
        looked.append(count)
        at_rest.set()
        await gone.wait()
        return await take(replay, count, size)

    monkeypatch.setattr(Replay, "take", slow)
    await home.publish("t", *range(50))
    async with opened(home, "/v1/topics/t/tail?from_offset=0&filter=none"):
        await at_rest.wait()
        connections = [one for one in home.door._state.connections if isinstance(one, Connection)]
        watched = [one for one in connections if one.running.scope["path"].endswith("tail")]
        assert watched
    await until(lambda: all(one.is_gone for one in watched))
    gone.set()
    await until(lambda: not hub_of(home.door._services)._looking)
    assert len(looked) == 1


async def test_a_group_is_consumed_and_what_is_not_settled_returns(home: Home) -> None:
    await home.publish("t", 1, 2, 3)
    async with opened(home, "/v1/topics/t/groups/g/consume?max_in_flight=2") as stream:
        first, second = [(await stream.next())[1] for _ in range(2)]
        assert (first["value"], second["value"]) == (1, 2)
        acked = await home.post("/v1/ack", {"receipts": [first["receipt"]]})
        assert acked.json()["results"][0]["ok"]
        third = (await stream.next())[1]  # there is room again
        assert third["value"] == 3
    messages = await home.lease("t", wait=30)
    assert {message["value"] for message in messages} <= {2, 3}
    assert {message["attempt"] for message in messages} == {1}, "what was not settled was no delivery"
    assert (await home.queue.group("t", "g")).backlog == 2


async def test_a_group_is_consumed_at_most_once_where_that_is_asked_for(home: Home) -> None:
    await home.publish("t", 1, 2, 3)
    async with opened(home, "/v1/topics/t/groups/g/consume?auto_ack=true&max_in_flight=1") as stream:
        assert await stream.values(3) == [1, 2, 3]
    assert (await home.queue.group("t", "g")).backlog == 0


async def test_pages_of_other_sites_consume_nothing(home: Home) -> None:
    await home.publish("t", 1)
    answer = await home.client.get("/v1/topics/t/groups/g/consume", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403
    assert (await home.client.head("/v1/topics/t/groups/g/consume")).status_code == 405


async def test_streams_end_when_the_server_stops() -> None:
    async with serving() as home:
        await home.publish("t", 1)
        tail, group = "/v1/topics/t/tail", "/v1/topics/t/groups/g/consume?start=new"
        async with opened(home, tail) as one, opened(home, group) as other:
            closing = asyncio.create_task(home.door.close(60))
            assert (await one.next())[0] == "end"
            assert (await other.next())[0] == "end"
            await closing


async def test_who_leaves_makes_room(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortoo.doors.http.live._MOST", {"watch": (1, 1), "tail": (1, 1)})
    await home.publish("t", 1)
    async with opened(home, "/v1/topics/t/tail"):
        assert (await home.client.get("/v1/topics/t/tail")).status_code == 429
    hub = hub_of(home.door._services)
    await until(lambda: not hub._looking)
    async with opened(home, "/v1/topics/t/tail"):
        pass


async def test_to_look_whether_it_is_there_is_no_stream(home: Home) -> None:
    await home.publish("t", 1)
    assert (await home.client.head("/v1/topics/t/tail")).status_code == 200
    await until(lambda: not hub_of(home.door._services)._looking)


async def test_events_leave_the_server_at_once(home: Home) -> None:
    await home.publish("t", 1)
    async with home.client.stream("GET", "/v1/topics/t/tail", headers={"accept-encoding": "gzip"}) as response:
        assert "content-encoding" not in response.headers
