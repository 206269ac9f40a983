"""What one is told when there is no way in, and the ways in there are."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import ortoo
from ortoo import ClosedError, ConfigError, OrtooError, UnauthenticatedError, UnavailableError
from ortoo.app.certificates import load
from ortoo.client import remote
from tests.app.certificates import make_certificate
from tests.client.proxy import Proxy
from tests.doors.tcp.home import Home, serving, until
from tests.ports import free_port, free_ports


@asynccontextmanager
async def mute_server() -> AsyncIterator[tuple[int, list[asyncio.Task[bytes]]]]:
    """Takes every connection and says nothing. Each task ends when its connection is closed by the client."""
    ends: list[asyncio.Task[bytes]] = []
    writers = []

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        ends.append(asyncio.create_task(reader.read()))

    listener = await asyncio.start_server(join, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1], ends
    finally:
        listener.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*ends, return_exceptions=True)


async def test_where_nobody_listens_one_is_told_so_and_what_to_do() -> None:
    port = free_port()
    with pytest.raises(UnavailableError, match=rf"no Ortoo server at 127.0.0.1:{port} .*`ortoo serve` starts one"):
        await ortoo.connect(f"ortoo://127.0.0.1:{port}").open()


async def test_a_host_that_does_not_exist_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match=r"no-such-host\.invalid"):
        await ortoo.connect("ortoo://no-such-host.invalid").open()


async def test_a_server_that_says_nothing_is_given_up_and_its_connection_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "_CONNECT_SECONDS", 0.05)
    async with mute_server() as (port, ends):
        with pytest.raises(UnavailableError, match="did not say hello"):
            await ortoo.connect(f"ortoo://127.0.0.1:{port}").open()
        await asyncio.wait_for(ends[0], 60)


async def test_opening_that_is_cancelled_closes_its_connection() -> None:
    async with mute_server() as (port, ends):
        opening = asyncio.create_task(ortoo.connect(f"ortoo://127.0.0.1:{port}").open())
        await until(lambda: bool(ends))
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await asyncio.wait_for(ends[0], 60)


async def test_a_wrong_token_is_an_error_of_its_own() -> None:
    async with serving(token="secret") as home:
        with pytest.raises(UnauthenticatedError, match="not the one"):
            await home.connect(token="wrong").open()
        with pytest.raises(UnauthenticatedError, match="asks for a token"):
            await home.connect().open()
        async with home.connect(token="secret") as queue:
            await queue.publish("jobs", b"x")
        async with ortoo.connect(f"ortoo://secret@127.0.0.1:{home.port}") as queue:
            assert len(await queue.lease("jobs")) == 1


async def test_a_full_server_says_so() -> None:
    async with serving(connections=1) as home, home.connect():
        with pytest.raises(OrtooError, match="1 clients are connected already"):
            await home.connect().open()


async def test_a_server_of_another_kind_is_not_understood() -> None:
    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(join, "127.0.0.1", 0) as listener:
        with pytest.raises(OrtooError, match="is this the HTTP port"):
            await ortoo.connect(f"ortoo://127.0.0.1:{listener.sockets[0].getsockname()[1]}").open()


async def test_of_several_servers_the_first_that_answers_is_taken(home: Home) -> None:
    async with ortoo.connect(f"ortoo://127.0.0.1:{free_port()},127.0.0.1:{home.port}") as queue:
        await queue.publish("jobs", b"x")
    assert (await home.queue.topic("jobs")).messages == 1


async def test_when_none_of_several_answers_each_is_named() -> None:
    ports = free_ports(2)
    with pytest.raises(UnavailableError, match=rf"{ports[0]}.*{ports[1]}"):
        await ortoo.connect(f"ortoo://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}").open()


async def test_when_one_server_goes_the_client_turns_to_the_other(home: Home, proxy: Proxy) -> None:
    """Two ways to one queue."""
    async with ortoo.connect(f"{proxy.url},127.0.0.1:{home.port}") as queue:
        await queue.publish("jobs", b"1")
        proxy.go_away()
        await queue.publish("jobs", b"2")
    assert (await home.queue.topic("jobs")).messages == 2


async def test_a_queue_is_used_only_while_it_is_open(home: Home) -> None:
    queue = home.connect()
    with pytest.raises(ClosedError, match="not open yet"):
        await queue.publish("jobs", b"x")
    async with queue:
        await queue.publish("jobs", b"x")
    with pytest.raises(ClosedError, match="was closed"):
        await queue.publish("jobs", b"x")
    with pytest.raises(ClosedError):
        await anext(queue.consume("jobs"))
    async with queue:  # and may be opened again
        assert len(await queue.lease("jobs")) == 1


def test_the_blocking_queue_speaks_to_a_server_too() -> None:
    with asyncio.Runner() as runner:
        serve = serving()
        home = runner.run(serve.__aenter__())

        def work() -> list[bytes]:
            with ortoo.connect_sync(home.url, consumer="sync") as queue:
                queue.publish("jobs", b"1")
                queue.publish_many("jobs", [b"2", b"3"])
                with queue.transaction() as tx:
                    tx.publish("jobs", b"4")
                found = []
                for message in queue.consume("jobs", prefetch=2):
                    found.append(message.value)
                    message.ack()
                    if len(found) == 4:
                        break
                assert queue.group("jobs", "default").backlog == 0
                return sorted(found)

        assert runner.run(asyncio.to_thread(work)) == [b"1", b"2", b"3", b"4"]
        with pytest.raises(UnavailableError):
            runner.run(asyncio.to_thread(ortoo.connect_sync, f"ortoo://127.0.0.1:{free_port()}"))
        runner.run(serve.__aexit__(None, None, None))


class TestTls:
    async def test_a_server_whose_certificate_is_trusted_is_spoken_to(self, tmp_path: Path) -> None:
        settings = make_certificate(tmp_path)
        assert settings.certificate is not None
        async with serving(tls=load(settings).context) as home:
            url = f"ortoos://127.0.0.1:{home.port}"
            async with ortoo.connect(url, tls=settings.certificate) as queue:
                await queue.publish("jobs", bytes(1_000_000))
                (message,) = await queue.lease("jobs")
                await message.ack()
            context = ssl.create_default_context(cafile=settings.certificate)
            async with ortoo.connect(url, tls=context) as queue:
                assert (await queue.group("jobs", "default")).backlog == 0

    async def test_a_server_whose_certificate_is_not_trusted_is_not(self, tmp_path: Path) -> None:
        async with serving(tls=load(make_certificate(tmp_path)).context) as home:
            with pytest.raises(ConfigError, match=r"not trusted.*name its CA with tls="):
                await ortoo.connect(f"ortoos://127.0.0.1:{home.port}").open()

    def test_a_ca_that_cannot_be_read_is_a_mistake_in_the_settings(self, tmp_path: Path) -> None:
        for path in (tmp_path / "missing", Path(__file__)):
            with pytest.raises(ConfigError, match="not a CA certificate"):
                ortoo.connect("ortoos://localhost", tls=path)


def test_a_server_is_not_waited_for_longer_than_it_remembers() -> None:
    with pytest.raises(ortoo.InvalidError, match="timeout must be 0 to 1800 seconds"):
        ortoo.connect("ortoo://localhost:7632", timeout=3600)
