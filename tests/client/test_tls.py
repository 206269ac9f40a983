"""Is a client that cannot agree with a server on TLS told, in one sentence, what to set?"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import serialization

import ortoo
from ortoo import ConfigError, InvalidError, OrtooError, Tls
from ortoo.app.certificates import load
from ortoo.app.dev_certificates import Pair
from ortoo.client.tls import client_context, to_files
from ortoo.model.settings import TlsSettings
from tests.app.certificates import ClientAuth, Pki
from tests.doors.tcp.home import Home, serving, until

_CERTIFICATE = "ORTOO_TLS_CERTIFICATE and ORTOO_TLS_KEY, or --tls-certificate and --tls-key"
_DEMANDED = f"name one with tls=ortoo.Tls(certificate=..., key=...), {_CERTIFICATE}"


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")


@asynccontextmanager
async def a_server(settings: TlsSettings) -> AsyncIterator[str]:
    """Its address."""
    async with serving(tls=load(settings).context) as home:
        yield f"127.0.0.1:{home.port}"


async def complaint(url: str, tls: object = None) -> str:
    with pytest.raises(OrtooError) as caught:
        await ortoo.connect(url, tls=tls).open()  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    return text


async def test_an_issuer_that_is_not_trusted(pki: Pki) -> None:
    async with a_server(pki.settings()) as place:
        found = await complaint(f"ortoos://{place}")
    assert found.startswith(f"the certificate of {place} is not trusted (")
    assert found.endswith("): name its CA with tls=, ORTOO_TLS_CA or --tls-ca")


async def test_a_certificate_that_has_expired(pki: Pki) -> None:
    async with a_server(pki.settings(server=pki.make_server("old", (-2, -1)))) as place:
        assert await complaint(f"ortoos://{place}", pki.tls()) == (
            f"the certificate of {place} has expired: renew it on the server (tls.certificate and tls.key)"
        )


async def test_a_certificate_that_is_not_valid_yet(pki: Pki) -> None:
    async with a_server(pki.settings(server=pki.make_server("new", (1, 2)))) as place:
        assert await complaint(f"ortoos://{place}", pki.tls()) == (
            f"the certificate of {place} is not valid yet: set the clock of this machine, or renew it on the server "
            "(tls.certificate and tls.key)"
        )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_certificate_for_another_name(host: str, pki: Pki) -> None:
    other = pki.make("other", x509.DNSName("queue.example"))
    async with a_server(pki.settings(server=other)) as place:
        found = await complaint(f"ortoos://{place.replace('127.0.0.1', host)}", pki.tls())
    assert "is for another name (" in found
    assert "use a URL with a name that it lists, or give the server a certificate for this one" in found


async def test_a_plain_client_at_a_port_with_tls(pki: Pki) -> None:
    async with a_server(pki.settings()) as place:
        assert await complaint(f"ortoo://{place}") == "this port speaks TLS: use an ortoos:// URL"


async def test_a_plain_client_at_somebody_elses_port_with_tls(pki: Pki) -> None:
    """Such as that of a proxy, which answers with an alert."""

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x15\x03\x03\x00\x02\x02\x46")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(join, "127.0.0.1", 0) as listener:
        found = await complaint(f"ortoo://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    assert found == "one side of the connection speaks TLS: use ortoos:// with TLS, ortoo:// without"


async def test_a_client_with_tls_at_a_plain_port(home: Home) -> None:
    assert await complaint(f"ortoos://127.0.0.1:{home.port}") == (
        f"127.0.0.1:{home.port} does not speak TLS: use an ortoo:// URL, or set tls.certificate and tls.key on the server"
    )


async def test_a_client_without_the_certificate_that_is_demanded(pki: Pki) -> None:
    async with a_server(pki.settings("required")) as place:
        assert await complaint(f"ortoos://{place}", pki.tls()) == f"{place} demands a client certificate: {_DEMANDED}"


async def test_the_same_before_tls_1_3(pki: Pki) -> None:
    context = client_context(pki.tls())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with a_server(pki.settings("required")) as place:
        assert await complaint(f"ortoos://{place}", context) == (
            f"{place} refused the TLS handshake: if it demands a client certificate, {_DEMANDED}"
        )


@pytest.mark.parametrize(("kind", "why"), [("stranger", "its issuer is unknown there"), ("old", "it has expired")])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_certificate_that_is_refused(
    kind: str, why: str, version: ssl.TLSVersion, pki: Pki, tmp_path: Path
) -> None:
    pair = Pki(tmp_path / "other").client if kind == "stranger" else pki.make_client("old", days=(-2, -1))
    context = client_context(pki.tls(pair))
    context.maximum_version = version
    async with a_server(pki.settings("required")) as place:
        found = await complaint(f"ortoos://{place}", context)
    assert found.startswith(f"{place} refused the client certificate ({why}")
    assert found.endswith(
        f"name one that its tls.client_ca has signed, with {_DEMANDED.removeprefix('name one with ')}"
    )


async def test_a_server_certificate_is_none_for_clients(pki: Pki) -> None:
    async with a_server(pki.settings("required")) as place:
        found = await complaint(f"ortoos://{place}", pki.tls(pki.server))
    assert "refused the client certificate (it is not for clients)" in found


async def test_a_server_that_hangs_up_in_the_handshake() -> None:
    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with await asyncio.start_server(join, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        assert f"no Ortoo server at 127.0.0.1:{port} (" in await complaint(f"ortoos://127.0.0.1:{port}")


@pytest.mark.parametrize("client_auth", [None, "required"])
def test_the_event_loop_of_workers_tells_the_same(client_auth: ClientAuth | None, pki: Pki) -> None:
    async def work() -> None:
        async with a_server(pki.settings(client_auth)) as place:
            found = await complaint(f"ortoos://{place}", pki.tls() if client_auth else None)
            assert ("demands a client certificate" if client_auth else "is not trusted") in found
            async with ortoo.connect(f"ortoos://{place}", tls=pki.tls(pki.client)) as queue:
                await queue.publish("jobs", b"x")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


# -- what a client can be given


async def test_a_client_with_its_certificate_is_let_in(pki: Pki) -> None:
    async with a_server(pki.settings("required")) as place:
        async with ortoo.connect(f"ortoos://{place}", tls=pki.tls(pki.client)) as queue:
            await queue.publish("jobs", b"x")
        async with ortoo.connect(f"ortoos://{place}", tls=client_context(pki.tls(pki.client))) as queue:
            assert len(await queue.lease("jobs")) == 1


async def test_the_key_may_be_in_the_file_of_the_certificate(pki: Pki, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(pki.client.certificate.read_bytes() + pki.client.key.read_bytes())
    async with (
        a_server(pki.settings("required")) as place,
        ortoo.connect(f"ortoos://{place}", tls=Tls(pki.ca.certificate, both)) as queue,
    ):
        await queue.publish("jobs", b"x")


async def test_what_is_not_given_comes_from_the_environment(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTOO_TLS_CA", str(pki.ca.certificate))
    async with a_server(pki.settings("required")) as place:
        assert "demands a client certificate" in await complaint(f"ortoos://{place}")
        monkeypatch.setenv("ORTOO_TLS_CERTIFICATE", str(pki.client.certificate))
        monkeypatch.setenv("ORTOO_TLS_KEY", str(pki.client.key))
        async with ortoo.connect(f"ortoos://{place}") as queue:
            await queue.publish("jobs", b"x")
        worker, seen = ortoo.Worker(f"ortoos://{place}"), []

        @worker.on("jobs")
        async def take(message: ortoo.Received) -> None:
            seen.append(message.value)
            await worker.stop()

        await asyncio.wait_for(worker.run_async(), 60)
        assert seen == [b"x"]


def test_a_certificate_and_its_key_come_from_one_place() -> None:
    environ = {"ORTOO_TLS_CA": "ca", "ORTOO_TLS_CERTIFICATE": "certificate", "ORTOO_TLS_KEY": "key"}
    assert to_files(Tls(), environ) == Tls("ca", "certificate", "key")
    assert to_files(Tls("mine"), environ) == Tls("mine", "certificate", "key")
    assert to_files(Tls(certificate="mine"), environ) == Tls("ca", "mine", None)
    assert to_files(Tls(), {"ORTOO_TLS_CA": ""}) == Tls()


async def test_a_worker_takes_the_same(pki: Pki) -> None:
    async with a_server(pki.settings("required")) as place:
        worker, seen = ortoo.Worker(f"ortoos://{place}", tls=pki.tls(pki.client)), []

        @worker.on("jobs")
        async def take(message: ortoo.Received) -> None:
            seen.append(message.value)
            await worker.stop()

        async with ortoo.connect(f"ortoos://{place}", tls=pki.tls(pki.client)) as queue:
            await queue.publish("jobs", b"x")
        await asyncio.wait_for(worker.run_async(), 60)
        assert seen == [b"x"]


def test_files_for_tls_with_a_plain_url_are_a_mistake(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidError, match="tls= is for an ortoos:// URL"):
        ortoo.connect("ortoo://localhost", tls=pki.tls())
    monkeypatch.setenv("ORTOO_TLS_CA", "missing.pem")
    ortoo.connect("ortoo://localhost")  # the environment speaks of servers with TLS only


def other_key(pki: Pki) -> Tls:
    return Tls(pki.ca.certificate, pki.client.certificate, pki.server.key)


def no_key(pki: Pki) -> Tls:
    return Tls(certificate=pki.client.certificate)


def no_certificate(pki: Pki) -> Tls:
    return Tls(key=pki.client.key)


def no_file(pki: Pki) -> Tls:
    return Tls(certificate=pki.folder / "missing.pem", key=pki.client.key)


def secret_key(pki: Pki) -> Tls:
    pair = Pair(pki.folder, "secret")
    key = serialization.load_pem_private_key(pki.client.key.read_bytes(), None)
    how = serialization.BestAvailableEncryption(b"secret")
    pair.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how))
    return Tls(certificate=pki.client.certificate, key=pair.key)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (other_key, "the key does not belong to it"),
        (no_key, "which must hold its key too"),
        (no_certificate, "needs its certificate as well"),
        (no_file, "No such file"),
        (secret_key, "the key is encrypted"),
    ],
)
def test_files_that_cannot_be_used_are_named(files: Callable[[Pki], Tls], reason: str, pki: Pki) -> None:
    with pytest.raises(ConfigError) as caught:
        ortoo.connect("ortoos://localhost", tls=files(pki))
    assert reason in str(caught.value)
    assert str(caught.value).endswith(_CERTIFICATE)


def test_tls_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"tls must be a CA file, an ortoo\.Tls or an ssl\.SSLContext, not bool"):
        ortoo.connect("ortoos://localhost", tls=True)  # type: ignore[arg-type]


async def test_a_queue_that_is_closed_has_hung_up(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    """Else the event loop, which often ends right then, would complain of a connection that is still open."""
    async with serving(tls=load(pki.settings()).context) as home:
        queue = ortoo.connect(f"ortoos://127.0.0.1:{home.port}", tls=pki.tls())
        await queue.open()
        connection = queue._link._connection  # type: ignore[attr-defined]
        await queue.close()
        assert connection._ended.is_set()
    assert caplog.records == []


async def test_a_server_that_does_not_say_goodbye_is_not_waited_for_long(
    pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ortoo.client.connection._GOODBYE_SECONDS", 0.05)
    async with serving(tls=load(pki.settings()).context) as home:
        queue = ortoo.connect(f"ortoos://127.0.0.1:{home.port}", tls=pki.tls())
        await queue.open()
        [session] = home.door._sessions
        session._transport.pause_reading()
        connection = queue._link._connection  # type: ignore[attr-defined]
        await asyncio.wait_for(queue.close(), 60)
        assert connection._ended.is_set()


async def test_a_client_that_connects_again_shows_its_renewed_certificate(pki: Pki) -> None:
    first, second = pki.make_client("first"), pki.make_client("second")
    async with serving(tls=load(pki.settings("required")).context) as home:
        queue = ortoo.connect(f"ortoos://127.0.0.1:{home.port}", tls=pki.tls(first))

        async def shown() -> str | None:
            async with queue:
                [session] = home.door._sessions
                peer = session.peer
            await until(lambda: not home.door._sessions)
            assert peer is not None
            return peer.common_name

        assert await shown() == "first"
        second.certificate.replace(first.certificate)
        assert await shown() == "first", "half of a renewal, without the key"
        second.key.replace(first.key)
        assert await shown() == "second"
