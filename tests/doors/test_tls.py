"""Does every door speak TLS and nothing else, know who shows a certificate, and let nobody linger in a handshake?"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import uvloop
from cryptography import x509
from websockets.asyncio.client import connect as connect_socket

import ortoo
from ortoo.app.certificates import load
from ortoo.broker.gate import Gate
from ortoo.client.tls import client_context
from ortoo.doors import listening
from ortoo.doors.http.call import Call
from ortoo.doors.listening import TlsListener
from ortoo.doors.peer import peer_certificate, to_peer
from ortoo.doors.tcp.session import Session
from ortoo.model.peer import PeerCertificate
from ortoo.wire import protocol as p
from tests.app.certificates import ClientAuth, Pki
from tests.doors.http import home as http_home
from tests.doors.tcp import home as tcp_home
from tests.doors.tcp.home import until

DOORS = ["tcp", "http"]
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # how a client begins; more would have to follow


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


class Open:
    """A door with TLS."""

    def __init__(self, port: int, gate: Gate, listener: Any, home: Any) -> None:
        self.port = port
        self.gate = gate
        assert isinstance(listener, TlsListener)
        self.listener = listener
        self.home = home


@asynccontextmanager
async def open_door(door: str, pki: Pki, client_auth: ClientAuth | None = None) -> AsyncIterator[Open]:
    context = load(pki.settings(client_auth)).context
    if door == "tcp":
        async with tcp_home.serving(tls=context) as tcp:
            yield Open(tcp.port, tcp.gate, tcp.door._listener, tcp)
    else:
        async with http_home.serving(tls=context) as http:
            yield Open(http.port, http.gate, http.door._server, http)


async def greet(door: str, port: int, tls: ssl.SSLContext) -> str:
    """One request, and the version of TLS that it went through. Raises what the handshake ends with."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    try:
        if door == "tcp":
            wire = tcp_home.Wire(reader, writer)
            assert (await wire.hello())[0] == p.ANSWER, "the connection was closed"
        else:
            writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b" 200 " in await reader.readline(), "the connection was closed"
        return str(writer.get_extra_info("ssl_object").version())
    finally:
        writer.transport.abort()


def only(version: ssl.TLSVersion, context: ssl.SSLContext) -> ssl.SSLContext:
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else this machine's OpenSSL would not even try the old ones
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # they are tried because they are deprecated
        context.minimum_version = version
        context.maximum_version = version
    return context


@pytest.mark.parametrize("door", DOORS)
class TestEveryDoor:
    @pytest.mark.parametrize(
        ("version", "name"), [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")]
    )
    async def test_accepts_tls_1_2_and_1_3(self, door: str, version: ssl.TLSVersion, name: str, pki: Pki) -> None:
        async with open_door(door, pki) as opened:
            assert await greet(door, opened.port, only(version, client_context(pki.tls()))) == name

    async def test_refuses_tls_1_1_with_a_reason(self, door: str, pki: Pki) -> None:
        async with open_door(door, pki) as opened:
            with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
                await greet(door, opened.port, only(ssl.TLSVersion.TLSv1_1, client_context(pki.tls())))

    async def test_takes_anybody_in_when_no_certificates_are_asked_for(self, door: str, pki: Pki) -> None:
        async with open_door(door, pki) as opened:
            await greet(door, opened.port, client_context(pki.tls()))
            await greet(door, opened.port, client_context(pki.tls(pki.client)))
        async with open_door(door, pki, "none") as opened:
            await greet(door, opened.port, client_context(pki.tls()))

    @pytest.mark.parametrize(
        ("version", "alert"),
        [(ssl.TLSVersion.TLSv1_2, "HANDSHAKE_FAILURE"), (ssl.TLSVersion.TLSv1_3, "CERTIFICATE_REQUIRED")],
    )
    async def test_tells_a_client_without_a_certificate_that_one_is_required(
        self, door: str, version: ssl.TLSVersion, alert: str, pki: Pki
    ) -> None:
        async with open_door(door, pki, "required") as opened:
            with pytest.raises(ssl.SSLError, match=alert):
                await read_to_the_end(opened.port, only(version, client_context(pki.tls())))
            await greet(door, opened.port, client_context(pki.tls(pki.client)))
            assert opened.gate.connections <= 1

    async def test_takes_clients_in_with_and_without_when_it_is_optional(self, door: str, pki: Pki) -> None:
        async with open_door(door, pki, "optional") as opened:
            await greet(door, opened.port, client_context(pki.tls()))
            await greet(door, opened.port, client_context(pki.tls(pki.client)))

    @pytest.mark.parametrize("client_auth", ["required", "optional"])
    async def test_refuses_a_certificate_of_another_ca_with_a_reason(
        self, door: str, client_auth: ClientAuth, pki: Pki, tmp_path: Path
    ) -> None:
        stranger = Pki(tmp_path).client
        async with open_door(door, pki, client_auth) as opened:
            with pytest.raises(ssl.SSLError, match="ALERT_UNKNOWN_CA"):
                await read_to_the_end(opened.port, client_context(pki.tls(stranger)))

    async def test_refuses_a_client_certificate_that_has_expired(self, door: str, pki: Pki) -> None:
        old = pki.make_client("old", days=(-2, -1))
        async with open_door(door, pki, "required") as opened:
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_EXPIRED"):
                await read_to_the_end(opened.port, client_context(pki.tls(old)))

    async def test_ends_handshakes_that_hang(
        self, door: str, pki: Pki, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Whether nothing comes at all, or the beginning of a handshake."""
        monkeypatch.setattr(listening, "HANDSHAKE_SECONDS", 0.1)
        async with open_door(door, pki) as opened:
            for begun in (b"", HELLO):
                reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
                writer.write(begun)
                assert await asyncio.wait_for(reader.read(), 60) == b""
                writer.close()
            await until(lambda: opened.listener.handshakes == 0)
            assert opened.gate.connections == 0
            await greet(door, opened.port, client_context(pki.tls()))

    async def test_lets_those_who_dawdle_in_the_handshake_keep_nobody_out(
        self, door: str, pki: Pki, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listening, "CROWDED_SECONDS", 0.05)
        async with open_door(door, pki) as opened:
            opened.listener._tls = opened.listener._tls._replace(handshakes_max=4)
            dawdling = [await asyncio.open_connection("127.0.0.1", opened.port) for _ in range(12)]
            for _, writer in dawdling[::2]:
                writer.write(HELLO)
            async with asyncio.timeout(listening.HANDSHAKE_SECONDS):
                await greet(door, opened.port, client_context(pki.tls()))
            assert opened.listener.handshakes <= 4
            for _, writer in dawdling:
                writer.transport.abort()

    async def test_logs_failed_handshakes_in_one_line_now_and_then(
        self, door: str, pki: Pki, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with open_door(door, pki, "required") as opened:
            for _ in range(5):
                with pytest.raises((ssl.SSLError, OSError)):
                    await read_to_the_end(opened.port, client_context(pki.tls()))
            for begun in (b"plain text, and not TLS", HELLO + bytes(600), b"\x16\x03\x01" + b"\xff" * 200):
                reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
                writer.write(begun)
                writer.write_eof()
                await reader.read()
                writer.close()
            await until(lambda: opened.listener.handshakes == 0)
        [line] = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert (line.name, line.message, line.exc_info) == ("ortoo.tls", "a TLS handshake failed", None)
        assert line.__dict__["reason"] == "PEER_DID_NOT_RETURN_A_CERTIFICATE"

    async def test_says_in_plain_text_that_it_speaks_tls(self, door: str, pki: Pki) -> None:
        async with open_door(door, pki) as opened:
            reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
            writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n" * 500)
            answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 400 ")
            if door == "http":
                assert b"this port speaks TLS: use https://" in answer

    async def test_closes_while_handshakes_hang(self, door: str, pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
        async with open_door(door, pki) as opened:
            reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
            await until(lambda: opened.listener.handshakes == 1)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        assert [record for record in caplog.records if record.name == "ortoo.tls"] == []


async def read_to_the_end(port: int, tls: ssl.SSLContext) -> bytes:
    """With TLS 1.3, a client learns that it is refused when it reads."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    try:
        writer.write(b"hello")
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.transport.abort()


async def test_what_a_client_had_sent_does_not_cost_it_the_answer() -> None:
    """A connection that is closed with something unread is reset, and what was said last may be lost with it."""
    here, there = socket.socketpair()
    here.setblocking(False)
    there.sendall(bytes(10_000))
    there.shutdown(socket.SHUT_WR)
    with there:
        with here:
            await listening._part(here, b"no")
        assert there.recv(10) == b"no"
        assert there.recv(10) == b""


@pytest.mark.parametrize("door", DOORS)
def test_the_event_loop_of_the_server_refuses_as_well(door: str, pki: Pki) -> None:
    """The tests run in that of the standard library, servers in uvloop's."""

    async def refused() -> None:
        async with open_door(door, pki, "required") as opened:
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
                await read_to_the_end(opened.port, client_context(pki.tls()))
            with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
                await greet(door, opened.port, only(ssl.TLSVersion.TLSv1_1, client_context(pki.tls(pki.client))))
            await greet(door, opened.port, client_context(pki.tls(pki.client)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(refused())


# -- who is there


def named(pki: Pki) -> tuple[ortoo.Tls, PeerCertificate]:
    pair = pki.make_client(
        "billing",
        x509.DNSName("billing.example"),
        x509.UniformResourceIdentifier("spiffe://shop/billing"),
        x509.RFC822Name("billing@shop.example"),
    )
    expires = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).not_valid_after_utc.timestamp()
    names = ("billing.example",), ("spiffe://shop/billing",), ("billing@shop.example",)
    return pki.tls(pair), PeerCertificate("billing", *names, not_after=expires)


async def test_a_session_over_tcp_knows_the_certificate_of_its_client(pki: Pki) -> None:
    tls, who = named(pki)
    async with open_door("tcp", pki, "optional") as opened:
        url = f"ortoos://127.0.0.1:{opened.port}"
        async with ortoo.connect(url, tls=tls), ortoo.connect(url, tls=pki.tls()):
            sessions: set[Session] = opened.home.door._sessions
            assert {session.peer for session in sessions} == {who, None}


async def test_a_session_without_tls_has_no_certificate() -> None:
    async with tcp_home.serving() as home, home.connect():
        assert [session.peer for session in home.door._sessions] == [None]


async def test_requests_and_websockets_know_the_certificate_of_their_client(
    pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, who = named(pki)
    async with open_door("http", pki, "optional") as opened:
        seen = spy(opened.home.door, monkeypatch)
        for shown in (tls, pki.tls()):
            async with httpx.AsyncClient(
                base_url=f"https://127.0.0.1:{opened.port}", verify=client_context(shown)
            ) as http:
                assert (await http.get("/v1/topics")).status_code == 200
            async with connect_socket(f"wss://127.0.0.1:{opened.port}/v1/stream", ssl=client_context(shown)):
                pass
    assert [(kind, peer) for kind, peer in seen] == [
        ("http", who),
        ("websocket", who),
        ("http", None),
        ("websocket", None),
    ]


def spy(door: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, PeerCertificate | None]]:
    """What each request that comes in knows of its client."""
    seen: list[tuple[str, PeerCertificate | None]] = []
    app = door._app

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["type"], Call(door._services, scope, receive, {}).peer))
        await app(scope, receive, send)

    monkeypatch.setattr(door, "_app", serve)
    return seen


def test_a_subject_of_several_common_names_names_nobody() -> None:
    found = {
        "subject": ((("commonName", "billing"),), (("commonName", "root"),)),
        "notAfter": "Jan  1 00:00:00 2030 GMT",
    }
    assert to_peer(found) == PeerCertificate(None, not_after=1893456000.0)


def test_a_certificate_that_nobody_has_checked_is_none() -> None:
    assert peer_certificate(asyncio.Transport()) is None


# -- what travels inside


async def test_messages_are_pushed_over_a_websocket_with_tls(pki: Pki) -> None:
    async with open_door("http", pki, "required") as opened:
        context = client_context(pki.tls(pki.client))
        await opened.home.queue.publish("t", {"n": 1})
        async with connect_socket(f"wss://localhost:{opened.port}/v1/stream", ssl=context) as pushed:
            await pushed.send(
                msgspec.json.encode({"type": "subscribe", "id": "s", "topic": "t", "group": "g", "credit": 1}).decode()
            )
            assert msgspec.json.decode(await pushed.recv())["type"] == "subscribed"
            [message] = msgspec.json.decode(await pushed.recv())["messages"]
            assert message["value"] == {"n": 1}


async def test_large_messages_pass_over_tcp_with_tls(pki: Pki) -> None:
    async with (
        open_door("tcp", pki) as opened,
        ortoo.connect(f"ortoos://localhost:{opened.port}", tls=pki.tls()) as queue,
    ):
        await queue.publish("jobs", bytes(1_000_000))
        [message] = await queue.lease("jobs")
        assert message.value == bytes(1_000_000)
