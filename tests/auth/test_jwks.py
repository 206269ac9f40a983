"""Do keys from a provider come, rotate and survive its absence, without anybody being able to make us ask too often?"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortoo.auth import Authenticator
from ortoo.auth.fetch import FetchError, check_url, fetch
from ortoo.auth.files import WatchedFile
from ortoo.auth.jwks import SET_BYTES_MAX, JwksUrl
from ortoo.auth.keys import KEYS_MAX, parse_jwks
from ortoo.model.errors import ConfigError, UnauthenticatedError

from .minting import NOW, SECRET, jwk, jwks, part, private_key, signed
from .provider import Provider, providing, until

OF_ONE = jwk("ES256", "one", "one")
OF_TWO = jwk("ES256", "two", "two")


def by(name: str, kid: str | None = None) -> str:
    return signed(key=private_key("ES256", name), algorithm="ES256", kid=kid or name)


def trusting(source: JwksUrl) -> Authenticator:
    return Authenticator(jwks=source, now=lambda: NOW)


def source_of(provider: Provider, pause: float = 3600, refresh: float = 3600) -> JwksUrl:
    return JwksUrl(provider.url, refresh_seconds=refresh, pause_seconds=pause, fetch_seconds=60)


def refusal(door: Authenticator, token: str) -> str:
    with pytest.raises(UnauthenticatedError) as caught:
        door.admit(token)
    return str(caught.value)


def is_admitted(door: Authenticator, token: str) -> bool:
    try:
        door.admit(token)
    except UnauthenticatedError:
        return False
    return True


# -- the URL


async def test_keys_are_there_when_the_server_has_started() -> None:
    async with providing() as provider:
        provider.body = jwks(OF_ONE, jwk("RS256", "rsa"), jwk("EdDSA", "ed"))
        door = trusting(source_of(provider))
        assert door.needs_token
        await door.start()
        assert door.admit(by("one")).name == "ann"
        assert door.admit(signed(key=private_key("RS256"), algorithm="RS256", kid="rsa")).name == "ann"
        assert door.admit(signed(key=private_key("EdDSA"), algorithm="EdDSA")).name == "ann"  # names no key
        assert "signature is wrong" in refusal(door, by("two", kid="one"))
        assert door.problems() == []
        await door.stop()


async def test_a_new_key_is_fetched_when_a_token_names_it() -> None:
    async with providing() as provider:
        provider.body = jwks(OF_ONE)
        door = trusting(source_of(provider))
        await door.start()
        provider.body = jwks(OF_TWO)
        assert "not known; keys are being fetched, try again" in refusal(door, by("two"))
        await until(lambda: is_admitted(door, by("two")))
        assert provider.requests == 2
        assert "not known" in refusal(door, by("one"))  # it was taken away, also from what is remembered
        await door.stop()


async def test_a_flood_of_unknown_keys_makes_one_fetch() -> None:
    async with providing() as provider:
        provider.body = jwks(OF_ONE)
        door = trusting(source_of(provider))
        await door.start()
        for number in range(1000):
            assert "not known" in refusal(door, by("two", kid=f"bogus-{number}"))
            if number % 10 == 0:
                await asyncio.sleep(0)
        await provider.until_asked(2)
        for number in range(1000):
            assert "not known" in refusal(door, by("two", kid=f"more-{number}"))
            if number % 10 == 0:
                await asyncio.sleep(0)
        assert provider.requests == 2
        assert door.admit(by("one")).name == "ann"
        await door.stop()


async def test_who_asks_during_the_pause_is_heard_after_it() -> None:
    async with providing() as provider:
        provider.body = jwks(OF_ONE)
        door = trusting(source_of(provider, pause=0.05))
        await door.start()
        refusal(door, by("two"))
        await provider.until_asked(2)
        await until(lambda: not door.problems())
        provider.body = jwks(OF_ONE, OF_TWO)
        await until(lambda: is_admitted(door, by("two")))
        await door.stop()


async def test_keys_are_fetched_anew_from_time_to_time() -> None:
    async with providing() as provider:
        provider.body = jwks(OF_ONE)
        door = trusting(source_of(provider, refresh=0.01))
        await door.start()
        assert door.admit(by("one")).name == "ann"
        provider.body = jwks(OF_TWO)
        await until(lambda: not is_admitted(door, by("one")))
        assert door.admit(by("two")).name == "ann"
        await door.stop()


async def test_the_last_keys_are_good_while_the_provider_is_away() -> None:
    async with providing() as provider:
        provider.body = jwks(OF_ONE)
        door = trusting(source_of(provider, pause=0.01, refresh=0.01))
        await door.start()
        await provider.stop()
        await until(lambda: bool(door.problems()))
        [problem] = door.problems()
        assert f"the keys at {provider.url} cannot be had" in problem
        assert "the last ones are used" in problem
        assert door.admit(by("one")).name == "ann"
        await provider.start()
        await until(lambda: door.problems() == [])
        await door.stop()


async def test_a_provider_that_is_away_does_not_keep_the_server_from_starting() -> None:
    async with providing() as provider:
        await provider.stop()
        door = trusting(source_of(provider, pause=0.01))
        await door.start()
        assert door.problems()
        assert door.needs_token
        assert "not known" in refusal(door, by("one"))
        provider.body = jwks(OF_ONE)
        await provider.start()
        await until(lambda: is_admitted(door, by("one")))
        await door.stop()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"is_silent": True}, "no answer within 0.3 s"),
        ({"drips": b"HTTP/1.1 200 OK\r\nX: "}, "no answer within 0.3 s"),
        ({"drips": b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"}, "no answer within 0.3 s"),
        ({"drips": b"HTTP/1.1 200 OK\r\n\r\n" + jwks(OF_TWO)}, "no answer within 0.3 s"),  # cut off, it looks whole
        ({"body": b" " * (SET_BYTES_MAX + 1)}, f"more than {SET_BYTES_MAX} bytes"),
        (
            {"status": "302 Found", "headers": ["Location: http://127.0.0.1/"]},
            "it answered 302; name where it leads to",
        ),
        ({"status": "500 Oh"}, "it answered 500"),
        ({"status": "204 No Content", "body": b""}, "it answered 204"),
        ({"status": "garbage"}, "cannot be had"),
        ({"body": b"<html>"}, "not a JSON Web Key Set"),
        ({"body": b'{"keys": []}'}, "no key that can verify"),
        ({"body": b'{"keys": ' + b"[" * 100_000}, "not a JSON Web Key Set"),
    ],
)
async def test_an_answer_that_is_no_key_set_changes_nothing(fault: dict[str, Any], told: str) -> None:
    async with providing() as provider:
        provider.body = jwks(OF_ONE)
        source = source_of(provider)
        door = trusting(source)
        await door.start()
        if "no answer" in told:
            source._fetch_seconds = 0.3
        for name, value in fault.items():
            setattr(provider, name, value)
        refusal(door, by("two"))
        await until(lambda: bool(door.problems()))
        assert told in door.problems()[0]
        assert door.admit(by("one")).name == "ann"
        await door.stop()


async def test_an_answer_in_chunks_is_read() -> None:
    async with providing() as provider:
        body = jwks(OF_ONE)
        provider.body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        provider.headers = ["Transfer-Encoding: chunked"]
        assert await asyncio.to_thread(fetch, provider.url, 5, SET_BYTES_MAX) == body
        with pytest.raises(FetchError, match="more than 10 bytes"):
            await asyncio.to_thread(fetch, provider.url, 5, 10)


async def test_stopping_does_not_wait_for_a_provider() -> None:
    async with providing() as provider:
        provider.body = jwks(OF_ONE)
        door = trusting(source_of(provider))
        await door.start()
        provider.is_silent = True
        refusal(door, by("two"))
        await provider.until_asked(2)
        await door.stop()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://login.example/keys", "must begin with https://"),
        ("http://10.0.0.1/keys", "must begin with https://"),
        ("http://localhost.evil.example/keys", "must begin with https://"),
        ("http://127.0.0.1@evil.example/keys", "no login"),
        ("https://user:pass@login.example/keys", "no login"),
        ("https:///keys", "not a URL"),
        ("https://a:99999/keys", "not a URL"),
        ("https://[::1/keys", "not a URL"),
        ("https://login.example/a b", "not a URL"),
        ("https://login.example/\r\nX: y", "not a URL"),
        ("ftp://login.example/keys", "not a URL"),
    ],
)
def test_a_url_that_others_could_change_is_refused(url: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        JwksUrl(url)
    assert "pass" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://login.example/k?v=1", "http://localhost:1/k", "http://[::1]:8/", "http://127.1.2.3"]
)
def test_https_and_this_machine_are_taken(url: str) -> None:
    check_url(url)


# -- a file


def in_file(path: Path, *keys: dict[str, Any]) -> None:
    path.write_bytes(jwks(*keys))


async def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    in_file(path, OF_ONE)
    file = WatchedFile(path, lambda data: parse_jwks(data, with_secrets=True))
    door = Authenticator(key_sets=[file], now=lambda: NOW, look_seconds=0.001)
    await door.start()
    assert door.admit(by("one")).name == "ann"
    in_file(path, OF_TWO)
    await until(lambda: is_admitted(door, by("two")))
    assert "not known" in refusal(door, by("one"))
    path.write_bytes(b"{")
    await until(lambda: bool(door.problems()))
    assert f"{path} cannot be used" in door.problems()[0]
    assert door.admit(by("two")).name == "ann"
    path.unlink()
    await until(lambda: "cannot be read" in "".join(door.problems()))
    assert door.admit(by("two")).name == "ann"
    in_file(path, OF_ONE)
    await until(lambda: is_admitted(door, by("one")))
    assert door.problems() == []
    await door.stop()


def test_a_secret_is_taken_from_a_file_and_never_from_a_url() -> None:
    secret = {"kty": "oct", "k": part(SECRET.encode()), "kid": "s"}
    [key] = parse_jwks(jwks(secret), with_secrets=True).keys
    assert (key.algorithm, key.material) == ("HS256", SECRET.encode())
    with pytest.raises(ConfigError, match="a secret that others can read is none"):
        parse_jwks(jwks(secret), with_secrets=False)


@pytest.mark.parametrize("with_secrets", [True, False])
@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (jwk("ES256", "p", d="AAAA"), "private key"),
        (jwk("RS256", "p", d="AAAA"), "private key"),
        ({"kty": "oct", "k": part(b"short"), "kid": "s"}, ""),
        ({"kty": "oct", "kid": "s"}, ""),
        ({"kty": "oct", "k": "!", "kid": "s"}, ""),
        (jwk("ES256", "x", alg="HS256"), "algorithm"),
        (jwk("RS256", "x", alg="RS512"), "algorithm"),
        (jwk("RS256", "x", key_ops=["sign"]), "key_ops"),
        (jwk("RS256", "x", key_ops=5), "key_ops"),
        ({**jwk("RS256", "x"), "n": part(b"\xff" * 128)}, "2048"),
        ({**jwk("RS256", "x"), "n": 5}, "cannot be read"),
        ({**jwk("ES256", "x"), "crv": "P-384"}, "cannot be read"),
        ({**jwk("ES256", "x"), "x": "AAAA"}, "cannot be read"),
        ({**jwk("ES256", "x"), "kid": 5}, "kid"),
        ({**jwk("ES256", "x"), "kid": "k" * 256}, "kid"),
        ({"kty": "RSA"}, "cannot be read"),
        ({"kty": ["RSA"]}, "cannot be read"),
        ({}, "cannot be read"),
    ],
)
def test_a_key_that_cannot_be_used_is_left_out_and_told(bad: dict[str, Any], told: str, with_secrets: bool) -> None:
    found = parse_jwks(jwks(bad, OF_ONE), with_secrets)
    assert [key.id for key in found.keys] == ["one"]
    [skipped] = found.skipped
    assert skipped.startswith("key 1 is left out: ")
    assert told in skipped


def test_keys_for_encryption_are_passed_over_and_too_many_refused() -> None:
    assert parse_jwks(jwks({**OF_TWO, "use": "enc"}, OF_ONE), with_secrets=False).skipped == ()
    with pytest.raises(ConfigError, match="at most 100"):
        parse_jwks(jwks(*[OF_ONE] * (KEYS_MAX + 1)), with_secrets=False)


_VALUES = (
    st.none()
    | st.integers()
    | st.text(max_size=5)
    | st.lists(st.text(max_size=3))
    | st.sampled_from(["RSA", "EC", "oct"])
)
_NAMES = st.sampled_from(["kty", "crv", "n", "e", "x", "y", "k", "d", "kid", "alg", "use", "key_ops"])


@given(st.lists(st.dictionaries(_NAMES, _VALUES)), st.booleans())
def test_any_key_set_is_read_or_refused(keys: list[dict[str, Any]], with_secrets: bool) -> None:
    found = parse_jwks(json.dumps({"keys": [*keys, OF_ONE]}).encode(), with_secrets)
    assert "one" in [key.id for key in found.keys]


@given(st.binary())
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        parse_jwks(data, with_secrets=True)
