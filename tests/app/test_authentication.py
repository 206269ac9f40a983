"""Do the settings of a server, and what `ortoo token` left in its data directory, decide who is let in?"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ortoo.app.authentication import make_authenticator
from ortoo.app.config import load_settings
from ortoo.auth.revocation import revoke
from ortoo.auth.signing import FILE, make_token
from ortoo.model.access import EVERYTHING, Grant
from ortoo.model.errors import ConfigError, UnauthenticatedError
from ortoo.model.settings import Settings
from tests.auth.minting import SECRET, claims, jwk, jwks, pem, private_key, signed
from tests.auth.provider import providing


@pytest.fixture(autouse=True)
def an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings(**auth: str) -> Settings:
    return load_settings(None, {f"auth.{name}": text for name, text in auth.items()}, {}).settings


def token_of(algorithm: str = "ES256", **more: object) -> str:
    return signed(claims(**{"exp": time.time() + 60, **more}), private_key(algorithm), algorithm)


def test_by_default_everybody_is_let_in() -> None:
    assert make_authenticator(Settings()).admit(None).is_unlimited
    assert not make_authenticator(Settings(data="memory")).needs_token


def test_a_directory_with_a_signing_key_asks_for_tokens() -> None:
    made = make_token(Path("data/auth"), "ann", [EVERYTHING], None, time.time())
    door = make_authenticator(Settings())
    assert door.admit(made.token).is_unlimited
    with pytest.raises(UnauthenticatedError, match="asks for a token"):
        door.admit(None)
    revoke(Path("data/auth"), made.id, None, time.time())
    with pytest.raises(UnauthenticatedError, match="revoked"):
        make_authenticator(Settings()).admit(made.token)


def test_the_single_token_works_beside_the_others() -> None:
    made = make_token(Path("data/auth"), "ann", [], None, time.time())
    door = make_authenticator(Settings(token="s3cret"))
    assert door.admit("s3cret").is_unlimited
    assert door.admit(made.token).grants == ()


def test_a_jwt_as_the_single_token_is_refused() -> None:
    """Whoever exports ORTOO_TOKEN for clients and starts a server there would make that token all-powerful."""
    made = make_token(Path("data/auth"), "ann", [], None, time.time())
    with pytest.raises(ConfigError, match="unset ORTOO_TOKEN") as caught:
        make_authenticator(Settings(token=made.token))
    assert made.token not in str(caught.value)


def test_a_secret_and_what_tokens_must_say() -> None:
    chosen = settings(secret=SECRET, issuer="me", audience="you", default_scope="read,write", default_namespace="shop")
    door = make_authenticator(chosen)
    whole = claims(exp=time.time() + 60, iss="me", aud="you", ortoo=None)
    assert door.admit(signed(whole)).grants == (Grant(("read", "write"), "shop"),)
    for wrong in ("iss", "aud", "exp"):
        with pytest.raises(UnauthenticatedError, match=f"`{wrong}`"):
            door.admit(signed({name: value for name, value in whole.items() if name != wrong}))


def test_a_key_file() -> None:
    Path("keys.pem").write_bytes(pem("RS256") + pem("ES256"))
    door = make_authenticator(settings(key_file="keys.pem"))
    assert door.admit(token_of("ES256")).name == "ann"
    assert door.admit(token_of("RS256")).name == "ann"


def test_a_key_set_in_a_file() -> None:
    Path("jwks.json").write_bytes(jwks(jwk("ES256", "one"), jwk("EdDSA", "two", d="private")))
    door = make_authenticator(settings(jwks="jwks.json", require_expiry="false", leeway_seconds="0"))
    assert door.admit(token_of(exp=None)).expires is None
    assert "key 2 is left out" in door.problems()[0]


async def test_a_key_set_at_a_url() -> None:
    async with providing() as provider:
        provider.body = jwks(jwk("ES256", "one"))
        door = make_authenticator(settings(jwks=provider.url))
        assert "not fetched yet" in door.problems()[0]
        await door.start()
        assert door.admit(token_of()).name == "ann"
        assert door.problems() == []
        await door.stop()


@pytest.mark.parametrize(
    ("auth", "told"),
    [
        ({"secret": "too-short"}, "auth.secret has 9 bytes"),
        ({"key_file": "missing.pem"}, r"missing\.pem cannot be read"),
        ({"key_file": "empty"}, "empty cannot be used: it must have 1 to 4 public keys"),
        ({"jwks": "empty"}, "empty cannot be used: it is not a JSON Web Key Set"),
        ({"jwks": "http://login.example/keys"}, "must begin with https"),
        ({"default_scope": "read", "default_namespace": "a\nb"}, "auth.default_namespace"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(auth: dict[str, str], told: str) -> None:
    Path("empty").touch()
    with pytest.raises(ConfigError, match=told) as caught:
        make_authenticator(settings(**auth))
    assert "too-short" not in str(caught.value)


@pytest.mark.parametrize("name", [FILE, "revoked.json"])
def test_a_damaged_file_keeps_the_server_from_starting(name: str) -> None:
    make_token(Path("data/auth"), "ann", [], None, time.time())
    Path("data/auth", name).write_bytes(b"{")
    with pytest.raises(ConfigError, match="cannot be used"):
        make_authenticator(Settings())


def test_secrets_are_masked_where_settings_are_shown() -> None:
    shown = load_settings(None, {"auth.secret": SECRET}, {}).shown()
    assert {row.name: row.value for row in shown}["auth.secret"] == "********"
    with pytest.raises(ConfigError) as caught:
        load_settings(None, {}, {"ORTOO_AUTH_SECRET": "hush hush"})
    assert "hush" not in str(caught.value)
