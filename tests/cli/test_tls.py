"""Does the command line speak TLS, and say in one line what to set when it cannot?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509

from ortoo.app.certificates import load
from ortoo.app.dev_certificates import Pair
from ortoo.model.settings import TlsSettings
from tests.app.certificates import Pki
from tests.doors.tcp.home import serving

from .program import call

_SET_CERTIFICATE = "--tls-certificate and --tls-key\n"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@contextmanager
def a_server(settings: TlsSettings | None) -> Iterator[str]:
    """In a thread, because commands block. Gives its address."""
    is_open, ended = threading.Event(), asyncio.Event()
    place = ""

    async def serve() -> None:
        nonlocal place
        async with serving(tls=None if settings is None else load(settings).context) as home:
            place = f"127.0.0.1:{home.port}"
            is_open.set()
            await ended.wait()

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=lambda: runner.run(serve()))
        thread.start()
        assert is_open.wait(300)
        try:
            yield place
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join(300)


def files(pki: Pki, pair: Pair | None = None) -> list[str]:
    shown = [] if pair is None else ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key)]
    return ["--tls-ca", str(pki.ca.certificate), *shown]


def complaint(place: str, *options: str, scheme: str = "ortoos") -> str:
    done = call("topics", "list", "--url", f"{scheme}://{place}", *options)
    assert done.code in (1, 4), done
    assert done.err.count("\n") == 1, "one line"
    return done.err


def test_a_command_trusts_the_ca_and_shows_the_certificate_that_it_is_given(pki: Pki) -> None:
    with a_server(pki.settings("required")) as place:
        url = ["--url", f"ortoos://{place}", *files(pki, pki.client)]
        assert call("publish", "orders", "tea", *url).code == 0
        assert call("consume", "orders", "--group", "default", "--max", "1", "--raw", *url).out == "tea\n"


def test_the_environment_will_do(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTOO_TLS_CA", str(pki.ca.certificate))
    monkeypatch.setenv("ORTOO_TLS_CERTIFICATE", str(pki.client.certificate))
    monkeypatch.setenv("ORTOO_TLS_KEY", str(pki.client.key))
    with a_server(pki.settings("required")) as place:
        assert call("stats", "--url", f"ortoos://{place}").code == 0
    with a_server(None) as place:
        assert call("stats", "--url", f"ortoo://{place}").code == 0


def test_the_environment_does_not_matter_to_a_directory(
    pki: Pki, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTOO_TLS_CA", str(pki.ca.certificate))
    assert call("stats", "--data", directory).code == 0


def test_an_issuer_that_is_not_trusted(pki: Pki) -> None:
    with a_server(pki.settings()) as place:
        assert "is not trusted" in (said := complaint(place))
    assert said.endswith("name its CA with tls=, ORTOO_TLS_CA or --tls-ca\n")


def test_a_certificate_that_has_expired_or_is_not_valid_yet(pki: Pki) -> None:
    with a_server(pki.settings(server=pki.make_server("old", (-2, -1)))) as place:
        assert "has expired: renew it on the server (tls.certificate" in complaint(place, *files(pki))
    with a_server(pki.settings(server=pki.make_server("new", (1, 2)))) as place:
        assert "is not valid yet: set the clock of this machine" in complaint(place, *files(pki))


def test_a_certificate_for_another_name(pki: Pki) -> None:
    with a_server(pki.settings(server=pki.make("other", x509.DNSName("queue.example")))) as place:
        assert "is for another name" in complaint(place, *files(pki))


def test_the_wrong_kind_of_url(pki: Pki) -> None:
    with a_server(pki.settings()) as place:
        assert "this port speaks TLS: use an ortoos:// URL" in complaint(place, scheme="ortoo")
    with a_server(None) as place:
        assert "does not speak TLS: use an ortoo:// URL" in complaint(place)


def test_a_certificate_that_is_demanded_or_refused(pki: Pki, tmp_path: Path) -> None:
    with a_server(pki.settings("required")) as place:
        said = complaint(place, *files(pki))
        assert "demands a client certificate" in said
        assert said.endswith(_SET_CERTIFICATE)
        said = complaint(place, *files(pki, Pki(tmp_path / "other").client))
        assert "refused the client certificate" in said
        assert said.endswith(_SET_CERTIFICATE)


@pytest.mark.parametrize("where", [("--url", "ortoo://localhost"), ("--data", "data"), ()])
def test_files_for_tls_without_tls_are_wrong_usage(where: tuple[str, ...], pki: Pki) -> None:
    done = call("stats", *where, *files(pki))
    assert done.code == 2
    assert "--tls-ca is for a server with an ortoos:// URL" in done.err


def test_several_processes_of_the_benchmark_use_the_same_files(pki: Pki) -> None:
    with a_server(pki.settings("required")) as place:
        url = ["--url", f"ortoos://{place}", *files(pki, pki.client)]
        done = call("bench", "--messages", "200", "--processes", "2", "--json", *url)
    assert done.code == 0, done.err
