"""Does what `ortoo cert dev` makes, and what it says, work as it stands?"""

from __future__ import annotations

import re
import shlex
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from ortoo.client.tls import Tls, client_context

from .program import call, start


def said(out: str, beginning: str) -> list[list[str]]:
    """The commands that were printed, as words."""
    return [shlex.split(line)[1:] for line in out.splitlines() if line.startswith(f"  {beginning}")]


@contextmanager
def running(command: list[str]) -> Iterator[tuple[str, str]]:
    """As it was printed, but on free ports and in memory. Gives where it can be reached: TCP, HTTP."""
    process = start(*command, "--memory", "--http-port", "0", "--tcp-port", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        places = {}
        for line in process.stdout:
            if found := re.match(rb"\s+(tcp|http)\s+(\S+)", line):
                places[found[1]] = found[2].decode()
            if len(places) == 2:
                break
        yield places[b"tcp"], places[b"http"]
    finally:
        process.terminate()
        process.communicate(timeout=300)


def at(command: list[str], url: str) -> list[str]:
    return [url if word.startswith("ortoos://") else word for word in command]


def test_the_commands_that_it_prints_work(tmp_path: Path) -> None:
    out = tmp_path / "my certs"
    done = call("cert", "dev", "--out", out)
    assert done.code == 0, done.err
    plain, mutual = said(done.out, "ortoo serve")
    [stats] = said(done.out, "ortoo stats")
    with running(plain) as (tcp, http):
        assert call(*at(stats, tcp)).code == 0
        trust = client_context(Tls(out / "ca.pem"))
        assert httpx.get(f"{http}/health", verify=trust).json() == {"status": "ok"}
    with running(mutual) as (tcp, http):
        assert call(*at(stats, tcp)).code == 0
        assert "demands a client certificate" in call("stats", "--url", tcp, "--tls-ca", out / "ca.pem").err
        shown = client_context(Tls(out / "ca.pem", out / "client.pem", out / "client-key.pem"))
        assert httpx.get(f"{http}/health", verify=shown).status_code == 200
        another = call("cert", "dev", "--out", out, "--client", "billing")
        [stats] = said(another.out, "ortoo stats")
        assert "billing.pem" in " ".join(stats)
        assert call(*at(stats, tcp)).code == 0


def test_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    assert call("cert", "dev", "--out", tmp_path).code == 0
    assert call("cert", "dev", "--out", tmp_path, "--client", "billing").code == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {name for name, mode in modes.items() if mode == 0o600} == {name for name in modes if "-key" in name}
    assert modes.keys() == {
        f"{name}{kind}.pem" for name in ("ca", "server", "client", "billing") for kind in ("", "-key")
    }


def test_nothing_is_overwritten_unless_it_is_forced(tmp_path: Path) -> None:
    call("cert", "dev", "--out", tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for more in ([], ["--client", "client"]):
        done = call("cert", "dev", "--out", tmp_path, *more)
        assert done.code == 1
        assert "--force" in done.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert call("cert", "dev", "--out", tmp_path, "--force").code == 0
    assert all(path.read_bytes() != content for path, content in before.items())


def test_one_file_that_is_in_the_way_stops_it_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "client-key.pem").write_text("mine")
    assert call("cert", "dev", "--out", tmp_path).code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["client-key.pem"]


def test_names_and_days_are_those_asked_for(tmp_path: Path) -> None:
    done = call("cert", "dev", "--out", tmp_path, "--name", "queue.test", "--name", "10.0.0.7", "--days", "30")
    assert "ortoos://queue.test:7632" in done.out
    found = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["queue.test", "10.0.0.7"]
    assert (found.not_valid_after_utc - found.not_valid_before_utc).days == 30


def test_certificates_hold_up_to_the_strict_rules(tmp_path: Path) -> None:
    """Which newer versions of Python apply by default."""
    call("cert", "dev", "--out", tmp_path)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.pem"))
    serving.verify_mode = ssl.CERT_REQUIRED
    serving.verify_flags |= ssl.VERIFY_X509_STRICT
    serving.load_cert_chain(tmp_path / "server.pem", tmp_path / "server-key.pem")
    trusting.load_cert_chain(tmp_path / "client.pem", tmp_path / "client-key.pem")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(down, up, server_hostname="localhost")
    server = serving.wrap_bio(up, down, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert client.getpeercert()
    assert server.getpeercert()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--days", "0"], "days must be 1 to 3650"),
        (["--name", "no such name"], "neither a host name nor an IP address"),
        (["--client", "../x"], "a client's name is"),
        (["--client", "ca"], "choose another"),
        (["--client", "ca-key"], "choose another"),
        (["--client", "x", "--name", "y"], "give it or --client"),
        (["--client", "x"], "there is no CA in"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(options: list[str], words: str, tmp_path: Path) -> None:
    done = call("cert", "dev", "--out", tmp_path / "certs", *options)
    assert done.code != 0
    assert words in done.err
    assert not (tmp_path / "certs").exists()


def test_a_ca_that_is_not_whole_signs_nothing(tmp_path: Path) -> None:
    call("cert", "dev", "--out", tmp_path)
    (tmp_path / "client-key.pem").replace(tmp_path / "ca-key.pem")
    done = call("cert", "dev", "--out", tmp_path, "--client", "billing")
    assert (done.code, "is not the key of" in done.err) == (1, True)
    (tmp_path / "ca-key.pem").unlink()
    assert "cannot be used" in call("cert", "dev", "--out", tmp_path, "--client", "billing").err
