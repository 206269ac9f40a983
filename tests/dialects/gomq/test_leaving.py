"""Clients that go, that do not read, that say nothing, and those that may not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from ortoo.auth import Authenticator
from ortoo.broker import presence as broker_presence
from ortoo.dialects.gomq import session as gomq_session
from ortoo.dialects.gomq.lines import LINE_BYTES_MAX
from ortoo.model.settings import LimitSettings
from ortoo.stores.disk import open_directory
from ortoo.testing import ManualClock
from tests.dialects.gomq.home import Client, Home, serving
from tests.doors.roles import OURS, Roles
from tests.doors.tcp.home import until

TOKEN = "a-token-that-opens-everything"


async def test_what_a_connection_held_goes_back_uncounted(home: Home) -> None:
    async with home.client() as gone, home.client() as client:
        for n in range(5):
            await client.ask(f"PUBLISH queue q {n}")
        await gone.ask("SUBSCRIBE queue q")
        for _ in range(5):
            await gone.delivery()
        gone.cut()
        await client.ask("SUBSCRIBE queue q")
        assert [(await client.delivery())["payload"] for _ in range(5)] == list("01234")
    await home.until_alone()
    messages = await home.queue.lease("q", max_messages=10)
    assert [message.attempt for message in messages] == [1] * 5


async def test_what_was_delivered_before_an_unsubscribe_goes_back_with_the_connection(home: Home) -> None:
    async with home.client() as client:
        await client.ask("PUBLISH queue q x")
        await client.ask("SUBSCRIBE queue q")
        await client.delivery()
        await client.ask("UNSUBSCRIBE queue q")
        assert (await home.queue.group("q", "default")).leased == 1
    await home.until_alone()
    info = await home.queue.group("q", "default")
    assert (info.leased, info.ready) == (0, 1)


async def test_a_lease_that_ran_out_makes_room_and_an_ack_is_too_late() -> None:
    clock = ManualClock()
    async with serving(clock=clock) as home, home.client() as client:
        await home.queue.create_topic("q", lease=0.05, ordering="none", partitions=1)  # by both clocks
        for n in range(11):
            await client.ask(f"PUBLISH queue q {n}")
        await client.ask("SUBSCRIBE queue q")
        first = await client.delivery()
        for _ in range(9):
            await client.delivery()
        await clock.advance(0.06)
        assert await client.ask(f"ACK q {first['id']}") == "ERROR message is not in flight any more"
        assert (await client.delivery())["payload"] == "10"


async def test_ids_survive_a_restart(tmp_path: Path) -> None:
    async with serving(store=open_directory(tmp_path)) as home, home.client() as client:
        number = (await client.ask("PUBLISH queue q x")).removeprefix("OK ")
    async with serving(store=open_directory(tmp_path)) as home, home.client() as client:
        await client.ask("SUBSCRIBE queue q")
        assert (await client.delivery())["id"] == number
        assert await client.ask(f"ACK q {number}") == "OK acknowledged"


async def test_a_token_is_asked_for_first() -> None:
    async with serving(access=Authenticator(TOKEN)) as home, home.client() as client:
        assert await client.ask("PING") == "PONG"
        for line in ("PUBLISH queue q x", "SUBSCRIBE queue q", "ACK q 1", "LIST_QUEUES", "STATS", "CREATE_QUEUE q"):
            assert await client.ask(line) == "ERROR unauthorized"
        assert await client.ask("AUTH wrong") == "ERROR unauthorized"
        assert await client.ask("AUTH") == "ERROR missing required parameter"
        assert await client.ask(f"AUTH {TOKEN}") == "OK authenticated"
        assert (await client.ask("PUBLISH queue q x")).startswith("OK ")


async def test_who_guesses_tokens_is_sent_away() -> None:
    async with serving(access=Authenticator(TOKEN)) as home, home.client() as client:
        for n in range(3):
            assert await client.ask(f"AUTH guess{n}") == "ERROR unauthorized"
        with pytest.raises(ConnectionResetError):
            await client.answer()


async def test_a_token_that_ends_ends_the_subscription_and_what_it_holds_goes_back() -> None:
    roles = Roles()
    async with serving(access=roles) as home, home.client() as client:
        assert await client.ask("AUTH worker") == "OK authenticated"
        await client.ask("PUBLISH queue q 1")
        assert await client.ask("SUBSCRIBE queue q") == "OK subscribed"
        assert await client.ask("SUBSCRIBE topic news") == "OK subscribed"
        await client.delivery()
        roles.revoked.add("worker")
        await home.queue.publish("q", b"2", namespace=OURS)
        await home.queue.publish("news", b"3", namespace=OURS)
        assert [await client.answer() for _ in range(2)] == ["ERROR unauthorized"] * 2
        assert await client.ask("PUBLISH queue q 3") == "ERROR unauthorized"
        assert (await home.queue.group("q", "default", namespace=OURS)).leased == 0
        assert client._deliveries == []


async def test_stats_count_the_connections_of_the_callers_namespace() -> None:
    async def connections(client: Client) -> int:
        found: int = msgspec.json.decode((await client.ask("STATS")).removeprefix("OK "))["connections"]
        return found

    async with serving(access=Roles()) as home, home.client() as client:
        assert await client.ask("AUTH worker") == "OK authenticated"
        assert await client.ask("AUTH worker") == "OK authenticated"
        async with home.client() as other, home.client() as stranger, home.client() as nobody:
            assert await other.ask("AUTH reader") == "OK authenticated"
            assert await stranger.ask("AUTH stranger") == "OK authenticated"
            assert await nobody.ask("PING") == "PONG"
            assert [await connections(each) for each in (client, other, stranger)] == [2, 2, 1]
        await until(lambda: len(home.door._sessions) == 1)
        assert await connections(client) == 1
    assert home.door.present == {}


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("server", {"publish", "subscribe", "create", "ack"}),
        ("admin", {"publish", "subscribe", "create", "ack"}),
        ("worker", {"publish", "subscribe", "ack"}),
        ("reader", {"subscribe", "ack"}),
        ("writer", {"publish"}),
        ("nobody", set()),
    ],
)
async def test_who_may_do_what(role: str, allowed: set[str]) -> None:
    async with serving(access=Roles()) as home, home.client() as client:
        namespace = "default" if role in ("server", "nobody") else OURS
        await home.queue.create_topic("orders", namespace=namespace)
        assert await client.ask(f"AUTH {role}") == "OK authenticated"
        lines = {
            "publish": "PUBLISH queue orders x",
            "subscribe": "SUBSCRIBE queue orders",
            "create": "CREATE_QUEUE other",
        }
        for what, line in lines.items():
            assert (await client.ask(line)).startswith("OK" if what in allowed else "ERROR"), (what, role)
        answer = await client.ask("ACK orders 0193e3a4-0000-8000-8000-000000000000")
        assert (answer == "ERROR message not found") == ("ack" in allowed), answer


async def test_a_reader_does_not_make_queues() -> None:
    async with serving(access=Roles()) as home, home.client() as client:
        await client.ask("AUTH reader")
        assert await client.ask("SUBSCRIBE queue other") == "ERROR queue not found: other"
        assert await client.ask("SUBSCRIBE topic other") == "ERROR topic not found: other"


async def test_who_says_nothing_is_sent_home_and_a_subscriber_is_not(home: Home) -> None:
    async with home.client() as idle, home.client() as half, home.client() as subscribed:
        for client in (idle, half, subscribed):
            assert await client.ask("PING") == "PONG"
        await subscribed.ask("SUBSCRIBE queue q")
        half.writer.write(b"PUBLISH queue q and no end")
        await half.writer.drain()
        await until(lambda: not any(session._worker for session in home.door._sessions))
        now = asyncio.get_running_loop().time() + gomq_session.IDLE_SECONDS + 1
        silent = [session for session in home.door._sessions if session.is_silent(now, 0.0)]
        assert len(silent) == 2
        for session in silent:
            session.abort()
        for client in (idle, half):
            with pytest.raises(ConnectionResetError):
                await client.answer()
        assert (await subscribed.ask("PING")) == "PONG"


async def test_a_line_that_is_too_long_is_refused_before_it_is_here(home: Home) -> None:
    async with home.client() as client:
        try:
            for _ in range(64):
                client.writer.write(b"x" * (1 << 20))
                await client.writer.drain()
        except ConnectionError:
            pass
        held = home.gate.budget.bytes
        assert held < 4 * LINE_BYTES_MAX
    async with home.client() as client:
        client.say(b"PUBLISH queue q " + b"x" * LINE_BYTES_MAX)
        assert (await client.answer()).startswith("ERROR message too large")
        with pytest.raises(ConnectionResetError):
            await client.answer()
    await home.until_alone()
    assert home.gate.budget.bytes == 0


async def test_a_payload_of_a_megabyte_fits_and_no_more(home: Home) -> None:
    async with home.client() as client:
        assert (await client.ask(b"PUBLISH queue q " + b"x" * (1 << 20))).startswith("OK ")
        assert (await client.ask(b"PUBLISH queue q " + b"x" * ((1 << 20) + 1))).startswith("ERROR ")
        await client.ask("SUBSCRIBE queue q")
        assert len((await client.delivery())["payload"]) == 1 << 20


async def test_a_client_that_does_not_read_is_sent_no_more_than_it_may_have(home: Home) -> None:
    async with home.client() as slow, home.client() as client:
        await slow.ask("SUBSCRIBE topic news")
        await slow.ask("SUBSCRIBE queue q")
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(3):
            await home.queue.publish_many("news", [b"x" * 500_000] * 20)
        for _ in range(50):
            await client.ask("PING")
        [session] = [session for session in home.door._sessions if session._conversation.is_subscribed]
        assert session._transport.get_write_buffer_size() < 12_000_000
        assert not session._writable.is_set()
        now = asyncio.get_running_loop().time()
        session.is_silent(now, 0.0)
        assert session.is_silent(now + gomq_session.IDLE_SECONDS + 1, 0.0)  # it has read nothing in between
        slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(60):
            assert len((await slow.delivery())["payload"]) == 500_000


async def test_nothing_is_held_for_the_subscriptions_of_a_client_that_does_not_read(home: Home) -> None:
    names = [("queue", f"q{n}") for n in range(30)] + [("topic", f"t{n}") for n in range(30)]
    async with home.client() as slow, home.client() as client:
        for kind, name in names:
            await slow.ask(f"SUBSCRIBE {kind} {name}")
        await until(lambda: len(home.broker.waiters) == len(names))
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for _, name in names:
            await home.queue.publish(name, b"x" * 900_000)
        for _ in range(50):
            await client.ask("PING")
        groups = [group for _, name in names for group in await home.queue.groups(name)]
        taken = sum(group.leased or not group.backlog for group in groups)
        assert 0 < taken * 900_000 < 12_000_000  # what sockets hold, and a little
        slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
        assert sorted([(await slow.delivery())["name"] for _ in names]) == sorted(name for _, name in names)
        assert await slow.nothing_comes()


async def test_answers_that_are_not_read_keep_further_commands_waiting(home: Home) -> None:
    async with home.client() as slow, home.client() as client:
        for n in range(40):
            await home.queue.create_topic(f"{'q' * 240}{n}")
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        slow.say(*["LIST_QUEUES"] * 5_000)  # with answers of 50 MB
        await slow.writer.drain()
        await until(lambda: any(not session._writable.is_set() for session in home.door._sessions))
        for _ in range(200):
            await client.ask("LIST_QUEUES")
        assert max(session._transport.get_write_buffer_size() for session in home.door._sessions) < 1_000_000
        slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(5_000):
            assert (await slow.answer()).startswith("OK [")


async def test_a_client_that_says_much_and_reads_nothing_is_not_read_from(home: Home) -> None:
    async with home.client() as client:
        await client.ask("CREATE_QUEUE " + "q" * 200)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        sent = 0
        try:
            async with asyncio.timeout(3):
                while sent < 1 << 28:
                    client.writer.write(b"LIST_QUEUES\n" * 10_000)
                    sent += 120_000
                    await client.writer.drain()
        except TimeoutError:
            pass
        assert sent < 1 << 28
        assert home.gate.budget.bytes < 2_000_000


async def test_too_many_connections_are_told_so() -> None:
    async with (
        serving(limits=LimitSettings(connections=1)) as home,
        home.client() as first,
        home.client() as second,
    ):
        assert await first.ask("PING") == "PONG"
        assert (await second.answer()).startswith("ERROR 1 clients are connected already")
        with pytest.raises(ConnectionResetError):
            await second.answer()


async def test_connections_and_bytes_are_counted_and_given_back(home: Home) -> None:
    clients = [Client(*await asyncio.open_connection(*home.door.address)) for _ in range(20)]
    for n, client in enumerate(clients):
        assert (await client.ask(f"PUBLISH queue q {n}")).startswith("OK")
        client.writer.write(b"half a line")
    assert home.gate.connections == 20
    for client in clients:
        client.cut()
    await home.until_alone()
    assert (home.gate.connections, home.gate.budget.bytes) == (0, 0)


async def test_a_flood_of_subscribers_goes_at_once_and_leaves_nothing(home: Home) -> None:
    clients = [Client(*await asyncio.open_connection(*home.door.address)) for _ in range(50)]
    for client in clients:
        assert await client.ask("SUBSCRIBE topic news") == "OK subscribed"
    for client in clients:
        client.cut()
    await home.until_alone()
    assert (await home.queue.topic("news")).groups == []
    assert msgspec.json.encode(home.broker.meters.doors["gomq"].connections) == b"0"


@pytest.mark.parametrize(
    ("before", "last"),
    [
        ([], "SUBSCRIBE topic t"),
        ([], "SUBSCRIBE queue q"),
        (["SUBSCRIBE topic t"], "UNSUBSCRIBE topic t"),
        (["SUBSCRIBE queue q"], "UNSUBSCRIBE queue q"),
        (["SUBSCRIBE topic t", "SUBSCRIBE queue q", "SUBSCRIBE queue r", "UNSUBSCRIBE queue r"], "AUTH worker"),
    ],
)
async def test_a_connection_that_is_cut_in_the_middle_of_a_command_leaves_nothing(
    before: list[str], last: str, tmp_path: Path
) -> None:
    async with serving(access=Roles(), store=open_directory(tmp_path)) as home:
        for name in "tqr":
            await home.queue.create_topic(name, namespace=OURS)
        presence = home.gate.presence
        for turns in range(25):
            async with home.client() as client:
                assert await client.ask("AUTH worker") == "OK authenticated"
                for line in before:
                    assert (await client.ask(line)).startswith("OK")
                [session] = home.door._sessions
                while session._worker is not None:  # noqa: ASYNC110  each turn of the loop counts
                    await asyncio.sleep(0)
                client.say(last)
                while session._worker is None:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                for _ in range(turns):
                    await asyncio.sleep(0)
                session.abort()
                await home.until_alone()
            assert (presence._connected, presence._places, presence._noted) == ({}, {}, {}), turns
            assert not +home.gate._throttle.connections, turns
            assert (await home.queue.topic("t", namespace=OURS)).groups == [], turns


async def test_a_consumer_too_many_to_be_noted_is_not_told_to_have_gone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_presence, "_NOTED_BY_OTHERS_MAX", 0)
    async with home.client() as client:
        for line in ("SUBSCRIBE queue q", "UNSUBSCRIBE queue q", "SUBSCRIBE topic t"):
            assert (await client.ask(line)).startswith("OK")
    await home.until_alone()
    assert (home.gate.presence._connected, home.gate.presence._noted) == ({}, {})
