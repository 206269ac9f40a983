"""Are keys that would make forging easy refused when the server starts?"""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from ortoo.auth.keys import KEYS_TRIED_MAX, parse_pem, secret_key
from ortoo.model.errors import ConfigError

from .minting import pem, private_key


def test_a_short_secret_is_refused() -> None:
    assert secret_key(b"x" * 32, "auth.secret").algorithm == "HS256"
    with pytest.raises(ConfigError, match=r"auth.secret has 31 bytes.*openssl rand -hex 32"):
        secret_key(b"x" * 31, "auth.secret")


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_public_key_is_refused_as_a_secret(algorithm: str) -> None:
    with pytest.raises(ConfigError, match=r"auth.secret is a public key.* not a secret"):
        secret_key(pem(algorithm), "auth.secret")


def test_each_key_has_the_algorithm_of_its_type() -> None:
    keys = parse_pem(b"".join(b"# a comment\n" + pem(name) for name in ("RS256", "ES256", "EdDSA")))
    assert [key.algorithm for key in keys] == ["RS256", "ES256", "EdDSA"]


def test_a_private_key_is_refused() -> None:
    data = private_key("ES256").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ConfigError, match=r"private key.*-pubout"):
        parse_pem(pem("ES256") + data)


@pytest.mark.parametrize("bits", [1024, 1536])
def test_a_short_rsa_key_is_refused(bits: int) -> None:
    public = generate_rsa(65537, bits).public_key()
    with pytest.raises(ConfigError, match="2048 to 8192 bits"):
        parse_pem(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def test_another_curve_is_refused() -> None:
    public = generate_private_key(SECP384R1()).public_key()
    with pytest.raises(ConfigError, match="RSA, P-256 or Ed25519"):
        parse_pem(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a key",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        pem("EdDSA") * (KEYS_TRIED_MAX + 1),
    ],
    ids=["empty", "text", "key", "certificate", "many"],
)
def test_what_is_no_key_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        parse_pem(data)
