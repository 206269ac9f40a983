"""A token as text: its shape, its header, its signature. Nothing in a header is believed but which of our keys to try.

What could make a verifier do something else than verify is refused before anything is verified: other algorithms, keys that
come along, tokens in tokens, encrypted ones, extensions.

Anybody can send a forged token, so that it must cost little: its length is bounded, no loop in Python goes over its characters,
and what nobody signed is not decoded. PyJWT does both for each key, which is why only its algorithms are used.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from hashlib import sha256

import msgspec
from jwt.algorithms import get_default_algorithms

from ortoo.model.errors import UnauthenticatedError

from .keys import ALGORITHMS, Key

TOKEN_CHARS_MAX = 8 * 1024  # identity providers list groups and roles in theirs
_SIGNATURE_CHARS_MAX = 1368  # of the longest RSA key that is taken
_TYPES = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
_REFUSED = ("crit", "b64", "jwk", "jku", "x5u", "enc", "zip")
_HOW = "get one from whoever runs this server (`ortoo token create`)"

_header_decoder = msgspec.json.Decoder(dict[str, str | int | float | bool | list[str] | None])
_verifiers = {name: found for name, found in get_default_algorithms().items() if name in ALGORITHMS}


class Header(msgspec.Struct, frozen=True):
    algorithm: str
    kid: str | None


def read_header(token: str) -> Header:
    """UnauthenticatedError for whatever is not a plain signed token. The token is not repeated in any error."""
    if len(token) > TOKEN_CHARS_MAX:
        raise UnauthenticatedError(f"the token is longer than {TOKEN_CHARS_MAX} characters; get a shorter one")
    parts = token.split(".")
    if len(parts) == 5:
        raise UnauthenticatedError("the token is encrypted (JWE); this server takes signed ones (JWS)")
    if len(parts) != 3 or not token.isascii():
        raise UnauthenticatedError(f"the token is neither the one of this server nor a JWT; {_HOW}")
    try:
        fields = _header_decoder.decode(_decode(parts[0]))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise UnauthenticatedError(f"the token's header cannot be read; {_HOW}") from None
    return _checked(fields)


def _checked(fields: dict[str, str | int | float | bool | list[str] | None]) -> Header:
    algorithm, kid, kind = fields.get("alg"), fields.get("kid"), fields.get("typ", "JWT")
    for name in _REFUSED:
        if name in fields:
            raise UnauthenticatedError(
                f"the token's header has {name!r}, which this server does not take; leave it out"
            )
    if "cty" in fields:
        raise UnauthenticatedError("the token has another one in it; present the inner one, signed by itself")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise UnauthenticatedError(f"the token must be signed with {', '.join(ALGORITHMS[:-1])} or {ALGORITHMS[-1]}")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise UnauthenticatedError("the token's typ must be JWT or at+jwt: it was made for another purpose")
    if kid is not None and not isinstance(kid, str):
        raise UnauthenticatedError("the token's kid must be a text")
    return Header(algorithm, kid)


def verify(token: str, header: Header, keys: Sequence[Key]) -> tuple[Key, bytes] | None:
    """The key that signed it, and its payload; None when none of these did."""
    signed, _, encoded = token.rpartition(".")
    if len(encoded) > _SIGNATURE_CHARS_MAX:
        return None
    try:
        signature = _decode(encoded)
    except ValueError:
        return None
    data, verifier = signed.encode(), _verifiers[header.algorithm]
    for key in keys:
        if key.algorithm == header.algorithm and verifier.verify(data, key.material, signature):
            return key, _payload(token)
    return None


def payload_of(token: str) -> bytes:
    """Without a look at the signature: for people who want to see what a token says."""
    read_header(token)
    return _payload(token)


def _payload(token: str) -> bytes:
    try:
        return _decode(token.split(".")[1])
    except ValueError:
        raise UnauthenticatedError("the token's payload is not base64url") from None


def _decode(text: str) -> bytes:
    """ValueError unless this is the one way to write these bytes, or that with padding, which some issuers add. To write them
    again and compare finds all that is not of the alphabet, too, and much faster than a look at each character."""
    bare = text.rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    found = base64.urlsafe_b64decode(padded)
    if text not in (bare, padded) or base64.urlsafe_b64encode(found).decode() != padded:
        raise ValueError("not base64url")
    return found


def digest_of(token: str) -> str:
    """The id of a token without one. Of what was signed: some algorithms have several signatures for the same."""
    return "sha256-" + sha256(token.rpartition(".")[0].encode()).hexdigest()[:32]
