"""Is a new certificate taken up without a restart, a bad one never, and is an operator told in time?"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

import ortoo
from ortoo.app import certificates
from ortoo.app.certificates import Certificates, load
from ortoo.app.dev_certificates import Pair
from ortoo.app.server import Server
from ortoo.client.tls import client_context
from ortoo.model.errors import ConfigError
from ortoo.model.mqtt_settings import MqttSettings
from ortoo.model.queries import GetStats
from ortoo.model.settings import HttpSettings, LimitSettings, Settings, TcpSettings, TlsSettings
from tests.app.certificates import Pki
from tests.app.test_server_process import a_server, ended
from tests.doors.tcp.home import until

DAY = 86_400


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")


@asynccontextmanager
async def serving(tls: TlsSettings) -> AsyncIterator[Server]:
    http, tcp, few = HttpSettings(port=0), TcpSettings(port=0), LimitSettings(connections=100)
    server = Server(Settings(data="memory", http=http, tcp=tcp, mqtt=MqttSettings(port=0), limits=few, tls=tls))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def put(new: Pair, in_place_of: Pair) -> None:
    """As a renewal does: each file is replaced as a whole."""
    new.key.replace(in_place_of.key)
    new.certificate.replace(in_place_of.certificate)


async def shown(address: tuple[str, int], pki: Pki) -> str:
    """The common name of the certificate that a door shows to a new connection."""
    _, writer = await asyncio.open_connection(*address, ssl=client_context(pki.tls(pki.client)))
    subject = writer.get_extra_info("ssl_object").getpeercert()["subject"]
    writer.transport.abort()
    return str(subject[0][0][1])


async def shown_everywhere(server: Server, pki: Pki) -> set[str]:
    return {await shown(address, pki) for address in server.addresses.values()}


def remote(server: Server, pki: Pki) -> ortoo.Queue:
    return ortoo.connect(f"ortoos://127.0.0.1:{server.addresses['tcp'][1]}", tls=pki.tls(pki.client), timeout=1)


def https(server: Server, pki: Pki) -> httpx.AsyncClient:
    url = f"https://127.0.0.1:{server.addresses['http'][1]}"
    return httpx.AsyncClient(base_url=url, verify=client_context(pki.tls(pki.client)))


async def look(server: Server) -> None:
    assert server.certificates is not None
    await server.certificates.look()


async def test_a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on(pki: Pki) -> None:
    async with serving(pki.settings()) as server, remote(server, pki) as queue, https(server, pki) as http:
        await queue.publish("orders", b"tea")
        await http.get("/health")
        connections = server._gates["tcp"].connections, server._gates["http"].connections
        put(pki.make_server("renewed"), pki.server)
        await look(server)
        assert await shown_everywhere(server, pki) == {"renewed"}
        assert [message.value for message in await queue.lease("orders")] == [b"tea"]
        assert (await http.get("/health")).status_code == 200
        assert (server._gates["tcp"].connections, server._gates["http"].connections) == connections == (1, 1)


async def test_the_server_looks_by_itself(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "LOOK_SECONDS", 0.01)
    async with serving(pki.settings()) as server:
        put(pki.make_server("renewed"), pki.server)
        async with asyncio.timeout(60):
            while await shown_everywhere(server, pki) != {"renewed"}:
                pass


async def test_files_that_have_not_changed_are_not_read_again(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ortoo.tls")
    async with serving(pki.settings()) as server:
        context = server.certificates and server.certificates.context()
        for _ in range(3):
            await look(server)
        assert server.certificates is not None
        assert server.certificates.context() is context
    assert caplog.records == []


def spoil_key(pki: Pki) -> None:
    pki.client.key.replace(pki.server.key)


def halve_certificate(pki: Pki) -> None:
    whole = pki.server.certificate.read_bytes()
    pki.server.certificate.write_bytes(whole[: len(whole) // 2])


def empty_certificate(pki: Pki) -> None:
    pki.server.certificate.write_bytes(b"")


def remove_key(pki: Pki) -> None:
    pki.server.key.unlink()


def use_a_clients(pki: Pki) -> None:
    put(pki.client, pki.server)


def spoil_ca(pki: Pki) -> None:
    pki.ca.certificate.write_text("nothing")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (spoil_key, "the key does not belong to the certificate"),
        (halve_certificate, "cannot be used"),
        (empty_certificate, "cannot be used"),
        (remove_key, "No such file"),
        (use_a_clients, "is it that of a client?"),
        (spoil_ca, "tls.client_ca"),
    ],
)
async def test_a_bad_new_file_is_told_and_the_old_certificate_stays(
    spoil: Callable[[Pki], None], complaint: str, pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    trusting = Pki(pki.folder.parent / "another")  # keeps what clients use, whatever becomes of the server's files
    settings = pki.settings("required")
    async with serving(settings) as server:
        kept = client_context(pki.tls(pki.client))
        spoil(pki)
        for _ in range(3):
            await look(server)
        for address in server.addresses.values():
            _, writer = await asyncio.open_connection(*address, ssl=kept)
            writer.transport.abort()
        [problem] = (await server.broker.ask(GetStats())).problems
        assert complaint in problem
        assert "stays in use" in problem
        assert b"ortoo_problems 1.0" in await server._metrics.render()
        put(trusting.server, pki.server)
        pki.ca.certificate.write_bytes(trusting.ca.certificate.read_bytes())
        await look(server)
        assert (await server.broker.ask(GetStats())).problems == []
        assert await shown_everywhere(server, trusting) == {"127.0.0.1"}
    problems = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.message for record in problems] == ["the certificate has a problem"]
    assert problems[0].exc_info is None


async def test_the_cas_of_clients_are_read_again_too(pki: Pki, tmp_path: Path) -> None:
    other = Pki(tmp_path / "other")
    async with serving(pki.settings("required")) as server:
        both = pki.ca.certificate.read_bytes() + other.ca.certificate.read_bytes()
        newcomer = pki.tls(other.client)
        url = f"ortoos://127.0.0.1:{server.addresses['tcp'][1]}"
        with pytest.raises(ConfigError, match="refused the client certificate"):
            await ortoo.connect(url, tls=newcomer).open()
        pki.ca.certificate.write_bytes(both)
        await look(server)
        async with ortoo.connect(url, tls=newcomer):
            pass


@pytest.mark.parametrize(("days", "word"), [(13.9, "expires on"), (-0.1, "expired on")])
async def test_a_certificate_that_expires_soon_is_a_warning_and_a_problem(
    days: float, word: str, pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(pki.settings(server=pki.make_server("short", days=(-20, days)))) as server:
        for _ in range(3):
            await look(server)
        [problem] = (await server.broker.ask(GetStats())).problems
        assert word in problem
    [warned] = [record for record in caplog.records if record.message == "the certificate has a problem"]
    assert (warned.levelno, warned.__dict__["problem"]) == (logging.WARNING, problem)


async def test_what_expires_while_the_server_runs_is_told_then(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    found = Certificates(pki.settings(), lambda: now)
    now = found._loaded.not_after - 14 * DAY - 1
    await found.look()
    assert found.problems() == []
    now += 2
    await found.look()
    assert len(found.problems()) == len(caplog.records) == 1
    put(pki.make_server("renewed", days=(-1, 500)), pki.server)
    await found.look()
    assert found.problems() == []


async def test_the_time_until_the_certificate_expires_is_a_metric(pki: Pki) -> None:
    async with serving(pki.settings()) as server:
        [line] = [line for line in (await server._metrics.render()).splitlines() if line.startswith(b"ortoo_tls")]
    assert 364 * DAY < float(line.split()[1]) <= 365 * DAY


async def test_without_tls_there_is_no_such_value() -> None:
    server = Server(Settings(data="memory", http=HttpSettings(port=0), tcp=TcpSettings(port=0)))
    await server.start()
    rendered = await server._metrics.render()
    await server.stop()
    assert [line for line in rendered.splitlines() if line.startswith(b"ortoo_tls")] == []


async def test_files_are_read_again_when_that_is_asked_for(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if they look the same, as on disks that tell their times badly."""
    monkeypatch.setattr(certificates, "LOOK_SECONDS", 1000.0)
    async with serving(pki.settings()) as server:
        assert server.certificates is not None
        before = server.certificates.context()
        server.reload()
        held = server.certificates
        await until(lambda: held.context() is not before)


async def test_sighup_asks_for_that(pki: Pki) -> None:
    flags = {"tls__certificate": pki.server.certificate, "tls__key": pki.server.key}
    async with a_server(data="memory", **flags) as (process, addresses):
        put(pki.make_server("renewed"), pki.server)
        os.kill(process.pid, signal.SIGHUP)
        async with asyncio.timeout(60):
            while await shown(tuple(addresses["tcp"]), pki) != "renewed":
                pass
        process.terminate()
        code, logged = await ended(process)
    assert code == 0
    assert "the certificate was read again" in [entry["event"] for entry in logged]


def test_a_key_that_is_encrypted_is_refused_and_nobody_is_asked(pki: Pki) -> None:
    key = serialization.load_pem_private_key(pki.server.key.read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    pki.server.key.write_bytes(encrypted)
    with pytest.raises(ConfigError, match="the key is encrypted"):
        load(pki.settings())


def test_a_certificate_for_any_use_is_one_for_servers(pki: Pki) -> None:
    pair = pki.make("any", use=ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
    assert load(pki.settings(server=pair)).context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("client_auth", "mode"),
    [
        (None, ssl.CERT_REQUIRED),
        ("required", ssl.CERT_REQUIRED),
        ("optional", ssl.CERT_OPTIONAL),
        ("none", ssl.CERT_NONE),
    ],
)
def test_with_a_ca_for_clients_their_certificates_are_required_unless_it_is_said(
    client_auth: str | None, mode: ssl.VerifyMode, pki: Pki
) -> None:
    settings = msgspec.structs.replace(pki.settings("none"), client_auth=client_auth)
    assert load(settings).context.verify_mode == mode
