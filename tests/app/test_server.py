"""Does a server start whole or not at all, tell whether it is ready, and stop without losing anything?"""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

import ortoo
from ortoo.app.config import load_settings
from ortoo.app.options import options
from ortoo.app.server import Server
from ortoo.broker.meters import Peak
from ortoo.model.mqtt_settings import MqttSettings
from ortoo.model.records import Record
from ortoo.model.settings import HttpSettings, LimitSettings, Settings, TcpSettings, TlsSettings, WebhookSettings
from ortoo.stores.disk import DiskStore
from ortoo.stores.disk.outside import Outside
from ortoo.testing.clock import settle
from tests.app.certificates import make_certificate
from tests.app.receiver import receiving

FEW = LimitSettings(connections=100)  # whatever the system allows
ANY_PORT = Settings(
    data="memory",
    http=HttpSettings(port=0),
    tcp=TcpSettings(port=0),
    mqtt=MqttSettings(port=0),
    limits=FEW,
    drain_seconds=20,
)


def change(settings: Settings, **changes: object) -> Settings:
    return msgspec.structs.replace(settings, **changes)


@asynccontextmanager
async def serving(settings: Settings = ANY_PORT) -> AsyncIterator[Server]:
    server = Server(settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def http_url(server: Server, scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{server.addresses['http'][1]}"


def remote(server: Server, token: str | None = None) -> ortoo.Queue:
    return ortoo.connect(f"ortoo://127.0.0.1:{server.addresses['tcp'][1]}", token=token, timeout=1)


async def test_administrators_are_told_what_the_server_runs_with_and_no_secret() -> None:
    loaded = load_settings(None, {"token": "a-secret-of-this-server", "log.level": "debug"}, {})
    async with serving(change(ANY_PORT, token="a-secret-of-this-server")) as server:
        server.broker.settings = loaded.told()
        headers = {"authorization": "Bearer a-secret-of-this-server"}
        async with httpx.AsyncClient(base_url=http_url(server), headers=headers) as client:
            answer = await client.get("/v1/settings")
        async with remote(server, "a-secret-of-this-server") as queue:
            told = await queue.settings()
    assert "a-secret-of-this-server" not in answer.text
    rows = {row["name"]: row for row in answer.json()["settings"]}
    assert rows["log.level"] == {"name": "log.level", "value": "debug", "source": "--log-level", "default": "info"}
    assert (rows["tcp.port"]["source"], rows["tcp.port"]["value"]) == ("default", 7632)
    assert [setting.name for setting in told.settings] == list(options())


async def test_a_queue_without_a_server_has_no_settings() -> None:
    async with ortoo.open() as queue:
        with pytest.raises(ortoo.ConfigError, match="no settings of a server"):
            await queue.settings()


def is_free(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) != 0


async def test_what_comes_in_through_one_door_can_be_had_at_the_other_and_is_kept(tmp_path: Path) -> None:
    settings = change(ANY_PORT, data=str(tmp_path / "data"))
    async with serving(settings) as server, httpx.AsyncClient(base_url=http_url(server)) as http:
        answer = await http.post("/v1/topics/orders/messages", json={"messages": [{"value": "tea"}]})
        assert answer.status_code == 201
        async with remote(server) as queue:
            [message] = await queue.lease("orders", wait=5)
            assert message.json() == "tea"
            await queue.publish("orders", b"coffee")
            await message.ack()
    async with ortoo.open(tmp_path / "data") as queue:
        assert [message.value for message in await queue.lease("orders")] == [b"coffee"]


async def test_a_server_that_stops_leaves_everything_in_its_files(tmp_path: Path) -> None:
    """So that they can be read without it, and the next start has nothing to replay."""
    async with serving(change(ANY_PORT, data=str(tmp_path / "data"))) as server, remote(server) as queue:
        await queue.create_topic("orders", partitions=1)
        await queue.publish("orders", b"tea")
        topic = (await queue.topic("orders")).id
    assert Outside(tmp_path / "data").bounds(topic, 0) == (0, 1)
    async with ortoo.open(tmp_path / "data") as queue:
        assert [message.value for message in await queue.lease("orders")] == [b"tea"]


async def test_a_door_can_be_left_shut() -> None:
    async with serving(change(ANY_PORT, tcp=TcpSettings(enabled=False))) as server:
        assert server.addresses.keys() == {"http", "mqtt"}
    async with serving(change(ANY_PORT, http=HttpSettings(enabled=False))) as server:
        assert server.addresses.keys() == {"tcp", "mqtt"}
    async with serving(change(ANY_PORT, mqtt=MqttSettings(enabled=False))) as server:
        assert server.addresses.keys() == {"http", "tcp"}


async def test_it_is_ready_as_long_as_it_takes_commands(tmp_path: Path) -> None:
    settings = change(ANY_PORT, data=str(tmp_path))
    async with serving(settings) as server, httpx.AsyncClient(base_url=http_url(server)) as http:
        assert server.ready() is None
        assert (await http.get("/ready")).status_code == 200
        store = server.broker.store
        assert isinstance(store, DiskStore)
        store._room.full, store._room._reserve_bytes = "full", 1 << 62
        assert "free" in str(server.ready())
        assert (await http.get("/ready")).status_code == 503
        store._room._reserve_bytes = 0
        assert server.ready() is None
        server.broker._refusal = ortoo.StoreFailedError("the store failed; the queue is recovering")
        assert "recovering" in (await http.get("/ready")).text
        assert (await http.get("/health")).status_code == 200
        server.broker._refusal = None
    assert server.ready() == "the server is stopping"


async def test_metrics_are_served() -> None:
    async with serving() as server, httpx.AsyncClient(base_url=http_url(server)) as http:
        await http.post("/v1/topics/orders/messages", json={"messages": [{"value": "tea"}]})
        answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'ortoo_messages_published_total{namespace="default",topic="orders"} 1.0' in answer.text
    assert 'ortoo_requests_total{door="http",operation="publish"} 1.0' in answer.text


async def test_with_a_token_nobody_gets_in_without_it() -> None:
    async with serving(change(ANY_PORT, token="s3cret")) as server:
        async with httpx.AsyncClient(base_url=http_url(server)) as http:
            assert (await http.get("/v1/topics")).status_code == 401
            assert (await http.get("/v1/topics", headers={"authorization": "Bearer s3cret"})).status_code == 200
            assert (await http.get("/health")).status_code == 200
        with pytest.raises(ortoo.UnauthenticatedError):
            async with remote(server, "wrong") as queue:
                await queue.publish("orders", b"tea")
        async with remote(server, "s3cret") as queue:
            await queue.publish("orders", b"tea")


async def test_with_a_certificate_every_door_speaks_tls(tmp_path: Path) -> None:
    tls = make_certificate(tmp_path)
    assert tls.certificate is not None
    trust = ssl.create_default_context(cafile=tls.certificate)
    async with serving(change(ANY_PORT, tls=tls)) as server:
        async with httpx.AsyncClient(base_url=http_url(server, "https"), verify=trust) as http:
            answer = await http.get("/health")
            assert answer.status_code == 200
            assert answer.headers["strict-transport-security"] == "max-age=31536000"
        async with httpx.AsyncClient(base_url=http_url(server)) as http:
            refused = await http.get("/health")
            assert (refused.status_code, "use https://" in refused.text) == (400, True)
        async with ortoo.connect(f"ortoos://127.0.0.1:{server.addresses['tcp'][1]}", tls=tls.certificate) as queue:
            await queue.publish("orders", b"tea")


async def test_a_certificate_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    tls = make_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    other = make_certificate(tmp_path / "other")
    for bad in (TlsSettings("missing.pem", tls.key), TlsSettings(tls.certificate, other.key)):
        server = Server(change(ANY_PORT, data=str(tmp_path / "data"), tls=bad))
        with pytest.raises(ortoo.ConfigError, match="cannot be used"):
            await server.start()
    async with ortoo.open(tmp_path / "data"):
        pass


@pytest.mark.parametrize("door", ["http", "tcp"])
async def test_a_port_that_is_taken_is_one_clear_error_and_nothing_is_left(tmp_path: Path, door: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        clash = {"http": HttpSettings(port=port)} if door == "http" else {"tcp": TcpSettings(port=port)}
        server = Server(change(ANY_PORT, data=str(tmp_path), **clash))
        with pytest.raises(ortoo.ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            await server.start()
    assert all(is_free(address) for name, address in server.addresses.items() if name != door)
    assert [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    async with ortoo.open(tmp_path):
        pass


async def test_a_directory_in_use_is_one_clear_error_and_nothing_listens(tmp_path: Path) -> None:
    async with ortoo.open(tmp_path):
        server = Server(change(ANY_PORT, data=str(tmp_path)))
        with pytest.raises(ortoo.UnavailableError, match="is in use by process"):
            await server.start()
        assert server.addresses == {}


async def test_a_long_poll_is_answered_when_the_server_stops() -> None:
    async with serving() as server, httpx.AsyncClient(base_url=http_url(server), timeout=300) as http:
        await http.post("/v1/topics", json={"name": "orders"})
        began = time.monotonic()
        over_http = asyncio.create_task(
            http.post("/v1/topics/orders/groups/billing/lease", json={"wait": 60, "max_messages": 1})
        )
        async with remote(server) as queue:
            over_tcp = asyncio.create_task(queue.lease("orders", group="other", wait=60))
            async with asyncio.timeout(300):
                while len(server.broker.waiters) < 2:  # noqa: ASYNC110  two polls on their way through sockets
                    await asyncio.sleep(0.01)
            await server.stop()
            assert (await over_http).json() == {"messages": []}
            assert time.monotonic() - began < 60, "that is how long it would have waited"
            over_tcp.cancel()
            await asyncio.gather(over_tcp, return_exceptions=True)
    assert all(is_free(address) for address in server.addresses.values())


async def test_a_request_under_way_is_finished_before_the_store_closes(tmp_path: Path) -> None:
    body = b'{"messages": [{"value": "tea"}]}'
    async with serving(change(ANY_PORT, data=str(tmp_path))) as server:
        reader, writer = await asyncio.open_connection(*server.addresses["http"])
        head = f"POST /v1/topics/orders/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        writer.write(head.encode() + b"content-type: application/json\r\n\r\n" + body[:10])
        gate = server._gates["http"]
        async with asyncio.timeout(300):
            while not gate.connections:  # noqa: ASYNC110  on its way through a socket
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(server.stop())
        await settle()
        writer.write(body[10:])
        assert b" 201 " in await reader.readline()
        await stopping
        writer.close()
    async with ortoo.open(tmp_path) as queue:
        assert [message.json() for message in await queue.lease("orders")] == ["tea"]


async def test_a_client_that_dawdles_is_cut_off_after_the_grace() -> None:
    async with serving(change(ANY_PORT, drain_seconds=0.2)) as server:
        _, writer = await asyncio.open_connection(*server.addresses["http"])
        writer.write(b"POST /v1/topics/orders/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
        gate = server._gates["http"]
        async with asyncio.timeout(300):
            while not gate.connections:  # noqa: ASYNC110  on its way through a socket
                await asyncio.sleep(0.01)
            await server.stop()
        writer.close()


async def test_stopping_tells_webhooks_what_is_left() -> None:
    async with receiving() as receiver:
        receiver.answers = [503]
        here = WebhookSettings(allow=["127.0.0.1"])
        async with serving(change(ANY_PORT, webhooks=here)) as server, remote(server) as queue:
            await queue.create_topic("payments", dlq_webhook=receiver.url)
            await queue.publish("payments", b"x")
            [message] = await queue.lease("payments", wait=5)
            await message.reject("never")
            await receiver.until(requests=1)
            await server.stop()
            assert len(receiver.letters) == 1


async def test_the_log_tells_the_life_of_a_server(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ortoo")
    async with serving():
        pass
    events = [record.message for record in caplog.records if record.name == "ortoo.server"]
    assert events == ["recovered", "listening", "listening", "listening", "stopping", "drained"]


async def test_what_the_store_complains_of_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(change(ANY_PORT, data=str(tmp_path))) as server:
        store = server.broker.store
        assert isinstance(store, DiskStore)
        store._report("a checkpoint failed: no reason")
        store._room.full, store._room._reserve_bytes = "full", 1 << 62
        for _ in range(3):
            server.watch.look()
        store._room._reserve_bytes = 0
        server.watch.look()
    problems = [record.__dict__.get("problem", "") for record in caplog.records if record.levelno == logging.ERROR]
    assert problems[0] == "a checkpoint failed: no reason"
    assert "are free" in problems[1]
    assert len(problems) == 2


async def test_a_failing_store_is_logged_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(change(ANY_PORT, data=str(tmp_path))) as server:
        store = server.broker.store
        assert isinstance(store, DiskStore)
        append, failures = store.append, [OSError("a bad day")]

        async def fail_once(records: Sequence[Record]) -> None:
            if failures:
                raise failures.pop()
            await append(records)

        monkeypatch.setattr(store, "append", fail_once)
        async with remote(server) as queue:
            with pytest.raises(ortoo.OutcomeUnknownError):
                await queue.publish("orders", b"tea")
        assert server.broker.meters.recoveries == 1
    assert [record.__dict__["error"] for record in caplog.records if "store failed" in record.message] == ["a bad day"]


async def test_a_stalled_event_loop_is_noticed() -> None:
    async with serving() as server:
        await asyncio.sleep(0.15)
        time.sleep(0.5)  # noqa: ASYNC251  the stall
        await asyncio.sleep(0.15)
        meters = server.broker.meters
        assert meters.stall_seconds.total > 0.3
        assert meters.longest_stall.largest(time.monotonic()) > 0.3
        assert meters.longest_turn.largest(time.monotonic()) < 0.3  # the thread slept
        until = time.thread_time() + 0.5
        while time.thread_time() < until:
            pass
        await asyncio.sleep(0.15)
        assert meters.longest_turn.largest(time.monotonic()) > 0.3


def test_the_longest_is_forgotten_after_a_minute() -> None:
    peak = Peak()
    assert peak.largest(0.0) == 0.0
    for now in range(1000, 1100):
        peak.observe(3.0 if now == 1005 else 1.0, now)
        assert peak.largest(now) == (3.0 if 1005 <= now < 1070 else 1.0)
    assert peak.largest(2000) == 0.0


async def test_a_broker_that_broke_is_noticed() -> None:
    async with serving() as server:
        assert server.broker._committer is not None
        assert not server.watch.broken.is_set()
        server.broker._committer.cancel()
        await settle()
        server.watch.look()
        assert server.watch.broken.is_set()


async def test_everybody_is_told_where_python_connects() -> None:
    async with serving() as server, remote(server) as queue:
        assert (await queue.me()).server.tcp_port == server.addresses["tcp"][1]
    async with ortoo.open() as queue:
        assert (await queue.me()).server.tcp_port is None
