"""What a token says, once its signature is known to be good, and the principal that it makes.

Registered claims are those of RFC 7519. Ours are in one claim:

    "ortoo": {"grants": [{"namespace": "payments", "scopes": ["read", "write"], "topics": ["orders.*"]}]}
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from ortoo.model.access import ANY, CERTIFICATE_PREFIX, Grant, Principal, make_grant
from ortoo.model.errors import InvalidError, UnauthenticatedError
from ortoo.model.limits import GRANTS_MAX
from ortoo.model.names import DEFAULT_NAMESPACE, check_name
from ortoo.model.validation import in_words

from .keys import Key

CLAIM = "ortoo"
INSTANT_MAX = 253_402_300_799.0  # the end of the year 9999: what is later was meant in other units

T = TypeVar("T")


class ClaimRules(msgspec.Struct, frozen=True):
    """What is asked of tokens that others signed; the lifetime and the grants of our own were decided when they were made."""

    issuer: str | None = None
    audience: str | None = None
    require_expiry: bool = True
    leeway_seconds: float = 30.0
    default_grants: tuple[Grant, ...] = ()  # of a token without our claim


class GrantClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    scopes: tuple[str, ...]
    namespace: str = DEFAULT_NAMESPACE
    topics: tuple[str, ...] = (ANY,)


class OurClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    grants: tuple[GrantClaim, ...]


class Claims:
    """The claims by name; each is looked at when it is asked for, and one of a wrong type is named."""

    def __init__(self, payload: bytes) -> None:
        try:
            self._raw = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise UnauthenticatedError("the token's claims are not a JSON object, or a nested too deeply one") from None

    def __contains__(self, name: str) -> bool:
        return name in self._raw

    def get(self, name: str, kind: type[T], words: str) -> T | None:
        """None when it is not there. `words` say what it should be."""
        if name not in self._raw:
            return None
        try:
            return msgspec.json.decode(self._raw[name], type=kind)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            detail = f" ({in_words(error)})" if isinstance(error, msgspec.ValidationError) else ""
            raise _wrong(name, f"it must be {words}{detail}") from None

    def text(self, name: str) -> str | None:
        found = self.get(name, str, "a text")
        try:
            return None if found is None else check_name("it", found)
        except InvalidError as error:
            raise _wrong(name, str(error)) from None

    def instant(self, name: str) -> float | None:
        found = self.get(name, float, "a number of seconds since 1970")
        if found is not None and not 0 <= found <= INSTANT_MAX:
            raise _wrong(name, "it must be a number of seconds since 1970")
        return found

    def texts(self, name: str) -> list[str]:
        found: Any = self.get(name, str | list[str], "a text, or a list of texts")  # type: ignore[arg-type]
        return [found] if isinstance(found, str) else found or []


def to_principal(claims: Claims, key: Key, rules: ClaimRules, spare_id: str, now: float) -> Principal:
    """UnauthenticatedError when the token is not for this server or not for now, or says something that makes no sense."""
    expires = _check_times(claims, key, rules, now)
    if not key.is_own:
        _check_addressee(claims, rules)
    name = claims.text("sub")
    if name is None:
        raise UnauthenticatedError("the token has no claim `sub`: it must say whose it is")
    if name.startswith(CERTIFICATE_PREFIX):
        raise UnauthenticatedError(
            f"names that begin with {CERTIFICATE_PREFIX} are for certificates: get a token with another"
        )
    signer = key.id if key.is_own else None
    return Principal(name, read_grants(claims, rules), expires, claims.text("jti") or spare_id, signer)


def _check_times(claims: Claims, key: Key, rules: ClaimRules, now: float) -> float | None:
    """When it ends. `exp` and the key are not looked at here: whoever holds the principal does, now and later."""
    for name in ("nbf", "iat"):
        begins = claims.instant(name)
        if begins is not None and begins > now + rules.leeway_seconds:
            raise UnauthenticatedError(
                f"the token is not valid before {instant_text(begins)} (`{name}`); wait, or set the clocks right"
            )
    ends = claims.instant("exp")
    if ends is None and rules.require_expiry and not key.is_own:
        raise UnauthenticatedError("the token has no claim `exp`: this server takes only tokens that expire")
    limits = [key.until, None if ends is None else ends + rules.leeway_seconds]
    return min((limit for limit in limits if limit is not None), default=None)


def _check_addressee(claims: Claims, rules: ClaimRules) -> None:
    if rules.issuer is not None and claims.text("iss") != rules.issuer:
        raise UnauthenticatedError("the token's issuer (`iss`) is not the one that this server trusts (auth.issuer)")
    audiences = claims.texts("aud")
    if rules.audience is not None and rules.audience not in audiences:
        raise UnauthenticatedError("the token's audience (`aud`) is not this server: ask for one for its auth.audience")
    if rules.audience is None and audiences:
        raise UnauthenticatedError("the token is for somebody else (`aud`): set auth.audience if that is this server")


def read_grants(claims: Claims, rules: ClaimRules) -> tuple[Grant, ...]:
    ours = claims.get(CLAIM, OurClaim, '{"grants": [...]}')
    if ours is None:
        return rules.default_grants
    if len(ours.grants) > GRANTS_MAX:
        raise _wrong(CLAIM, f"it has {len(ours.grants)} grants, and at most {GRANTS_MAX} are taken")
    try:
        return tuple(make_grant(grant.scopes, grant.namespace, grant.topics) for grant in ours.grants)
    except InvalidError as error:
        raise _wrong(CLAIM, str(error)) from None


def instant_text(seconds: float) -> str:
    return datetime.fromtimestamp(min(seconds, INSTANT_MAX), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _wrong(name: str, why: str) -> UnauthenticatedError:
    return UnauthenticatedError(f"the token's claim `{name}` is wrong: {why}; have it made anew")
