"""The door in a server as it is run: off unless it is asked for, with the same tokens and over TLS as the others."""

from __future__ import annotations

import asyncio

import httpx

from ortoo.app.server import Server
from ortoo.model.settings import GomqSettings, HttpSettings, Settings, TcpSettings
from tests.dialects.gomq.home import Client

TOKEN = "a-token-that-opens-everything"


def settings(**more: object) -> Settings:
    http = HttpSettings(port=0, dialect_ports=["mqueue=0"])
    return Settings(data="memory", http=http, tcp=TcpSettings(port=0), token=TOKEN, **more)  # type: ignore[arg-type]


async def test_it_is_off_unless_it_is_asked_for() -> None:
    server = Server(settings())
    await server.start()
    try:
        assert sorted(server.addresses) == ["http", "mqueue", "tcp"]
    finally:
        await server.stop()


async def test_what_is_published_there_is_dequeued_by_mqueue_and_acked() -> None:
    server = Server(settings(gomq=GomqSettings(enabled=True, port=0)))
    await server.start()
    try:
        client = Client(*await asyncio.open_connection(*server.addresses["gomq"]))
        assert await client.ask("PUBLISH queue orders tea") == "ERROR unauthorized"
        assert await client.ask(f"AUTH {TOKEN}") == "OK authenticated"
        assert (await client.ask("PUBLISH queue orders tea")).startswith("OK ")
        base = f"http://127.0.0.1:{server.addresses['mqueue'][1]}"
        async with httpx.AsyncClient(base_url=base, headers={"authorisation": f"Bearer {TOKEN}"}) as mqueue:
            assert (await mqueue.get("/health")).text == "OK"
            [item] = (await mqueue.get("/dequeue?namespace=default&topic=orders")).json()
            assert item["Payload"] == "dGVh"
            acked = {"id": item["ID"], "namespace": "default", "topic": "orders"}
            assert (await mqueue.post("/ack", json=acked)).text == "OK"
            assert 'mqueue_ack_total{namespace="default",topic="orders"} 1' in (await mqueue.get("/metrics")).text
        client.cut()
    finally:
        await server.stop()
