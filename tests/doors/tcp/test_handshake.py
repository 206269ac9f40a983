"""Who is let in, and what the others are told."""

import asyncio

import pytest

from ortoo.doors.tcp import server, session
from ortoo.model.queries import GetStats, ListTopics
from ortoo.wire import protocol as p
from ortoo.wire.frames import encode_frame
from tests.doors.tcp.home import Home, Wire, serving, until


async def refusal(wire: Wire) -> tuple[str, str]:
    """The code and the words of the one error after which the connection ends."""
    kind, request_id, problem = await wire.receive()
    assert (kind, request_id) == (p.ERROR, 0)
    assert await wire.is_closed()
    return problem["code"], problem["message"]


async def test_a_hello_is_answered_with_what_the_client_must_know(home: Home) -> None:
    async with home.wire(greets=False) as wire:
        kind, request_id, welcome = await wire.hello()
        assert (kind, request_id) == (p.ANSWER, 0)
        assert welcome == {
            "protocol": p.PROTOCOL,
            "server": "ortoo",
            "frame_bytes_max": p.FRAME_BYTES_MAX,
            "idle_ms": 30_000,
        }


async def test_a_hello_may_come_in_any_pieces(home: Home) -> None:
    async with home.wire(greets=False) as wire:
        frame = bytes(encode_frame((0, p.Hello(p.PROTOCOL, "GET /", None))))
        at = frame.index(b"GET ")
        for piece in (frame[:1], frame[1:3], frame[3:at], frame[at:]):
            wire.writer.write(piece)
            await wire.writer.drain()
            await asyncio.sleep(0.005)  # so that each is a packet of its own
        assert (await wire.receive())[0] == p.ANSWER


async def test_who_does_not_begin_with_hello_is_told_so(home: Home) -> None:
    async with home.wire(greets=False) as wire:
        wire.send((1, p.Ping()))
        assert await refusal(wire) == ("protocol", "the first frame of a client must be its hello")


async def test_a_malformed_hello_is_refused(home: Home) -> None:
    async with home.wire(greets=False) as wire:
        wire.send((1, {"type": "Hello", "protocol": "one", "client": "x"}))
        code, message = await refusal(wire)
        assert code == "protocol"
        assert "malformed" in message


async def test_another_protocol_version_is_refused_with_both_named(home: Home) -> None:
    async with home.wire(greets=False) as wire:
        wire.send((0, p.Hello(99, "from the future")))
        assert await refusal(wire) == ("protocol", "this server speaks protocol 1, the client 99")


async def test_hello_is_said_once(home: Home) -> None:
    async with home.wire() as wire:
        wire.send((1, p.Hello(p.PROTOCOL, "again")))
        assert await refusal(wire) == ("protocol", "hello is said once")


async def test_a_stranger_may_not_announce_a_large_frame(home: Home) -> None:
    async with home.wire(greets=False) as wire:
        wire.writer.write((p.HELLO_BYTES_MAX + 1).to_bytes(4, "big"))
        code, message = await refusal(wire)
        assert code == "protocol"
        assert str(p.HELLO_BYTES_MAX) in message


async def test_a_guest_may_send_a_frame_that_a_stranger_may_not(home: Home) -> None:
    async with home.wire() as wire:
        kind, _ = await wire.ask(ListTopics("x" * 2 * p.HELLO_BYTES_MAX))
        assert kind == p.ANSWER


@pytest.mark.parametrize(("token", "words"), [(None, "asks for a token"), ("wrong", "not the one"), ("ä", "not the")])
async def test_without_the_token_nobody_comes_in(token: str | None, words: str) -> None:
    async with serving(token="secret") as home, home.wire(greets=False) as wire:
        wire.send((0, p.Hello(p.PROTOCOL, "x", token)), (1, GetStats()))
        code, message = await refusal(wire)
        assert code == "unauthenticated"
        assert words in message


async def test_with_the_token_one_comes_in() -> None:
    async with serving(token="secret") as home, home.wire(greets=False) as wire:
        assert (await wire.hello("secret"))[0] == p.ANSWER
        assert (await wire.ask(p.Ping()))[0] == p.ANSWER


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_who_speaks_http_is_told_where_to_go(home: Home, method: str) -> None:
    async with home.wire(greets=False) as wire:
        wire.writer.write(f"{method} /v1/topics HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        answer = await asyncio.wait_for(wire.reader.read(), 60)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"HTTP has a port of its own" in answer


async def test_beyond_the_limit_of_connections_clients_are_turned_away_until_one_leaves() -> None:
    async with serving(connections=1) as home:
        async with home.wire() as first:
            async with home.wire(greets=False) as second:
                assert (await refusal(second))[0] == "too_many"
            assert (await first.ask(p.Ping()))[0] == p.ANSWER
        await until(lambda: home.gate.connections == 0)
        async with home.wire() as third:
            assert (await third.ask(p.Ping()))[0] == p.ANSWER


class TestSilence:
    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.01)

    async def test_who_connects_and_says_nothing_is_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(session, "HELLO_SECONDS", 0.05)
        async with serving() as home, home.wire(greets=False) as wire:
            assert await wire.is_closed()
            await until(lambda: home.gate.connections == 0)

    async def test_who_never_comes_to_the_end_of_his_hello_is_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(session, "HELLO_SECONDS", 0.1)
        async with serving() as home, home.wire(greets=False) as wire:
            wire.writer.write((1000).to_bytes(4, "big"))
            closed = asyncio.create_task(wire.is_closed())
            for _ in range(100):
                if closed.done():
                    break
                wire.writer.write(b"x")
                await asyncio.sleep(0.02)  # sooner than it would be taken for silent
            assert closed.done()
            assert await closed

    async def test_a_guest_who_falls_silent_is_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(session, "IDLE_SECONDS", 0.05)
        async with serving() as home, home.wire() as wire:
            assert await wire.is_closed()

    async def test_a_ping_is_a_sign_of_life(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(session, "IDLE_SECONDS", 0.3)
        async with serving() as home, home.wire() as wire:
            for _ in range(10):
                await asyncio.sleep(0.06)  # together twice the time
                assert (await wire.ask(p.Ping()))[0] == p.ANSWER
