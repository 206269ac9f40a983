"""Certificates for trying TLS out on one machine: a CA of one's own, a server's certificate and those of clients.

The CA's key lies beside them, unencrypted. That is fine for a laptop and for tests, and for nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ortoo.model.errors import ConfigError, ExistsError, InvalidError, NotFoundError

DAYS_MAX = 3650
_NAME_CHARS_MAX = 64  # of a common name, says X.509
_CLOCK_LEEWAY = timedelta(hours=1)  # for machines whose clock is behind


class Pair:
    """A certificate and its key, in two files."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.certificate = folder / f"{name}.pem"
        self.key = folder / f"{name}-key.pem"

    def exists(self) -> bool:
        return self.certificate.exists() or self.key.exists()


class Authority:
    """The CA, once it is there."""

    def __init__(self, pair: Pair) -> None:
        """ConfigError when its files cannot be used."""
        try:
            self.certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
            key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(
                f"the CA {pair.certificate} with {pair.key} cannot be used: {error}; replace all with --force"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != self.certificate.public_key():
            raise ConfigError(f"{pair.key} is not the key of {pair.certificate}; replace all with --force")
        self.key = key


def make_set(folder: Path, names: Sequence[str], days: int, *, force: bool) -> list[Pair]:
    """A CA, a certificate `server` for those names, and a certificate `client`. ExistsError when any of it is there."""
    made = [Pair(folder, name) for name in ("ca", "server", "client")]
    _check_days(days)
    others = _alternative_names(names)
    if not force:
        _refuse_existing(made)
    folder.mkdir(parents=True, exist_ok=True)
    _make_authority(made[0], days)
    authority = Authority(made[0])
    _make(made[1], authority, names[0], others, ExtendedKeyUsageOID.SERVER_AUTH, days)
    _make(made[2], authority, "client", [], ExtendedKeyUsageOID.CLIENT_AUTH, days)
    return made


def make_client(folder: Path, name: str, days: int, *, force: bool) -> Pair:
    """One more client certificate, of the CA that is there."""
    _check_days(days)
    if not 1 <= len(name) <= _NAME_CHARS_MAX or not all(char.isalnum() or char in "-_.@" for char in name):
        raise InvalidError(f"a client's name is 1 to {_NAME_CHARS_MAX} letters, digits and -_.@, not {name!r}")
    if name in ("ca", "server") or name.startswith(".") or name.endswith("-key"):  # so are other files called
        raise InvalidError(f"{name!r} cannot be the name of a client: choose another")
    pair, ca = Pair(folder, name), Pair(folder, "ca")
    if not ca.exists():
        raise NotFoundError(f"there is no CA in {folder}: make one with `ortoo cert dev --out {folder}`")
    if not force:
        _refuse_existing([pair])
    _make(pair, Authority(ca), name, [], ExtendedKeyUsageOID.CLIENT_AUTH, days)
    return pair


def _check_days(days: int) -> None:
    if not 1 <= days <= DAYS_MAX:
        raise InvalidError(f"days must be 1 to {DAYS_MAX}, not {days}")


def _refuse_existing(pairs: Sequence[Pair]) -> None:
    for pair in pairs:
        if pair.exists():
            raise ExistsError(
                f"{pair.certificate} or {pair.key} exists already: choose another --out, or replace it with --force"
            )


def _alternative_names(names: Sequence[str]) -> list[x509.GeneralName]:
    """InvalidError for what is neither a host name nor an IP address."""
    if not names:
        raise InvalidError("a server's certificate needs a name, such as localhost")
    return [_general_name(name) for name in names]


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass
    if not name.isascii() or not all(char.isalnum() or char in "-.*" for char in name) or not name:
        raise InvalidError(f"{name!r} is neither a host name nor an IP address")
    return x509.DNSName(name)


def _make_authority(pair: Pair, days: int) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("Ortoo development CA")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _builder(name, name, key, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(identifier, critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
    )
    _write(pair, builder.sign(key, hashes.SHA256()), key)


def _make(
    pair: Pair,
    authority: Authority,
    name: str,
    others: Sequence[x509.GeneralName],
    use: x509.ObjectIdentifier,
    days: int,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    builder = _builder(_subject(name[:_NAME_CHARS_MAX]), issuer.subject, key, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
    )
    if others:
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    _write(pair, builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_LEEWAY)
        .not_valid_after(now + timedelta(days=days))
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _replace(pair.key, secret, 0o600)
    _replace(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _replace(path: Path, content: bytes, mode: int) -> None:
    """As a whole, and never readable by more people than it will be."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    draft.replace(path)
