"""The door in a server as it is run: off unless it is asked for, with the same tokens and over TLS as the others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from ortoo.app.certificates import load
from ortoo.app.server import Server
from ortoo.client.tls import client_context
from ortoo.dialects.gomq import GomqDoor
from ortoo.model.errors import ConfigError
from ortoo.model.mqtt_settings import MqttSettings
from ortoo.model.settings import GomqSettings, HttpSettings, Settings, TcpSettings
from tests.app.certificates import Pki
from tests.dialects.gomq.home import Client, serving
from tests.doors.tcp.home import until

TOKEN = "a-token-that-opens-everything"


def settings(**more: object) -> Settings:
    http = HttpSettings(port=0, dialect_ports=["mqueue=0"])
    mqtt = MqttSettings(enabled=False)
    return Settings(data="memory", http=http, tcp=TcpSettings(port=0), mqtt=mqtt, token=TOKEN, **more)  # type: ignore[arg-type]


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


async def test_over_tls_and_those_who_do_not_speak_it_are_told(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    async with serving(tls=load(pki.settings()).context) as home:
        tls = client_context(pki.tls())
        client = Client(*await asyncio.open_connection(*home.door.address, ssl=tls, server_hostname="localhost"))
        assert await client.ask("PING") == "PONG"
        assert (await client.ask("PUBLISH queue q x")).startswith("OK ")
        client.cut()
        async with home.client() as plain:
            assert await plain.ask("PING") == "ERROR this port speaks TLS"


async def test_half_a_line_does_not_keep_others_from_theirs() -> None:
    """All that may be held is held by those who do not go on."""
    async with serving(budget=1 << 20) as home:
        halves = [Client(*await asyncio.open_connection(*home.door.address)) for _ in range(4)]
        for half in halves:
            half.writer.write(b"PUBLISH queue q " + b"x" * 700_000)
        await until(lambda: home.gate.budget.bytes >= 1 << 20)
        async with home.client() as client, asyncio.timeout(60):
            assert (await client.ask("PUBLISH queue q " + "y" * 700_000)).startswith("OK ")
        for half in halves:
            half.cut()
        await home.until_alone()
        assert home.gate.budget.bytes == 0


async def test_what_it_says_of_a_port_that_is_taken() -> None:
    async with serving() as home:
        other = GomqDoor(home.gate, GomqSettings(port=home.door.address[1]))
        with pytest.raises(ConfigError, match=r"choose another gomq\.port"):
            await other.open()
