"""Becoming a WebSocket, and what a socket costs whose client is not nice about it."""

from __future__ import annotations

import asyncio
import gc
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from websockets.frames import Frame, Opcode

from ortoo.broker.budget import Share
from ortoo.doors.http import connection, stream, websocket
from ortoo.doors.http.websocket import Socket
from ortoo.model.settings import LimitSettings
from tests.doors.http.home import Home, serving, until

KEY = b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
UPGRADE = b"GET /v1/stream HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n" + KEY


def framed(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def said(kind: str, **fields: Any) -> bytes:
    return framed(Opcode.TEXT, msgspec.json.encode({"type": kind, **fields}))


class Peer:
    """The other end of a socket that has been let in; reads only when told to."""

    def __init__(self, home: Home, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: Socket) -> None:
        self.home = home
        self.reader = reader
        self.writer = writer
        self.end = end  # the server's

    async def frame(self) -> tuple[int, bytes]:
        first, size = await self.reader.readexactly(2)
        if size == 126:
            [size] = struct.unpack("!H", await self.reader.readexactly(2))
        elif size == 127:
            [size] = struct.unpack("!Q", await self.reader.readexactly(8))
        return first & 15, await self.reader.readexactly(size)

    async def hear(self) -> Any:
        return msgspec.json.decode((await self.frame())[1])

    @property
    def unread(self) -> int:
        return self.end.transport.get_write_buffer_size()

    async def overwhelm(self, topic: str) -> None:
        """Until more waits to be sent than the system takes."""
        self.writer.write(said("subscribe", id="s", topic=topic, group="g", credit=1000, max_messages=1))
        await until(lambda: not self.end.writable.is_set())


@asynccontextmanager
async def socket(home: Home) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection(home.host, home.port, limit=1024)
    writer.write(UPGRADE + b"\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    [end] = [end for end in home.door._state.connections if isinstance(end, Socket)]
    try:
        yield Peer(home, reader, writer, end)
    finally:
        writer.transport.abort()


async def leased(home: Home) -> int:
    return (await home.queue.group("t", "g")).leased


async def unleased(home: Home) -> None:
    async with asyncio.timeout(300):
        while await leased(home):  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (b"content-length: 5\r\n\r\nhello", b"400"),
        (b"content-length: 5\r\n\r\n", b"400"),
        (b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"400"),
        (b"transfer-encoding: chunked\r\n\r\n", b"400"),
        (b"x: " + b"a" * 9000 + b"\r\n\r\n", b"431"),
        (b"".join(b"x%d: a\r\n" % n for n in range(200)) + b"\r\n", b"431"),
        (b"host: localhost\r\n\r\n", b"400"),
        (b"sec-websocket-key: x\r\n\r\n", b"400"),
    ],
)
@pytest.mark.parametrize("token", [None, "s3cret"])
async def test_a_handshake_that_is_none_is_answered_and_ended(token: str | None, more: bytes, status: bytes) -> None:
    async with serving(token=token) as home:
        answer = await home.raw(UPGRADE + more)
        assert answer.startswith(b"HTTP/1.1 " + status), answer
        assert answer.count(b"HTTP/1.1 ") == 1
        await until(lambda: not home.gate.connections)


async def test_a_handshake_with_an_empty_body_is_fine(home: Home) -> None:
    reader, writer = await asyncio.open_connection(home.host, home.port)
    writer.write(UPGRADE + b"content-length: 0\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")
    writer.close()


async def test_refused_handshakes_leave_room_for_others() -> None:
    async with serving(token="s3cret", limits=LimitSettings(connections=3)) as home:
        for _ in range(10):
            assert (await home.raw(UPGRADE + b"\r\n")).startswith(b"HTTP/1.1 401 ")
            await until(lambda: not home.gate.connections)


async def test_an_upgrade_behind_a_request_under_way_is_not_taken(home: Home) -> None:
    await home.queue.create_topic("t")
    body = b'{"wait": 60}'
    poll = b"POST /v1/topics/t/groups/g/lease HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    reader, writer = await asyncio.open_connection(home.host, home.port)
    writer.write(poll + body + UPGRADE + b"\r\n")
    await home.waiters(1)
    await home.publish("t", "tea")
    answer = await asyncio.wait_for(reader.read(), 60)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b'"tea"' in answer
    writer.close()


@pytest.mark.parametrize("cut", [10, 80, 110, 130, 225, 240])
async def test_an_offer_of_http2_may_come_in_pieces(home: Home, cut: int) -> None:
    body = b'{"messages":[{"value":"h2c"}]}'
    data = (
        b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    ) % (len(body), body)
    reader, writer = await asyncio.open_connection(home.host, home.port)
    for _ in range(2):  # the connection lives on
        writer.write(data[:cut])
        await writer.drain()
        await until(lambda: any(getattr(end, "_in_head", False) for end in home.door._state.connections) or cut > 220)
        writer.write(data[cut:])
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 201 "), head
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(size)
    writer.close()
    assert [message["value"] for message in await home.lease("t")] == ["h2c", "h2c"]


async def test_what_is_no_upgrade_is_no_tunnel(home: Home) -> None:
    answer = await home.raw(b"CONNECT localhost:1 HTTP/1.1\r\nhost: localhost\r\n\r\nGET /health HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert answer.count(b"HTTP/1.1 ") == 1


# -- clients that do not read


async def test_a_subscriber_that_does_not_read_loses_its_leases_at_the_keepalive(home: Home) -> None:
    await home.publish("t", *["x" * 500_000] * 40)
    async with socket(home) as peer:
        await peer.overwhelm("t")
        assert await leased(home)
        peer.end.send_keepalive_ping()
        peer.end.keepalive_timeout()
        await unleased(home)
        assert peer.end not in home.door._state.connections


async def test_a_subscriber_that_is_busy_reading_is_not_given_up(home: Home) -> None:
    await home.publish("t", *["x" * 500_000] * 40)
    async with socket(home) as peer:
        await peer.overwhelm("t")
        peer.end.send_keepalive_ping()
        unread = peer.unread
        while peer.unread >= unread:
            await peer.reader.readexactly(10_000)
        peer.end.keepalive_timeout()
        assert peer.end.pong_timer is not None
        assert not peer.end.transport.is_closing()


async def test_a_socket_that_is_closing_is_cut_when_its_client_does_not_read(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 5)
    await home.publish("t", *["x" * 500_000] * 40)
    async with socket(home) as peer:
        await peer.overwhelm("t")
        peer.writer.write(framed(Opcode.CLOSE, b"\x03\xe8"))
        await until(peer.end.transport.is_closing)
        now = asyncio.get_running_loop().time()
        peer.end.sweep(now)
        assert peer.end in home.door._state.connections
        peer.end.sweep(now + 6)
        await until(lambda: peer.end not in home.door._state.connections)
        await unleased(home)


async def test_a_request_whose_answer_nobody_takes_is_cut(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 5)
    await home.publish("t", *["x" * 500_000] * 40)
    _reader, writer = await asyncio.open_connection(home.host, home.port, limit=1024)
    writer.write(b"GET /v1/topics/t/messages?format=ndjson HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await until(lambda: any(end.flow.write_paused for end in connections(home)))
    now = asyncio.get_running_loop().time()
    for end in connections(home):
        end.sweep(now)
        end.sweep(now + 6)
    await until(lambda: all(end.transport.is_closing() or not end.flow.write_paused for end in connections(home)))
    writer.close()


async def test_a_stream_whose_client_goes_meanwhile_is_nobodys_mistake(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await home.publish("t", "x")
    monkeypatch.setattr(connection.Connection, "is_gone", True)
    await home.raw(b"GET /v1/topics/t/messages?format=ndjson HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def connections(home: Home) -> list[connection.Connection]:
    return [end for end in home.door._state.connections if isinstance(end, connection.Connection)]


async def test_pongs_are_not_piled_up(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "CONTROLS_MAX", 100_000)
    await home.publish("t", *["x" * 500_000] * 40)
    async with socket(home) as peer:
        await peer.overwhelm("t")
        before = peer.unread
        for number in range(300):
            peer.writer.write(framed(Opcode.PING, b"%0100d" % number) * 100)
            await peer.writer.drain()
        peer.writer.write(framed(Opcode.PING, b"last"))
        await until(lambda: b"last" in peer.end._pong)
        assert peer.unread <= before
        async with asyncio.timeout(300):
            while (await peer.frame()) != (Opcode.PONG, b"last"):
                pass


@pytest.mark.parametrize(
    "frames",
    [
        framed(Opcode.PING, b"") * 20_000,
        framed(Opcode.TEXT, b"", fin=False) + framed(Opcode.CONT, b"", fin=False) * 20_000 + framed(Opcode.CONT, b"{}"),
        said("ack", receipts=[]) * 1_000,
    ],
    ids=["pings", "pieces", "messages"],
)
async def test_frames_that_come_together_are_parsed_in_many_turns(
    home: Home, monkeypatch: pytest.MonkeyPatch, frames: bytes
) -> None:
    monkeypatch.setattr(websocket, "CONTROLS_MAX", 100_000)
    async with socket(home) as peer:
        peer.end.data_received(frames + said("credit", id="none", credit=1, ref="last"))  # in one read
        receive, fed = peer.end.conn.receive_data, []

        def counted(data: bytes | bytearray) -> None:
            fed.append(len(data))
            receive(data)

        peer.end.conn.receive_data = counted  # type: ignore[method-assign]
        async with asyncio.timeout(300):
            while b'"last"' not in (await peer.frame())[1]:
                pass
        assert len(frames) > sum(fed) > len(frames) - 2 * websocket.SLICE_BYTES
        assert max(fed) <= websocket.SLICE_BYTES
        peer.writer.write(said("credit", id="none", credit=1, ref="more"))
        while b'"more"' not in (await peer.frame())[1]:
            pass


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.PONG])
async def test_a_flood_of_control_frames_ends_the_socket(home: Home, opcode: Opcode) -> None:
    async with socket(home) as peer:
        peer.end.data_received(framed(opcode, b"") * 20_000)
        async with asyncio.timeout(300):
            while (frame := await peer.frame())[0] == Opcode.PONG:
                pass
        assert (frame[0], frame[1][:2]) == (Opcode.CLOSE, (1008).to_bytes(2, "big"))
        await until(lambda: home.gate.connections == 0)


async def test_waiting_deliveries_are_written_one_after_the_other(home: Home) -> None:
    """Each subscription has one ready when the client reads on; together they would be all in memory."""
    for n in range(30):
        await home.publish(f"t{n}", *["x" * 1_000_000] * 3)
    async with socket(home) as peer:
        for n in range(30):
            peer.writer.write(said("subscribe", id=f"s{n}", topic=f"t{n}", group="g", credit=1000, max_messages=1))
        most = 0
        for _ in range(90):
            await peer.frame()
            most = max(most, peer.unread)
        assert most < 5_000_000


async def test_a_text_in_many_pieces_is_held_as_one(home: Home) -> None:
    async with socket(home) as peer:
        text = msgspec.json.encode({"type": "publish", "topic": "t", "messages": [{"value": "x" * 500}]})
        peer.writer.write(framed(Opcode.TEXT, text[:1], fin=False))
        for byte in text[1:-1]:
            peer.writer.write(framed(Opcode.CONT, bytes([byte]), fin=False) + framed(Opcode.CONT, b"", fin=False))
        await peer.writer.drain()
        await until(lambda: len(peer.end.frames) == 1 and len(peer.end.frames[0]) == len(text) - 1)
        peer.writer.write(framed(Opcode.CONT, text[-1:]))
        assert (await peer.hear())["type"] == "published"


async def test_a_text_that_is_not_utf_8_is_the_clients_mistake(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    async with socket(home) as peer:
        peer.writer.write(framed(Opcode.TEXT, b'{"type": "\xff"}'))
        told = await peer.hear()
        assert (told["type"], told["code"]) == ("error", "invalid")
    assert not caplog.records


async def test_what_is_answered_after_the_close_is_nobodys_mistake(home: Home) -> None:
    """`nothing_unexpected` looks at the log."""
    for _ in range(20):
        async with socket(home) as peer:
            commands = [said("publish", topic="t", messages=[{"value": 1}]), said("nonsense"), said("ack", receipts=[])]
            peer.writer.write(b"".join(commands * 10) + framed(Opcode.CLOSE, b"\x03\xe8") + b"".join(commands))
        async with socket(home) as peer:
            peer.writer.write(b"".join(commands) + b"\xff\xff\xff")
        await until(lambda: not home.gate.connections)


async def test_a_subscription_may_end_before_it_has_begun(home: Home) -> None:
    await home.publish("t", "x")
    async with socket(home) as peer:
        peer.writer.write(said("subscribe", id="s", topic="t", group="g", credit=1) + said("unsubscribe", id="s"))
        assert (await peer.hear())["type"] == "unsubscribed"
    gc.collect()  # whatever was begun and never run would be told now


async def test_the_log_holds_no_tokens_and_no_values(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(token="s3cret-token") as home:
        head = (
            UPGRADE.replace(b"/v1/stream", b"/v1/stream?key=s3cret-query") + b"authorization: Bearer s3cret-token\r\n"
        )
        reader, writer = await asyncio.open_connection(home.host, home.port)
        writer.write(head + b"\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")
        writer.write(said("publish", topic="t", messages=[{"value": "s3cret-value"}]))
        await until(lambda: len(home.broker.engine.state.topics) == 1)
        writer.close()
        await until(lambda: not home.gate.connections)
        await home.raw(UPGRADE + b"authorization: Bearer s3cret-wrong\r\n\r\n")
    assert "s3cret" not in caplog.text


# -- messages that are not whole


async def test_a_message_counts_from_its_first_byte(home: Home) -> None:
    text = msgspec.json.encode({"type": "publish", "topic": "t", "messages": [{"value": "x" * 500_000}]})
    whole = framed(Opcode.TEXT, text)
    async with socket(home) as peer:
        peer.writer.write(whole[:300_000])
        await until(lambda: home.gate.budget.bytes > 299_000)
        peer.writer.write(whole[300_000:])
        assert (await peer.hear())["type"] == "published"
        await until(lambda: home.gate.budget.bytes == 0)
        peer.writer.write(framed(Opcode.TEXT, text[:300_000], fin=False) + b"\x80")
        await until(lambda: home.gate.budget.bytes > 299_000)
    await until(lambda: home.gate.budget.bytes == 0)


async def test_with_no_room_left_messages_are_not_read_until_there_is() -> None:
    text = msgspec.json.encode({"type": "publish", "topic": "t", "messages": [{"value": "x" * 800_000}]})
    whole = framed(Opcode.TEXT, text)
    async with serving(limits=LimitSettings(in_flight_bytes=1024 * 1024)) as home:
        other = Share(home.gate.budget)
        other.take(1024 * 1024)  # of somebody else
        async with socket(home) as peer:
            peer.writer.write(whole)
            await until(lambda: not peer.end._has_room)
            assert home.gate.budget.bytes < 1024 * 1024 + len(whole)
            other.give_back(1024 * 1024)
            assert (await peer.hear())["type"] == "published"
        await until(lambda: home.gate.budget.bytes == 0)


async def test_a_message_that_is_not_finished_ends_the_socket(home: Home) -> None:
    async with socket(home) as peer:
        now = asyncio.get_running_loop().time()
        peer.end.sweep(now + 1000)
        assert not peer.end.transport.is_closing()
        peer.writer.write(framed(Opcode.TEXT, b"x" * 1000)[:500])
        await until(lambda: home.gate.budget.bytes > 0)
        peer.end.sweep(now + websocket.PIECE_SECONDS / 2)
        assert not peer.end.transport.is_closing()
        peer.end.sweep(now + websocket.PIECE_SECONDS * 2)
        await until(lambda: home.gate.budget.bytes == 0)


async def test_names_of_refused_consumers_are_not_remembered(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = []
    run = stream.Session.run

    async def noted(self: stream.Session) -> None:
        sessions.append(self)
        await run(self)

    monkeypatch.setattr(stream.Session, "run", noted)
    await home.publish("t", 1)
    async with socket(home) as peer:
        peer.writer.write(said("subscribe", id="s", topic="t", consumer="c" * 1_000))
        assert (await peer.hear())["code"] == "invalid"
        peer.writer.write(said("subscribe", id="s", topic="missing", consumer="c"))
        assert (await peer.hear())["code"] == "not_found"
        assert sessions[0]._consumers == set()
        peer.writer.write(said("subscribe", id="s", topic="t", consumer="c", credit=1))
        assert (await peer.hear())["type"] == "subscribed"
        await until(lambda: len(sessions[0]._consumers) == 1)
