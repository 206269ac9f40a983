"""Is a good token taken for what it says, and is every other one refused with a word that helps?"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortoo.auth import HOLDER, Authenticator, ClaimRules
from ortoo.auth.authenticator import REMEMBERED_MAX
from ortoo.auth.jws import TOKEN_CHARS_MAX
from ortoo.auth.keys import KEYS_TRIED_MAX, Key, parse_pem, secret_key
from ortoo.model.access import ANYONE, Grant, Principal
from ortoo.model.errors import UnauthenticatedError
from ortoo.model.limits import GRANTS_MAX, PATTERNS_MAX
from ortoo.model.names import TopicName

from .conftest import Clock, may_stay
from .minting import GRANTS, NOW, OTHER_SECRET, SECRET, claims, crafted, part, pem, private_key, signed

HS256 = {"alg": "HS256", "typ": "JWT"}


def authenticator(
    clock: Callable[[], float] = lambda: NOW, token: str | None = None, keys: list[Key] | None = None, **rules: Any
) -> Authenticator:
    trusted = [secret_key(SECRET.encode(), "the secret")] if keys is None else keys
    return Authenticator(token, keys=trusted, rules=ClaimRules(**rules), now=clock)


def refusal(token: str | None, door: Authenticator | None = None) -> str:
    with pytest.raises(UnauthenticatedError) as caught:
        (door or authenticator()).admit(token)
    return str(caught.value)


# -- the single token


def test_without_anything_to_check_everybody_may_do_everything() -> None:
    door = Authenticator()
    assert not door.needs_token
    assert door.admit(None) == door.admit("whatever") == ANYONE
    assert ANYONE.is_unlimited
    assert may_stay(door, ANYONE)


def test_the_single_token_may_do_everything_and_any_other_nothing() -> None:
    door = Authenticator("s3cret")
    assert door.needs_token
    assert door.admit("s3cret") == HOLDER
    assert HOLDER.is_unlimited
    assert "set ORTOO_TOKEN" in refusal(None, door)
    for wrong in ("", "s3cre", "s3cret ", "S3cret", "s3crét", "\ud800", signed()):
        assert "not the one of this server" in refusal(wrong, door)


def test_the_single_token_and_signed_ones_work_beside_each_other() -> None:
    door = authenticator(token="s3cret")
    assert door.admit("s3cret") == HOLDER
    assert door.admit(signed()).name == "ann"


# -- good ones


def test_a_token_says_who_it_is_and_what_it_may_do() -> None:
    principal = authenticator().admit(signed())
    assert principal == Principal(
        "ann", (Grant(("read", "write"), "payments", ("orders.*",)),), NOW + 3600 + 30, "token-1"
    )
    assert principal.allows("write", TopicName("payments", "orders.new"))
    assert not principal.allows("write", TopicName("payments", "refunds"))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_every_kind_of_public_key_verifies_what_its_private_key_signed(algorithm: str) -> None:
    door = authenticator(keys=list(parse_pem(pem(algorithm))))
    good = signed(key=private_key(algorithm), algorithm=algorithm)
    assert door.admit(good).name == "ann"
    assert "signature is wrong" in refusal(signed(key=private_key(algorithm, "thief"), algorithm=algorithm), door)


def test_of_several_keys_without_names_each_is_tried() -> None:
    door = authenticator(keys=list(parse_pem(pem("ES256", "a") + pem("RS256", "b") + pem("ES256", "c"))))
    for algorithm, name in (("ES256", "a"), ("RS256", "b"), ("ES256", "c")):
        assert door.admit(signed(key=private_key(algorithm, name), algorithm=algorithm, kid="x")).name == "ann"


def test_a_token_without_our_claim_gets_what_the_server_gives_by_default() -> None:
    plain = signed(claims(ortoo=None))
    assert authenticator().admit(plain).grants == ()
    grant = Grant(("read",), "default")
    assert authenticator(default_grants=(grant,)).admit(plain).grants == (grant,)


def test_our_claim_replaces_the_default_even_when_it_grants_nothing() -> None:
    door = authenticator(default_grants=(Grant(("admin",), "*"),))
    assert door.admit(signed(claims(ortoo={"grants": []}))).grants == ()


def test_a_token_without_an_id_has_one_that_does_not_depend_on_its_signature() -> None:
    door = authenticator(keys=list(parse_pem(pem("ES256"))))
    token = signed(claims(jti=None), private_key("ES256"), "ES256")
    body = token.rpartition(".")[0]
    again = signed(claims(jti=None), private_key("ES256"), "ES256")  # another signature of the same
    assert again != token
    assert again.rpartition(".")[0] == body
    assert door.admit(token).token == door.admit(again).token
    assert str(door.admit(token).token).startswith("sha256-")


# -- time


def test_a_token_is_good_until_it_expires_and_a_little_longer(clock: Clock) -> None:
    door = authenticator(clock)
    principal = door.admit(signed())
    clock.now = NOW + 3600 + 29
    assert door.admit(signed()) == principal
    assert may_stay(door, principal)
    clock.now = NOW + 3600 + 30
    assert "expired at 2027-01-15T09:00:30Z" in refusal(signed(), door)
    assert not may_stay(door, principal)
    assert "expired" in refusal(signed(), authenticator(clock))  # also when it was never seen before


def test_a_token_is_refused_before_its_time(clock: Clock) -> None:
    for name in ("nbf", "iat"):
        clock.now = NOW
        door, early = authenticator(clock), signed(claims(**{name: NOW + 60}))
        assert f"not valid before 2027-01-15T08:01:00Z (`{name}`)" in refusal(early, door)
        clock.now = NOW + 30
        assert door.admit(early).name == "ann"


def test_a_token_that_never_expires_is_refused_unless_that_is_allowed() -> None:
    endless = signed(claims(exp=None))
    assert "no claim `exp`" in refusal(endless)
    assert authenticator(require_expiry=False).admit(endless).expires is None


@pytest.mark.parametrize("exp", [1e300, 253_402_300_800, -1, True, "1900000000", [1], {}, 2**80])
def test_a_time_that_is_none_is_refused(exp: Any) -> None:
    for name in ("exp", "nbf", "iat"):
        assert f"`{name}` is wrong" in refusal(signed(claims(**{name: exp})) if name == "iat" else _with(name, exp))


def _with(name: str, value: Any) -> str:
    return crafted(HS256, {**claims(), name: value})


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"1e999"])
def test_a_number_that_json_does_not_have_is_refused(text: bytes) -> None:
    refusal(crafted(HS256, b'{"sub": "ann", "exp": %s}' % text))


# -- for whom


def test_the_issuer_must_be_the_one_that_is_trusted() -> None:
    door = authenticator(issuer="https://login.example")
    assert door.admit(signed(claims(iss="https://login.example"))).name == "ann"
    for wrong in (None, "https://login.example/", "https://evil.example"):
        assert "`iss`" in refusal(signed(claims(iss=wrong)), door)


def test_the_audience_must_be_this_server() -> None:
    door = authenticator(audience="ortoo")
    for good in ("ortoo", ["other", "ortoo"]):
        assert door.admit(signed(claims(aud=good))).name == "ann"
    for wrong in (None, "other", [], ["other"], "ortoo2"):
        assert "`aud`" in refusal(signed(claims(aud=wrong)), door)
    assert "`aud`" in refusal(signed(claims(aud="other")))  # a server that has no name is nobody's audience


# -- forged


def test_a_token_that_somebody_else_signed_is_refused() -> None:
    assert "signature is wrong" in refusal(signed(key=OTHER_SECRET))


def test_a_token_that_was_changed_is_refused() -> None:
    head, _, signature = signed().split(".")
    assert "signature is wrong" in refusal(f"{head}.{part(claims(sub='root'))}.{signature}")
    assert "signature is wrong" in refusal(f"{head}.{part(claims())}.")


@pytest.mark.parametrize(
    "alg", ["none", "None", "NONE", "", "HS512", "RS512", "PS256", "ES384", "hs256", None, 1, ["HS256"]]
)
def test_no_other_algorithm_is_taken(alg: Any) -> None:
    told = "must be signed with HS256, RS256, ES256 or EdDSA"
    assert told in refusal(crafted({"alg": alg, "typ": "JWT"}, claims()))
    assert told in refusal(f"{part({'alg': alg})}.{part(claims())}.")
    assert told in refusal(crafted({"typ": "JWT"}, claims()))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_public_key_is_never_the_secret_of_an_hmac(algorithm: str) -> None:
    """Key confusion: everybody has the public key, and could sign with it."""
    public = pem(algorithm)
    door = authenticator(keys=list(parse_pem(public)))
    for secret in (public, public.strip(), public.replace(b"\n", b"\r\n")):
        assert "key that signed the token is not known" in refusal(crafted(HS256, claims(), secret), door)
        # Nor is an HMAC taken for a signature, when the header claims that it is one.
        assert "signature is wrong" in refusal(crafted({"alg": algorithm}, claims(), secret), door)


def test_a_secret_never_verifies_what_claims_to_be_signed_with_a_public_key() -> None:
    assert "not known" in refusal(crafted({"alg": "RS256"}, claims()))


@pytest.mark.parametrize("name", ["crit", "b64", "jwk", "jku", "x5u", "enc", "zip"])
def test_a_header_that_asks_for_more_than_a_signature_is_refused(name: str) -> None:
    for value in ("https://evil.example/keys", ["exp"], False):
        assert f"{name!r}" in refusal(crafted({**HS256, name: value}, claims()))


def test_a_key_that_comes_along_is_not_used() -> None:
    from .minting import jwk

    stolen = signed(key=private_key("ES256", "thief"), algorithm="ES256", jwk=jwk("ES256", None, "thief"))
    refusal(stolen, authenticator(keys=list(parse_pem(pem("ES256")))))


def test_a_token_in_a_token_is_refused() -> None:
    assert "another one in it" in refusal(crafted({**HS256, "cty": "JWT"}, signed().encode()))


def test_an_encrypted_token_is_refused() -> None:
    assert "encrypted" in refusal("eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ.a.b.c.d")


@pytest.mark.parametrize("kind", ["logout+jwt", "dpop+jwt", "", 1])
def test_a_token_for_another_purpose_is_refused(kind: Any) -> None:
    assert "another purpose" in refusal(crafted({**HS256, "typ": kind}, claims()))
    assert authenticator().admit(crafted({**HS256, "typ": "at+JWT"}, claims())).name == "ann"
    assert authenticator().admit(crafted({"alg": "HS256"}, claims())).name == "ann"


def test_a_token_that_is_too_long_is_refused_before_anything_is_read() -> None:
    token = signed(claims(padding="x" * TOKEN_CHARS_MAX))
    assert "longer than 8192 characters" in refusal(token)
    assert "longer than 8192 characters" in refusal("x" * 10_000_000)


@pytest.mark.parametrize(
    "forged",
    [
        lambda size: f"{part(HS256)}.{part(b' ' * size)}.{part(b'x' * 32)}",
        lambda size: f"{part(HS256)}.{part(b'{}')}.{part(b'x' * max(size, 32))}",
        lambda size: f"{part({**HS256, 'x': 'y' * size})}.{part(b'{}')}.{part(b'x' * 32)}",
    ],
    ids=["payload", "signature", "header"],
)
def test_a_forged_token_costs_no_more_steps_for_being_long(forged: Callable[[int], str]) -> None:
    """Anybody can send one, and the event loop stands still meanwhile."""
    door = authenticator()
    assert _steps(lambda: refusal(forged(5000), door)) <= _steps(lambda: refusal(forged(0), door))


def test_a_forged_token_is_read_once_for_all_keys() -> None:
    def steps(count: int) -> int:
        door = authenticator(keys=[*parse_pem(pem("EdDSA"))] * count)
        return _steps(lambda: refusal(f"{part({'alg': 'EdDSA'})}.{part(b' ' * 5000)}.{part(b'x' * 64)}", door))

    assert steps(KEYS_TRIED_MAX) - steps(1) < 10 * KEYS_TRIED_MAX


def _steps(what: Callable[[], object]) -> int:
    """How many functions are entered, resumed generators included."""
    steps = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal steps
        steps += event == "call"

    what()  # once before: what happens only the first time is not counted
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        what()
    finally:
        sys.setprofile(before)
    return steps


def test_of_many_keys_a_token_that_names_none_gets_only_some_tried() -> None:
    keys = [Key("EdDSA", private_key("EdDSA", str(n)).public_key(), f"key-{n}") for n in range(KEYS_TRIED_MAX + 1)]
    door, last = authenticator(keys=keys), private_key("EdDSA", str(KEYS_TRIED_MAX))
    assert "signature is wrong" in refusal(signed(key=last, algorithm="EdDSA"), door)
    assert door.admit(signed(key=last, algorithm="EdDSA", kid=f"key-{KEYS_TRIED_MAX}")).name == "ann"


def test_a_part_that_could_be_written_otherwise_is_refused() -> None:
    head, body, signature = signed().split(".")
    bits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = signature[:-1] + bits[bits.index(signature[-1]) ^ 1]  # the same bytes: its last bits count for nothing
    for wrong in (other, signature + "==", signature + "\n", f" {signature}", signature + "=====", signature + "!"):
        assert "signature is wrong" in refusal(f"{head}.{body}.{wrong}")
    assert authenticator().admit(f"{head}.{body}.{signature}=").name == "ann"  # as some issuers do


def test_a_signed_payload_that_is_not_base64url_is_refused() -> None:
    body = f"{part(HS256)}.{part(claims())}!"
    signature = part(hmac.digest(SECRET.encode(), body.encode(), "sha256"))
    assert "payload is not base64url" in refusal(f"{body}.{signature}")


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    deep = b"[" * 2900 + b"]" * 2900
    assert "nested too deeply" in refusal(crafted(HS256, b'{"sub": "ann", "x": %s}' % deep))
    assert "header cannot be read" in refusal(crafted(b'{"alg": "HS256", "x": %s}' % deep, {}))
    assert "header cannot be read" in refusal(crafted({**HS256, "x": {"a": 1}}, {}))


@pytest.mark.parametrize("payload", [b"", b"[]", b'"ann"', b"null", b"{", b"\xff", b"\x00", b'{"sub": "\xff"}'])
def test_claims_that_are_not_an_object_are_refused(payload: bytes) -> None:
    refusal(crafted(HS256, payload))


# -- claims of ours


def test_a_token_must_say_whose_it_is() -> None:
    assert "no claim `sub`" in refusal(signed(claims(sub=None)))
    wrong: list[Any] = ["", "a\nb", "x" * 256, 1, True, None, ["ann"], {}]
    for value in wrong:
        assert "`sub` is wrong" in refusal(crafted(HS256, {**claims(), "sub": value}))
        assert "`jti` is wrong" in refusal(crafted(HS256, {**claims(), "jti": value}))


@pytest.mark.parametrize(
    "ours",
    [
        None,
        [],
        "admin",
        {},
        {"grants": {}},
        {"grants": ["read"]},
        {"grants": [{}]},
        {"grants": [{"scopes": "read"}]},
        {"grants": [{"scopes": []}]},
        {"grants": [{"scopes": ["root"]}]},
        {"grants": [{"scopes": [1]}]},
        {"grants": [{"scopes": ["read"], "namespace": ""}]},
        {"grants": [{"scopes": ["read"], "namespace": None}]},
        {"grants": [{"scopes": ["read"], "topics": []}]},
        {"grants": [{"scopes": ["read"], "topics": "*"}]},
        {"grants": [{"scopes": ["read"], "topics": [""]}]},
        {"grants": [{"scopes": ["read"], "topics": ["*"] * (PATTERNS_MAX + 1)}]},
        {"grants": [{"scopes": ["read"], "topic": ["orders"]}]},  # misspelt, it would mean all topics
        {"grants": [{"scopes": ["read"]}], "admin": True},
        {"grants": [{"scopes": ["read"]}] * (GRANTS_MAX + 1)},
    ],
)
def test_grants_that_make_no_sense_are_refused(ours: Any) -> None:
    assert "`ortoo` is wrong" in refusal(crafted(HS256, {**claims(), "ortoo": ours}))


# -- what is remembered


def test_a_token_is_verified_once_and_kept_by_its_digest_only() -> None:
    door, token = authenticator(), signed()
    assert door.admit(token) is door.admit(token)
    assert token not in repr(vars(door))


def test_what_is_remembered_is_bounded() -> None:
    door = authenticator()
    first = door.admit(signed(claims(jti="first")))
    for number in range(REMEMBERED_MAX):
        door.admit(signed(claims(jti=str(number))))
    assert len(door._verified) == REMEMBERED_MAX
    assert door.admit(signed(claims(jti="first"))) is not first


# -- garbage

_PIECE = st.one_of(st.text(max_size=40), st.binary(max_size=60).map(part))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _refused_or_let_in(token: str) -> None:
    """Nothing but an UnauthenticatedError may come out, and the token may not stand in it."""
    told = ""
    try:
        authenticator().admit(token)
    except UnauthenticatedError as error:
        told = str(error)
    assert token not in told


@given(st.text())
def test_any_text_is_refused(text: str) -> None:
    assert text not in refusal(text) or len(text) < 8


@given(st.lists(_PIECE, min_size=2, max_size=5).map(".".join))
def test_anything_with_dots_is_refused(text: str) -> None:
    refusal(text)


@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "cty", "crit", "jwk", "x"]), _JSON), st.booleans())
def test_any_header_is_refused_or_understood(header: dict[str, Any], is_signed: bool) -> None:
    whole = {**header, "alg": "HS256"} if is_signed else header
    _refused_or_let_in(crafted(whole, claims()))


@given(st.dictionaries(st.sampled_from(["sub", "exp", "nbf", "iat", "jti", "iss", "aud", "ortoo", "x"]), _JSON))
def test_any_claims_are_refused_or_understood(payload: dict[str, Any]) -> None:
    _refused_or_let_in(crafted(HS256, {**claims(), **payload}))


@given(_JSON)
def test_any_grants_are_refused_or_understood(grants: Any) -> None:
    _refused_or_let_in(crafted(HS256, {**claims(), "ortoo": {"grants": [grants, *GRANTS["grants"]]}}))
