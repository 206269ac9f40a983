"""TLS as a client needs it: whom to trust, what to show, and what went wrong, in words that say what to set."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from ortoo.model.errors import ConfigError, InvalidError

CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE = "ORTOO_TLS_CA", "ORTOO_TLS_CERTIFICATE", "ORTOO_TLS_KEY"

_SET_CA = f"tls=, {CA_VARIABLE} or --tls-ca"
_SET_CERTIFICATE = (
    f"tls=ortoo.Tls(certificate=..., key=...), {CERTIFICATE_VARIABLE} and {KEY_VARIABLE}, "
    "or --tls-certificate and --tls-key"
)
# What OpenSSL calls what it found wrong with the certificate of a server.
_NOT_YET_VALID, _EXPIRED, _OTHER_NAMES = 9, 10, (62, 64)
# What servers say of the certificate of a client.
_REFUSED = {
    "TLSV1_ALERT_UNKNOWN_CA": "its issuer is unknown there",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired, or its issuer has",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it was revoked",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it is not for clients",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it is not valid",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it cannot be checked",
    "TLSV1_ALERT_DECRYPT_ERROR": "its signature is wrong",
    "TLSV1_ALERT_ACCESS_DENIED": "it opens nothing there",
}
# What plain text looks like to somebody who expects TLS.
_PLAIN = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")


class Tls(msgspec.Struct, frozen=True):
    """PEM files for `ortoos://`. What is not given comes from the environment, or is the default of the system.

    `ca`: the CA to trust. `certificate` and `key`: for a server that asks clients for a certificate; the key may also be
    in the file of the certificate.
    """

    ca: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None


TlsOption = Tls | ssl.SSLContext | str | Path | None


def client_context(tls: TlsOption, environ: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """ConfigError when a file cannot be used."""
    return tls if isinstance(tls, ssl.SSLContext) else _load(to_files(tls, environ))


class Contexts:
    """The context for each connection: files that have changed are read again, so that a renewed certificate is shown."""

    def __init__(self, tls: TlsOption) -> None:
        """ConfigError when a file cannot be used."""
        self._files = Tls() if isinstance(tls, ssl.SSLContext) else to_files(tls, os.environ)
        self._stamp = _stamp(self._files)  # first: what changes while it is read is read again
        self._context = tls if isinstance(tls, ssl.SSLContext) else _load(self._files)

    def __call__(self) -> ssl.SSLContext:
        found = _stamp(self._files)
        if found != self._stamp:
            with suppress(ConfigError):  # half of a renewal: what was there goes on, and is looked at next time
                self._context, self._stamp = _load(self._files), found
        return self._context


def _stamp(files: Tls) -> list[tuple[int, int, int] | None]:
    return [None if file is None else _stamp_of(Path(file)) for file in (files.ca, files.certificate, files.key)]


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _load(given: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if given.ca is None else str(given.ca))
    except OSError as error:
        raise ConfigError(
            f"{given.ca} is not a CA certificate that can be used: {error.strerror or error}; name another with {_SET_CA}"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if given.certificate is not None:
        _show(context, given.certificate, given.key)
    elif given.key is not None:
        raise ConfigError(f"the key {given.key} needs its certificate as well: name both with {_SET_CERTIFICATE}")
    return context


def to_files(tls: Tls | str | Path | None, environ: Mapping[str, str]) -> Tls:
    """What was given, and for the rest what the environment says."""
    if tls is not None and not isinstance(tls, Tls | str | Path):
        raise InvalidError(f"tls must be a CA file, an ortoo.Tls or an ssl.SSLContext, not {type(tls).__name__}")
    tls = tls if isinstance(tls, Tls) else Tls(tls)
    certificate, key = tls.certificate, tls.key
    if certificate is None and key is None:  # they belong together, so both come from one place
        certificate, key = environ.get(CERTIFICATE_VARIABLE) or None, environ.get(KEY_VARIABLE) or None
    return Tls(tls.ca if tls.ca is not None else environ.get(CA_VARIABLE) or None, certificate, key)


def _show(context: ssl.SSLContext, certificate: str | Path, key: str | Path | None) -> None:
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except (OSError, ValueError) as error:
        files = (
            f"{certificate} with the key {key}" if key is not None else f"{certificate}, which must hold its key too,"
        )
        reason = "the key does not belong to it" if "KEY_VALUES_MISMATCH" in str(error) else _plain_reason(error)
        raise ConfigError(
            f"the client certificate {files} cannot be used: {reason}; name others with {_SET_CERTIFICATE}"
        ) from None


def _no_password() -> str:
    raise ValueError("the key is encrypted, decrypt it with `openssl pkey`, or pass an SSLContext")


def _plain_reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def explain(error: Exception, place: str) -> ConfigError | None:
    """Why there is no TLS with a server, and what to do. None when that is not what failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConfigError(f"the certificate of {place} {_untrusted(error)}")
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None  # it hung up
    reason = error.reason or ""
    if reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED":
        return ConfigError(f"{place} demands a client certificate: name one with {_SET_CERTIFICATE}")
    if reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":  # which is what it is called before TLS 1.3
        return ConfigError(
            f"{place} refused the TLS handshake: if it demands a client certificate, name one with {_SET_CERTIFICATE}"
        )
    if reason in _REFUSED:
        return ConfigError(
            f"{place} refused the client certificate ({_REFUSED[reason]}): name one that its tls.client_ca has signed, with "
            f"{_SET_CERTIFICATE}"
        )
    if reason in _PLAIN:
        return ConfigError(
            f"{place} does not speak TLS: use an ortoo:// URL, or set tls.certificate and tls.key on the server"
        )
    if "PROTOCOL_VERSION" in reason or "UNSUPPORTED_PROTOCOL" in reason:
        return ConfigError(f"{place} and this client have no version of TLS in common: both need TLS 1.2 or newer")
    return ConfigError(f"TLS with {place} failed: {reason or error}")


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code == _EXPIRED:
        return "has expired: renew it on the server (tls.certificate and tls.key)"
    if error.verify_code == _NOT_YET_VALID:
        return (
            "is not valid yet: set the clock of this machine, or renew it on the server (tls.certificate and tls.key)"
        )
    if error.verify_code in _OTHER_NAMES:
        return (
            f"is for another name ({error.verify_message}): use a URL with a name that it lists, or give the server a "
            "certificate for this one (tls.certificate and tls.key)"
        )
    return f"is not trusted ({error.verify_message}): name its CA with {_SET_CA}"
