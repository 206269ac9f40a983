"""Keys and tokens for the tests: good ones, and ones that no library would make."""

from __future__ import annotations

import base64
import hmac
import json
from functools import cache
from hashlib import sha256
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW = 1_800_000_000.0
SECRET = "a-secret-of-more-than-thirty-two-bytes"
OTHER_SECRET = "another-secret-of-more-than-thirty-two-bytes"
GRANTS = {"grants": [{"namespace": "payments", "scopes": ["read", "write"], "topics": ["orders.*"]}]}

_WRITERS: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}


def private_key(algorithm: str, name: str = "one") -> Any:
    """The same for the same name."""
    return _make(algorithm, name)


@cache
def _make(algorithm: str, name: str) -> Any:
    if algorithm == "RS256":
        return generate_rsa(65537, 2048)
    return generate_private_key(SECP256R1()) if algorithm == "ES256" else Ed25519PrivateKey.generate()


def pem(algorithm: str, name: str = "one") -> bytes:
    public = private_key(algorithm, name).public_key()
    found: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


def jwk(algorithm: str, kid: str | None, name: str = "one", **more: Any) -> dict[str, Any]:
    found = json.loads(_WRITERS[algorithm].to_jwk(private_key(algorithm, name).public_key()))
    return {**found, **({} if kid is None else {"kid": kid}), **more}


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def claims(**more: Any) -> dict[str, Any]:
    """Of a good token; a claim given as None is left out."""
    usual = {"sub": "ann", "exp": NOW + 3600, "jti": "token-1", "ortoo": GRANTS}
    return {name: value for name, value in {**usual, **more}.items() if value is not None}


def signed(
    payload: dict[str, Any] | None = None,
    key: Any = SECRET,
    algorithm: str = "HS256",
    kid: str | None = None,
    **header: Any,
) -> str:
    named = {} if kid is None else {"kid": kid}
    return jwt.encode(claims() if payload is None else payload, key, algorithm, headers={**named, **header})


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def crafted(header: Any, payload: Any, secret: bytes = SECRET.encode()) -> str:
    """Whatever it is, with a good HMAC."""
    body = f"{part(header)}.{part(payload)}"
    return f"{body}.{part(hmac.digest(secret, body.encode(), sha256))}"
