"""Keys that verify tokens. Each belongs to one algorithm, that of its type, whatever a token says: a public key is never taken
for the secret of an HMAC.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate
from jwt import PyJWK, PyJWTError
from jwt.algorithms import HMACAlgorithm

from ortoo.model.errors import ConfigError
from ortoo.model.limits import NAME_BYTES_MAX

ALGORITHMS = ("HS256", "RS256", "ES256", "EdDSA")
SECRET_BYTES_MIN = 32
KEYS_MAX = 100  # in one file or set
KEYS_TRIED_MAX = (
    4  # for a token that does not name its key: each costs a verification, and anybody can send such a token
)
_RSA_BITS_MIN, _RSA_BITS_MAX = 2048, 8192
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")
_hmac = HMACAlgorithm(HMACAlgorithm.SHA256)
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


class Key(msgspec.Struct, frozen=True, eq=False):
    algorithm: str
    material: Any  # bytes of a secret, or a public key
    id: str | None = None
    is_own: bool = False  # made by `ortoo token`: its tokens are ours
    until: float | None = None  # when it ceases to verify


def find_keys(keys: Sequence[Key], algorithm: str, kid: str | None, now: float) -> list[Key]:
    """Those that may have signed a token. Whoever names a key is held to it, unless the others have no names."""
    usable = [key for key in keys if key.algorithm == algorithm and (key.until is None or now < key.until)]
    if kid is not None:
        return [key for key in usable if key.id == kid] or [key for key in usable if key.id is None][:KEYS_TRIED_MAX]
    return [key for key in usable if not key.is_own][:KEYS_TRIED_MAX]  # ours are always named


def secret_key(secret: bytes, what: str, kid: str | None = None) -> Key:
    if len(secret) < SECRET_BYTES_MIN:
        raise ConfigError(
            f"{what} has {len(secret)} bytes, and whoever has a token could find it out by trying: use at least "
            f"{SECRET_BYTES_MIN}, for example from `openssl rand -hex 32`"
        )
    try:
        _hmac.prepare_key(secret)
    except PyJWTError:
        raise ConfigError(f"{what} is a public key, a certificate or a JSON Web Key, and not a secret") from None
    return Key("HS256", secret, kid)


def public_key(material: object, kid: str | None = None) -> Key:
    """ConfigError when it is of a type, or of a size, that is not taken."""
    if isinstance(material, RSAPublicKey):
        if not _RSA_BITS_MIN <= material.key_size <= _RSA_BITS_MAX:
            raise ConfigError(f"an RSA key has {_RSA_BITS_MIN} to {_RSA_BITS_MAX} bits, not {material.key_size}")
        return Key("RS256", material, kid)
    if isinstance(material, EllipticCurvePublicKey) and isinstance(material.curve, SECP256R1):
        return Key("ES256", material, kid)
    if isinstance(material, Ed25519PublicKey):
        return Key("EdDSA", material, kid)
    raise ConfigError("a public key is RSA, P-256 or Ed25519")


def parse_pem(data: bytes) -> tuple[Key, ...]:
    """Public keys, or certificates, one after the other."""
    blocks = list(_PEM.finditer(data))
    if not 1 <= len(blocks) <= KEYS_TRIED_MAX:
        raise ConfigError(
            f"it must have 1 to {KEYS_TRIED_MAX} public keys in PEM, and has {len(blocks)}; a key set (auth.jwks) takes more"
        )
    return tuple(_pem_key(block[0], block[1].decode()) for block in blocks)


def _pem_key(block: bytes, kind: str) -> Key:
    if "PRIVATE" in kind:
        raise ConfigError(
            "it has a private key, which the server must not have: give the public one (`openssl pkey -pubout`)"
        )
    try:
        if kind == "CERTIFICATE":
            return public_key(load_pem_x509_certificate(block).public_key())
        return public_key(load_pem_public_key(block))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{kind.lower()}: {error}") from None


# -- sets of keys (RFC 7517)


class KeySet(msgspec.Struct, frozen=True, eq=False):
    keys: tuple[Key, ...]
    skipped: tuple[str, ...] = ()  # which were left out, and why


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


def parse_jwks(data: bytes, with_secrets: bool) -> KeySet:
    """ConfigError when no key can be used; one that cannot is left out. `with_secrets`: keys of type `oct` are taken."""
    try:
        found = msgspec.json.decode(data, type=_Document).keys
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise ConfigError("it is not a JSON Web Key Set, {'keys': [...]}") from None
    if len(found) > KEYS_MAX:
        raise ConfigError(f"it has {len(found)} keys, and at most {KEYS_MAX} are taken")
    keys: list[Key] = []
    skipped: list[str] = []
    for number, jwk in enumerate(found, start=1):
        if jwk.get("use", "sig") != "sig":
            continue  # for encryption: no business of ours
        try:
            keys.append(_jwk_key(jwk, with_secrets))
        except ConfigError as error:
            skipped.append(f"key {number} is left out: {error}")
    if not keys:
        raise ConfigError("; ".join(["it has no key that can verify a token", *skipped[:3]]))
    return KeySet(tuple(keys), tuple(skipped))


def _jwk_key(jwk: dict[str, Any], with_secrets: bool) -> Key:
    kid, kind = jwk.get("kid"), jwk.get("kty")
    if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= NAME_BYTES_MAX):
        raise ConfigError(f"its kid must be a text of 1 to {NAME_BYTES_MAX} characters")
    if kind == "oct":
        if not with_secrets:
            raise ConfigError("a secret that others can read is none; only a file may have keys of type oct")
        key = secret_key(_bytes_of(jwk.get("k")), "the key", kid)
    elif "d" in jwk:
        raise ConfigError("it is a private key; publish the public one")
    else:
        key = public_key(_material(jwk), kid)
    if jwk.get("alg", key.algorithm) != key.algorithm:
        raise ConfigError(f"its algorithm is none of {', '.join(ALGORITHMS)}, or not that of its type")
    uses = jwk.get("key_ops", ["verify"])
    if not isinstance(uses, list) or "verify" not in uses:
        raise ConfigError("its key_ops do not have verify")
    return key


def _material(jwk: dict[str, Any]) -> object:
    try:
        return PyJWK({name: jwk[name] for name in _PUBLIC if isinstance(jwk.get(name), str)}).key
    except (PyJWTError, ValueError, UnsupportedAlgorithm):
        raise ConfigError("it cannot be read; a key is RSA, P-256 or Ed25519") from None


def _bytes_of(text: object) -> bytes:
    if not isinstance(text, str) or not re.fullmatch(r"[A-Za-z0-9_-]*", text):
        raise ConfigError("its k must be base64url")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise ConfigError("its k must be base64url") from None
