"""A server of MQTT that is killed under load: sessions that are kept go on, nothing confirmed is lost, QoS 2 comes once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest

from ortoo.doors.mqtt.wire.packets import Subscription, Will

from .mqtt_client import SessionClient

ROOT = Path(__file__).resolve().parents[2]
_WAIT_SECONDS = 60


@contextmanager
def a_server(data: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    program = str(ROOT / "tests" / "app" / "server_process.py")
    command = [sys.executable, program, f"data={data}", "tcp.port=0", "http.port=0", "mqtt.port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield process, msgspec.json.decode(process.stdout.readline(), type=dict[str, tuple[str, int]])["mqtt"][1]
        finally:
            process.kill()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(_WAIT_SECONDS):
        while not is_so():  # noqa: ASYNC110  what other processes do is no event here
            await asyncio.sleep(0.01)


async def publish_until_gone(client: SessionClient, numbers: Iterator[int]) -> None:
    while True:
        number = next(numbers)
        await client.publish(f"k/{number % 7}", b"%d" % number, 1 + number % 2)
        if number % 20 == 0:
            await asyncio.sleep(0)


async def live_and_die(data: Path, clients: list[SessionClient], numbers: Iterator[int], seconds: float) -> None:
    """One life of a server, which ends in the middle of work."""
    publisher, subscriber = clients
    with a_server(data) as (process, port):
        await subscriber.connect(port, Subscription("k/#", 2))
        reading = asyncio.create_task(subscriber.run())
        if not subscriber.resumed:
            await subscriber.wait_subscribed()
        await publisher.connect(port)
        answering = asyncio.create_task(publisher.run())
        publishing = asyncio.create_task(publish_until_gone(publisher, numbers))
        await asyncio.sleep(seconds)  # the moment is the point
        process.kill()
        await asyncio.wait([reading, answering])
        publishing.cancel()
        for client in clients:
            client.close()


async def settle(data: Path, clients: list[SessionClient]) -> None:
    """Until all that was sent is confirmed, and has arrived."""
    publisher, subscriber = clients
    with a_server(data) as (_, port):
        await subscriber.connect(port)
        await publisher.connect(port)
        running = [asyncio.create_task(client.run()) for client in clients]
        await until(lambda: not publisher.unconfirmed and publisher.confirmed <= subscriber.got.keys())
        for client in clients:
            client.close()
        await asyncio.wait(running)


@pytest.mark.parametrize("seed", [1, 2])
async def test_kept_sessions_survive_kills(tmp_path: Path, seed: int) -> None:
    random, numbers = Random(seed), iter(range(10**9))
    clients = [SessionClient("publisher"), SessionClient("subscriber")]
    for _ in range(4):
        await live_and_die(tmp_path / "data", clients, numbers, random.uniform(0.2, 1.0))
    await settle(tmp_path / "data", clients)
    publisher, subscriber = clients
    assert subscriber.resumed == publisher.resumed == 4
    assert len(publisher.confirmed) > 100
    doubled = [payload for payload, count in subscriber.got.items() if count > 1 and int(payload) % 2]
    assert doubled == [], "QoS 2 messages came twice"


async def test_wills_and_retained_messages_survive_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    watcher = SessionClient("watcher")
    mourned = SessionClient("mourned", will=Will("k/will", b"gone", 1))
    with a_server(data) as (process, port):
        await watcher.connect(port, Subscription("k/#", 1))
        watching = asyncio.create_task(watcher.run())
        await watcher.wait_subscribed()
        await mourned.connect(port)
        living = asyncio.create_task(mourned.run())
        await mourned.publish_retained("r/state", b"on")
        await until(lambda: not mourned.unconfirmed)
        process.kill()
        await asyncio.wait([watching, living])
        for client in (watcher, mourned):
            client.close()
    with a_server(data) as (_, port):
        await watcher.connect(port)
        newcomer = SessionClient("newcomer")
        await newcomer.connect(port, Subscription("r/#", 1))
        running = [asyncio.create_task(client.run()) for client in (watcher, newcomer)]
        await until(lambda: bool(watcher.got[b"gone"] and newcomer.got[b"on"]))
        for client in (watcher, newcomer):
            client.close()
        await asyncio.wait(running)
    assert watcher.got[b"gone"] == 1
