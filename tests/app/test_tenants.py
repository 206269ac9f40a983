"""A server with tokens, as an operator sets it up: what each opens, over every door, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import time
from typing import Any

import httpx
import pytest

import ortoo
from ortoo.app.dev_certificates import make_set
from ortoo.app.server import Server
from ortoo.auth.certificates import CertificateRules
from ortoo.auth.files import FOLDER
from ortoo.auth.revocation import revoke
from ortoo.auth.signing import make_token
from ortoo.model.access import EVERYTHING, Grant
from ortoo.model.errors import ForbiddenError, UnauthenticatedError
from ortoo.model.peer import PeerCertificate
from ortoo.model.settings import AuthSettings, HttpSettings, Settings, TcpSettings, TlsSettings

PAYMENTS = Grant(("read", "write"), "payments", ("orders*",))


@asynccontextmanager
async def serving(data: Path, **settings: Any) -> AsyncIterator[Server]:
    server = Server(Settings(data=str(data), tcp=TcpSettings(port=0), http=HttpSettings(port=0), **settings))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def url(server: Server, scheme: str = "ortoo") -> str:
    return f"{scheme}://localhost:{server.addresses['tcp'][1]}"


async def test_a_token_opens_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    token = make_token(tmp_path / FOLDER, "ann", (PAYMENTS,), None, time()).token
    root = make_token(tmp_path / FOLDER, "root", (EVERYTHING,), None, time()).token
    async with serving(tmp_path) as server:
        async with ortoo.connect(url(server), token=root) as queue:
            await queue.create_topic("orders", namespace="payments")
            await queue.publish("secret", b"1", namespace="payments")
        async with ortoo.connect(url(server), token=token, namespace="payments") as queue:
            await queue.publish("orders", b"1")
            await queue.ack(await queue.lease("orders"))
            with pytest.raises(ForbiddenError, match=r"'ann' may not do this: .* the scope read .* 'payments/secret'"):
                await queue.lease("secret")
            assert [info.name for info in await queue.topics()] == ["orders"]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.addresses['http'][1]}") as web:
            for given, status in ((token, 200), (token + "x", 401), (None, 401)):
                headers = {} if given is None else {"authorization": f"Bearer {given}"}
                answer = await web.get("/v1/topics/orders?namespace=payments", headers=headers)
                assert answer.status_code == status
        with pytest.raises(UnauthenticatedError):
            async with ortoo.connect(url(server)):
                pass


async def test_a_token_that_is_renewed_in_its_file_is_taken_up_when_the_old_one_ends(tmp_path: Path) -> None:
    data = tmp_path / "data"
    old, new = (make_token(data / FOLDER, "ann", (PAYMENTS,), None, time()) for _ in range(2))
    root = make_token(data / FOLDER, "root", (EVERYTHING,), None, time()).token
    file = tmp_path / "ann.token"
    file.write_text(old.token)
    async with serving(data) as server:
        async with ortoo.connect(url(server), token=root) as queue:
            await queue.create_topic("orders", namespace="payments")
        async with ortoo.connect(url(server), token_file=file, namespace="payments") as queue, asyncio.timeout(60):
            await queue.create_group("orders", "pulled")
            polled = asyncio.create_task(queue.lease("orders", group="pulled", wait=60))
            pushed = asyncio.create_task(first_of(queue.consume("orders", group="pushed")))
            file.write_text(new.token)
            revoke(data / FOLDER, old.id, None, time())
            while await is_taken(url(server), old.token):
                pass
            sent = await queue.publish("orders", b"1")
            assert [message.id for message in await polled] == [sent.id]
            assert (await pushed).id == sent.id


async def first_of(messages: AsyncIterable[ortoo.Received]) -> ortoo.Received:
    async for message in messages:
        return message
    raise AssertionError("it ended")


async def is_taken(server: str, token: str) -> bool:
    try:
        async with ortoo.connect(server, token=token):
            return True
    except UnauthenticatedError:
        return False


async def test_a_revoked_token_ends_the_rights_of_open_connections(tmp_path: Path) -> None:
    made = make_token(tmp_path / FOLDER, "ann", (PAYMENTS,), None, time())
    root = make_token(tmp_path / FOLDER, "root", (EVERYTHING,), None, time()).token
    async with serving(tmp_path) as server:
        async with ortoo.connect(url(server), token=root) as queue:
            await queue.create_topic("orders", namespace="payments")
        async with ortoo.connect(url(server), token=made.token, namespace="payments") as queue:
            await queue.publish("orders", b"1")
            revoke(tmp_path / FOLDER, made.id, None, time())
            async with asyncio.timeout(60):
                with pytest.raises(UnauthenticatedError, match="expired or was revoked"):
                    while True:
                        await queue.publish("orders", b"1")
                        await asyncio.sleep(0.02)
    async with serving(tmp_path) as server:
        with pytest.raises(UnauthenticatedError, match="revoked"):
            async with ortoo.connect(url(server), token=made.token):
                pass


async def test_a_certificate_is_a_principal_where_that_is_wanted(tmp_path: Path) -> None:
    files = tmp_path / "certs"
    make_set(files, ["localhost"], 30, force=False)
    tls = TlsSettings(
        certificate=str(files / "server.pem"),
        key=str(files / "server-key.pem"),
        client_ca=str(files / "ca.pem"),
        client_auth="optional",
    )
    auth = AuthSettings(certificate_scope="read,write", certificate_namespace="{name}")
    with_certificate = ortoo.Tls(ca=files / "ca.pem", certificate=files / "client.pem", key=files / "client-key.pem")
    async with serving(tmp_path / "data", tls=tls, auth=auth) as server:
        async with ortoo.connect(url(server, "ortoos"), tls=with_certificate, namespace="client") as queue:
            await queue.publish("orders", b"1")
            with pytest.raises(ForbiddenError, match="cert:client"):
                await queue.publish("orders", b"1", namespace="default")
        with pytest.raises(UnauthenticatedError):
            async with ortoo.connect(url(server, "ortoos"), tls=ortoo.Tls(ca=files / "ca.pem")):
                pass


@pytest.mark.parametrize("name", [None, "*", "system", "", "a\nb"])
def test_a_common_name_that_names_nobody_opens_nothing(name: str | None) -> None:
    rules = CertificateRules(("read",), "{name}")
    with pytest.raises(UnauthenticatedError, match="common name"):
        rules.to_principal(PeerCertificate(name, not_after=1e12))


def test_a_common_name_is_not_put_together_into_the_name_of_the_servers_own_namespace() -> None:
    with pytest.raises(UnauthenticatedError, match="common name"):
        CertificateRules(("read",), "sys{name}").to_principal(PeerCertificate("tem", not_after=1e12))
    [grant] = CertificateRules(("read",), "system").to_principal(PeerCertificate("auditor", not_after=1e12)).grants
    assert grant.namespace == "system"  # where it was configured, it is meant


def test_the_rights_of_a_certificate_end_with_it() -> None:
    principal = CertificateRules(("read",), "default").to_principal(PeerCertificate("ann", not_after=17.0))
    assert (principal.name, principal.expires) == ("cert:ann", 17.0)


async def test_a_scope_for_certificates_needs_a_ca(tmp_path: Path) -> None:
    with pytest.raises(ortoo.ConfigError, match=r"auth\.certificate_scope needs tls\.client_ca"):
        Server(Settings(data=str(tmp_path), auth=AuthSettings(certificate_scope="read")))


async def test_a_message_tells_whose_token_published_it(tmp_path: Path) -> None:
    ann = make_token(tmp_path / FOLDER, "ann", (Grant(("admin",), "payments"),), None, time()).token
    async with serving(tmp_path) as server, ortoo.connect(url(server), token=ann, namespace="payments") as queue:
        await queue.publish("orders", b"1")
        async with queue.transaction() as transaction:
            transaction.publish("orders", b"2")
        headers = {"authorization": f"Bearer {ann}"}
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{server.addresses['http'][1]}", headers=headers
        ) as web:
            topic = "/v1/topics/orders"
            await web.post(f"{topic}/messages?namespace=payments", json={"messages": [{"value": 3}]})
            await web.post(f"{topic}/request?namespace=payments", json={"value": 4, "timeout": 0})
        found = [(message.value, message.publisher) async for message in queue.read("orders")]
    assert sorted(found) == [(b"1", "ann"), (b"2", "ann"), (b"3", "ann"), (b"4", "ann")]
