"""A server has the dialects that its settings name: on the shared port, and whole on ports of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from ortoo.app.server import Server
from ortoo.model.settings import HttpSettings, Settings, TcpSettings

REQUESTS = {
    "queen": ("/api/v1/push", {"items": [{"queue": "q", "payload": 1}]}),
    "mqueue": ("/enqueue", [{"namespace": "default", "topic": "t", "payload": "eA=="}]),
    "goqueue": ("/v1/topics/t/publish", {"value": "eA=="}),
    "mqtt-queues": ("/api/v1/queues", {"name": "$queue/other"}),
}
GOQUEUES_OWN = "/v1/topics/t/messages"  # ours on the shared port


@asynccontextmanager
async def serving(http: HttpSettings) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """A client of each port that speaks HTTP."""
    server = Server(Settings(data="memory", http=http, tcp=TcpSettings(port=0)))
    await server.start()
    places = {name: address for name, address in server.addresses.items() if name != "tcp"}
    clients = {name: httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") for name, (_, port) in places.items()}
    try:
        yield clients
    finally:
        for client in clients.values():
            await client.aclose()
        await server.stop()


async def served(client: httpx.AsyncClient) -> set[str]:
    found = {name: await client.post(path, json=body) for name, (path, body) in REQUESTS.items()}
    assert {answer.status_code for answer in found.values()} <= {200, 201, 404}
    return {name for name, answer in found.items() if answer.is_success}


async def test_all_are_on_the_shared_port_unless_others_are_named() -> None:
    async with serving(HttpSettings(port=0)) as ports:
        assert await served(ports["http"]) == set(HttpSettings().dialects)
    for names in ([], ["queen"], ["mqueue", "mqtt-queues"]):
        async with serving(HttpSettings(port=0, dialects=names)) as ports:  # type: ignore[arg-type]
            assert await served(ports["http"]) == set(names)


async def test_one_with_a_port_of_its_own_is_whole_there() -> None:
    async with serving(HttpSettings(port=0, dialects=["queen"], dialect_ports=["goqueue=0"])) as ports:
        shared, own = ports["http"], ports["goqueue"]
        assert await served(shared) == {"queen"}
        assert await served(own) == {"goqueue"}
        body = {"messages": [{"value": "x"}]}
        [result] = (await own.post(GOQUEUES_OWN, json=body)).json()["results"]
        assert (result["priority"], "id" in result) == ("normal", False)
        [result] = (await shared.post(GOQUEUES_OWN, json=body)).json()["results"]
        assert ("priority" in result, result["duplicate"]) == (False, False)
        answer = await own.get("/api/v1/pop/queue/q")
        assert answer.status_code == 404
        assert "error" in answer.json()
