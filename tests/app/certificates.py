"""A certificate for 127.0.0.1 that vouches for itself, and a CA that signs whatever a test needs."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import ortoo
from ortoo.app.dev_certificates import Authority, Pair, make_set
from ortoo.model.settings import TlsSettings


def make_certificate(folder: Path) -> TlsSettings:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return TlsSettings(certificate=str(paths[0]), key=str(paths[1]))


ClientAuth = Literal["none", "optional", "required"]


class Pki:
    """A CA in a folder of its own, with `server` for 127.0.0.1 and localhost, and `client`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        made = make_set(folder, ["127.0.0.1", "localhost"], 365, force=False)
        self.ca, self.server, self.client = made
        self._authority = Authority(self.ca)

    def settings(self, client_auth: ClientAuth | None = None, server: Pair | None = None) -> TlsSettings:
        """With `client_auth`, clients are asked for certificates of this CA."""
        pair = server or self.server
        ca = None if client_auth is None else str(self.ca.certificate)
        return TlsSettings(str(pair.certificate), str(pair.key), ca, client_auth)

    def tls(self, pair: Pair | None = None) -> ortoo.Tls:
        """What a client uses: it trusts the CA, and shows a certificate if it is given one."""
        if pair is None:
            return ortoo.Tls(self.ca.certificate)
        return ortoo.Tls(self.ca.certificate, pair.certificate, pair.key)

    def make(
        self,
        name: str,
        *names: x509.GeneralName,
        days: tuple[float, float] = (-1, 365),
        use: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
        common_names: tuple[str, ...] | None = None,
    ) -> Pair:
        """Valid from the one day to the other, counted from now."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        common = [x509.NameAttribute(NameOID.COMMON_NAME, each) for each in common_names or (name,)]
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(common))
            .issuer_name(self._authority.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=days[0]))
            .not_valid_after(now + timedelta(days=days[1]))
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        pair = Pair(self.folder, name)
        _write(pair, builder.sign(self._authority.key, hashes.SHA256()), key)
        return pair

    def make_server(self, name: str, days: tuple[float, float] = (-1, 365)) -> Pair:
        return self.make(name, x509.IPAddress(ip_address("127.0.0.1")), days=days)

    def make_client(self, name: str, *names: x509.GeneralName, days: tuple[float, float] = (-1, 365)) -> Pair:
        return self.make(name, *names, days=days, use=ExtendedKeyUsageOID.CLIENT_AUTH)


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
