"""A server that is away for too long, that falls silent, or that lets nobody get anything done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

import ortoo
from ortoo import ClosedError, OutcomeUnknownError, Queue, UnavailableError
from ortoo.broker import Share
from ortoo.client import remote
from ortoo.client.remote import RemoteLink
from ortoo.doors.tcp import server, session
from ortoo.wire import protocol as p
from ortoo.wire.frames import encode_frame
from tests.client.proxy import Proxy
from tests.doors.tcp.home import Home, until


@asynccontextmanager
async def gone(home: Home, proxy: Proxy, timeout: float = 0.2) -> AsyncIterator[Queue]:
    """A client whose server has just gone away."""
    await home.queue.create_topic("jobs", partitions=1)
    async with ortoo.connect(proxy.url, timeout=timeout) as queue:
        proxy.go_away()
        await until(lambda: home.gate.connections == 0)
        yield queue


async def loop_until(happens: Callable[[], None], home: Home, proxy: Proxy) -> None:
    """Over messages, of which there are no more when that happens: it ends with an error."""
    await home.queue.publish("jobs", b"x")
    async with ortoo.connect(proxy.url, timeout=0.2) as queue:
        messages = queue.consume("jobs")
        await anext(messages)
        happens()
        with pytest.raises(UnavailableError):
            await asyncio.wait_for(anext(messages), 60)
        await asyncio.wait_for(messages.aclose(), 60)


class TestAwayTooLong:
    async def test_what_was_never_sent_has_not_happened_and_says_so(self, home: Home, proxy: Proxy) -> None:
        async with gone(home, proxy) as queue:
            for work in (queue.publish("jobs", b"x"), queue.lease("jobs"), queue.create_topic("more")):
                with pytest.raises(UnavailableError, match="no Ortoo server"):
                    await asyncio.wait_for(work, 60)
        assert (await home.queue.topic("jobs")).messages == 0

    async def test_a_change_that_was_sent_may_have_happened(self, home: Home, proxy: Proxy) -> None:
        await home.queue.create_topic("jobs", partitions=1)
        async with ortoo.connect(proxy.url, timeout=0.2) as queue:
            proxy.hears_server = False  # it does what it is asked, and nobody hears the answer
            publishing = asyncio.create_task(queue.publish("jobs", b"x"))
            asking = asyncio.create_task(queue.topics())
            leasing = asyncio.create_task(queue.lease("jobs", group="other"))
            await until(lambda: has_messages(home, 1))
            proxy.go_away()
            with pytest.raises(OutcomeUnknownError, match="may have happened"):
                await asyncio.wait_for(publishing, 60)
            for harmless in (asking, leasing):
                with pytest.raises(UnavailableError):
                    await asyncio.wait_for(harmless, 60)

    async def test_a_loop_over_messages_ends_with_an_error(self, home: Home, proxy: Proxy) -> None:
        await loop_until(proxy.go_away, home, proxy)

    async def test_who_asks_later_waits_as_long_as_the_others(self, home: Home, proxy: Proxy) -> None:
        async with gone(home, proxy, timeout=1) as queue:
            with pytest.raises(UnavailableError):
                await asyncio.wait_for(queue.publish("jobs", b"1"), 60)
            late = asyncio.create_task(queue.publish("jobs", b"2"))
            await asyncio.sleep(0.1)
            assert not late.done()
            await proxy.open()
            assert (await asyncio.wait_for(late, 60)).offset == 0

    async def test_when_the_server_is_back_all_is_well(self, home: Home, proxy: Proxy) -> None:
        async with gone(home, proxy) as queue:
            with pytest.raises(UnavailableError):
                await queue.publish("jobs", b"x")
            await proxy.open()
            await queue.publish("jobs", b"x")
            assert len(await queue.lease("jobs")) == 1


async def has_messages(home: Home, count: int) -> bool:
    return (await home.queue.topic("jobs")).messages == count


class TestClosing:
    async def test_closing_while_the_server_is_away_does_not_wait_for_it(self, home: Home, proxy: Proxy) -> None:
        async with gone(home, proxy, timeout=60) as queue:
            polling = asyncio.create_task(queue.lease("jobs", wait=30))
            changing = asyncio.create_task(queue.create_topic("more"))
            await asyncio.sleep(0)
            await asyncio.wait_for(queue.close(), 60)
            for work in (polling, changing):
                with pytest.raises(ClosedError):
                    await work

    async def test_what_was_sent_and_not_answered_when_it_is_closed_may_have_happened(
        self, home: Home, proxy: Proxy
    ) -> None:
        async with ortoo.connect(proxy.url) as queue:
            proxy.hears_server = False
            changing = asyncio.create_task(queue.create_topic("jobs"))
            polling = asyncio.create_task(queue.lease("jobs", wait=30))
            await home.waiters(1)
            await asyncio.wait_for(queue.close(), 60)
            with pytest.raises(OutcomeUnknownError):
                await changing
            with pytest.raises(ClosedError):
                await polling

    async def test_closing_while_it_connects_again_leaves_no_connection_behind(self, home: Home, proxy: Proxy) -> None:
        queue = await ortoo.connect(proxy.url).open()
        proxy.hears_server = False  # the next server says no hello
        proxy.cut()
        await until(lambda: proxy.connections == 2)
        await until(lambda: home.gate.connections == 1)
        await asyncio.wait_for(queue.close(), 60)
        await until(lambda: home.gate.connections == 0)

    async def test_closing_twice_is_closing_once(self, home: Home) -> None:
        queue = await home.connect().open()
        await queue.close()
        await queue.close()
        await until(lambda: home.gate.connections == 0)


class TestSilence:
    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(session, "IDLE_SECONDS", 0.6)
        monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.05)
        monkeypatch.setattr(remote, "_CONNECT_SECONDS", 0.5)

    async def test_a_client_with_nothing_to_say_stays_connected(self, home: Home, proxy: Proxy) -> None:
        async with ortoo.connect(proxy.url) as queue:
            await asyncio.sleep(1.5)
            await queue.publish("jobs", b"x")
        assert proxy.connections == 1

    async def test_no_server_is_taken_for_silent_because_the_client_stood_still(self, home: Home, proxy: Proxy) -> None:
        async with ortoo.connect(proxy.url) as queue:
            await queue.stats()
            time.sleep(1)  # noqa: ASYNC251 - as a handler does that blocks
            await asyncio.sleep(0)
            await queue.stats()
        assert proxy.connections == 1

    async def test_a_client_that_only_listens_stays_connected(self, home: Home, proxy: Proxy) -> None:
        """It hears something all the time, and is too busy to ask for more: the server must know that it is there."""
        async with ortoo.connect(proxy.url) as queue, queue.consume("news", prefetch=1000) as news:
            await home.queue.publish("news", b"0")
            await anext(news)
            for number in range(1, 15):
                await home.queue.publish("news", b"%d" % number)
                await asyncio.sleep(0.1)
        assert proxy.connections == 1

    @pytest.mark.parametrize(("begin", "end"), [(Proxy.unplug, Proxy.plug_in), (Proxy.hang, Proxy.go_on)])
    async def test_a_server_that_falls_silent_or_hangs_is_left_for_another_try(
        self, home: Home, proxy: Proxy, begin: Callable[[Proxy], None], end: Callable[[Proxy], None]
    ) -> None:
        """What is told to it, pings among that, is taken by its machine, and is no sign of life."""
        await home.queue.create_topic("jobs", partitions=1)
        async with ortoo.connect(proxy.url, timeout=60) as queue:
            begin(proxy)
            publishing = asyncio.create_task(queue.publish("jobs", b"x"))
            await until(lambda: proxy.connections == 2, 60)
            assert not publishing.done()
            end(proxy)
            await asyncio.wait_for(publishing, 60)
        assert (await home.queue.topic("jobs")).messages == 1

    async def test_calls_to_a_server_that_hangs_end(self, home: Home, proxy: Proxy) -> None:
        await home.queue.create_topic("jobs", partitions=1)
        async with ortoo.connect(proxy.url, timeout=0.2) as queue:
            proxy.hang()
            with pytest.raises(OutcomeUnknownError):
                await asyncio.wait_for(queue.publish("jobs", b"x"), 60)
            with pytest.raises(UnavailableError):
                await asyncio.wait_for(queue.topics(), 60)

    async def test_a_server_that_hangs_is_away_since_it_was_last_heard(self, home: Home, proxy: Proxy) -> None:
        """So that who waits for it does not wait for the silence, and then once more for as long."""
        loop = asyncio.get_running_loop()
        async with ortoo.connect(proxy.url) as queue:
            link = queue._link
            assert isinstance(link, RemoteLink)
            await queue.stats()
            heard = loop.time()
            proxy.hang()
            await until(lambda: link._connection is None, 60)
            assert link._away_since <= heard

    async def test_closing_while_the_server_hangs_ends(self, home: Home, proxy: Proxy) -> None:
        await home.queue.create_topic("jobs", partitions=1)
        queue = await ortoo.connect(proxy.url, timeout=0.2).open()
        asking = asyncio.create_task(queue.request("jobs", b"x", timeout=30))  # it has an inbox, which closing removes
        await until(lambda: has_messages(home, 1))
        proxy.hang()
        publishing = asyncio.create_task(queue.publish("jobs", b"x"))
        await asyncio.sleep(0)
        await asyncio.wait_for(queue.close(), 60)
        for work in (publishing, asking):
            with pytest.raises((OutcomeUnknownError, ClosedError)):
                await work

    async def test_a_loop_over_messages_of_a_server_that_hangs_ends(self, home: Home, proxy: Proxy) -> None:
        await loop_until(proxy.hang, home, proxy)

    async def test_a_server_that_does_not_listen_for_a_while_and_says_so_is_not_left(
        self, home: Home, proxy: Proxy
    ) -> None:
        """Too much is under way: it reads nothing, and no ping is answered."""
        await home.fill()
        async with ortoo.connect(proxy.url) as queue:
            publishing = asyncio.create_task(queue.publish("jobs", b"more", wait=60))
            await until(lambda: home.gate.budget.parked > 0)
            somebody = Share(home.gate.budget)
            somebody.take(2 * home.gate.budget.bytes_max)
            await asyncio.sleep(1.5)
            somebody.close()
            assert proxy.connections == 1
            await home.queue.ack(await home.queue.lease("jobs"))
            await asyncio.wait_for(publishing, 60)

    async def test_a_server_that_takes_long_to_take_much_is_not_taken_for_silent(
        self, home: Home, proxy: Proxy
    ) -> None:
        """On a slow line a ping stands in line behind what was sent before it."""
        await home.queue.create_topic("jobs", max_message_bytes=20_000_000)
        async with ortoo.connect(proxy.url) as queue:
            proxy.bytes_per_ms = 8_000  # more than a second for it all
            await queue.publish("jobs", bytes(16_000_000))
        assert proxy.connections == 1


class Fickle:
    """A server that welcomes everyone and then does nothing but hang up."""

    def __init__(self) -> None:
        self.connections = 0

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.read(10_000)
        writer.write(encode_frame((p.ANSWER, 0, p.Welcome(p.PROTOCOL, "fickle", 1 << 20, 30_000))))
        await reader.read(10_000)
        writer.close()


async def test_a_server_that_always_hangs_up_is_as_good_as_away() -> None:
    fickle = Fickle()
    async with await asyncio.start_server(fickle.join, "127.0.0.1", 0) as listener:
        async with ortoo.connect(f"ortoo://127.0.0.1:{listener.sockets[0].getsockname()[1]}", timeout=0.3) as queue:
            with pytest.raises(OutcomeUnknownError):
                await asyncio.wait_for(queue.publish("jobs", b"x"), 60)
            with pytest.raises(UnavailableError):
                await asyncio.wait_for(queue.lease("jobs"), 60)
        assert fickle.connections < 100  # and it is not stormed
