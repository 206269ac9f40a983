"""Who may connect, and do what: with a token for a password, whatever the user is called; or with a certificate.

Runs servers of its own, on which nobody is let in without.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.app.certificates import Pki

from .brokers import IS_MOSQUITTO, ortoo_process
from .client import Address, Client, Options, Refused
from .paho_client import PahoClient

TOKEN = "a-secret-that-is-long-enough-for-anything"
SIGNING = "another-secret-with-which-tokens-are-signed"
REFUSALS = (0x86, 0x87)  # bad user name or password, not authorized; paho-mqtt has the same numbers for older versions
NOT_AUTHORIZED = 0x87

Enter = Callable[..., Awaitable[Client]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    _need_ortoo()
    flags = [f"token={TOKEN}", f"auth.secret={SIGNING}"]
    with ortoo_process(tmp_path_factory.mktemp("guarded"), *flags) as found:
        yield Address(*found["mqtt"])


def _need_ortoo() -> None:
    if IS_MOSQUITTO:
        pytest.skip("this is about tokens of Ortoo")


def token(*grants: dict[str, Any], name: str = "somebody") -> str:
    """As an identity provider signs it."""
    claims = {"sub": name, "exp": int(time.time()) + 600, "ortoo": {"grants": list(grants)}}
    return jwt.encode(claims, SIGNING, algorithm="HS256")


@pytest.fixture
async def enter(guarded: Address) -> AsyncIterator[Enter]:
    made: list[Client] = []

    async def connect(password: str | None, version: int = 5, client_id: str = "", **more: Any) -> Client:
        user = None if password is None else "anybody"
        client = PahoClient(
            guarded, Options(version=version, client_id=client_id, user=user, password=password, **more)
        )
        made.append(client)
        client.greeting = await client.connect()
        return client

    yield connect
    for client in made:
        await client.close()


@pytest.mark.parametrize("version", [4, 5])
async def test_a_token_lets_in(enter: Enter, version: int) -> None:
    for password in (TOKEN, token({"scopes": ["read", "write"]})):
        client = await enter(password, version)
        assert await client.subscribe("a") == 1
        await client.publish("a", b"1")
        assert (await client.receive()).payload == b"1"


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("password", [None, "guessed", jwt.encode({"sub": "me"}, "x" * 32, algorithm="HS256")])
async def test_nothing_else_does(enter: Enter, version: int, password: str | None) -> None:
    with pytest.raises(Refused) as refused:
        await enter(password, version)
    assert refused.value.reason in REFUSALS


async def test_a_token_allows_what_it_says(enter: Enter) -> None:
    """Topics of MQTT are topics: a grant's patterns hold for them."""
    limited = token({"scopes": ["read"], "topics": ["sensors/*"]}, {"scopes": ["write"], "topics": ["alarms/*"]})
    client, everybody = await enter(limited), await enter(TOKEN)
    assert await client.subscribe("sensors/1") == 1
    assert await client.subscribe("sensors/#") == 1
    assert await client.subscribe("alarms/1") == NOT_AUTHORIZED
    assert await client.subscribe("#") == NOT_AUTHORIZED
    assert await client.publish("sensors/1", b"1") == NOT_AUTHORIZED
    assert await client.publish("alarms/1", b"1") in (0, 0x10)
    await everybody.publish("sensors/1", b"21")
    assert (await client.receive()).payload == b"21"


async def test_an_old_client_is_refused_in_its_own_way(enter: Enter) -> None:
    """A subscription with 0x80; a publish by the end of the connection, for there is no other way to tell it."""
    client = await enter(token({"scopes": ["read"], "topics": ["sensors/*"]}), 4)
    assert await client.subscribe("alarms/1") == 0x80
    assert await client.subscribe("sensors/1") == 1
    publishing = asyncio.create_task(client.publish("sensors/1", b"1"))
    await client.wait_ended()
    publishing.cancel()
    [ended] = await asyncio.gather(publishing, return_exceptions=True)
    assert isinstance(ended, BaseException), "a client that is cut off may notice while it sends, or wait for ever"


async def test_namespaces_do_not_see_each_other(enter: Enter) -> None:
    """Nor their retained messages, shared groups, and clients of the same name."""
    grants = [{"scopes": ["read", "write", "admin"], "namespace": name} for name in ("ours", "theirs")]
    ours, theirs = [await enter(token(grant), client_id="the same") for grant in grants]
    for client in (ours, theirs):
        await client.subscribe("a")
        await client.subscribe("$share/g/b")
    await ours.publish("a", b"ours", retain=True)
    await ours.publish("b", b"ours")
    await theirs.publish("a", b"theirs")
    await theirs.publish("b", b"theirs")
    for client, word in ((ours, b"ours"), (theirs, b"theirs")):
        assert [message.payload for message in await client.receive_many(2)] == [word, word]
        assert await client.nothing_more()
    late = await enter(token(grants[1]))
    await late.subscribe("a")
    assert await late.nothing_more()


async def test_a_certificate_lets_in(tmp_path: Path) -> None:
    _need_ortoo()
    pki = Pki(tmp_path / "pki")
    tls = pki.settings("required")
    flags = [f"tls.certificate={tls.certificate}", f"tls.key={tls.key}", f"tls.client_ca={tls.client_ca}"]
    flags += ["tls.client_auth=required", "auth.certificate_scope=read,write", f"token={TOKEN}"]
    context = ssl.create_default_context(cafile=str(pki.ca.certificate))
    context.load_cert_chain(pki.client.certificate, pki.client.key)
    with ortoo_process(tmp_path / "server", *flags) as found:
        for version in (4, 5):
            client = PahoClient(Address(*found["mqtt"]), Options(version=version, client_id="me"))
            client.use_tls(context)
            await client.connect()
            assert await client.subscribe("a") == 1
            await client.publish("a", b"1")
            assert (await client.receive()).payload == b"1"
            await client.close()
