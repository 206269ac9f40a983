"""The server's certificate: read at the start, and again whenever its files change, so that renewing it needs no restart.

A file that cannot be used is never put in the place of one that can: the certificate in use stays, and an operator is told.
Files are read in a thread, because they may lie on a disk that is slow or gone.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time

import msgspec
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from ortoo.broker.running import Runner
from ortoo.doors.tls import ServerContext
from ortoo.model.errors import ConfigError
from ortoo.model.settings import TlsSettings

LOOK_SECONDS = 3.0  # between two looks at the files
EXPIRES_SOON_SECONDS = 14 * 86_400

_log = logging.getLogger("ortoo.tls")

Stamp = tuple[tuple[int, int, int] | None, ...]  # of each file: when it was written, which one it is, its size


class Loaded(msgspec.Struct, frozen=True):
    context: ssl.SSLContext
    not_after: float  # seconds since 1970


class Certificates:
    def __init__(self, settings: TlsSettings, clock: Callable[[], float] = time) -> None:
        """ConfigError when they cannot be used."""
        self._settings = settings
        self._clock = clock
        self._stamp = stamp(settings)  # first: what changes while it is read is read again
        self._loaded = load(settings)
        self._failure: str | None = None  # of the newest files
        self._told: list[str] = []
        self._asked = asyncio.Event()
        self._looking = asyncio.Lock()
        self._runner = Runner("ortoo-certificates", self._watch)

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._loaded.context

    @property
    def seconds_left(self) -> float:
        """Until the certificate expires; less than 0 once it has."""
        return self._loaded.not_after - self._clock()

    def problems(self) -> list[str]:
        """What an operator should know, in words; empty when all is well."""
        found = [] if self._failure is None else [self._failure]
        if self.seconds_left < EXPIRES_SOON_SECONDS:
            day = datetime.fromtimestamp(self._loaded.not_after, UTC).strftime("%Y-%m-%d %H:%M UTC")
            word = "expires" if self.seconds_left > 0 else "expired"
            found.append(
                f"the certificate {self._settings.certificate} {word} on {day}; replace the file, the server reads it again"
            )
        return found

    def start(self) -> None:
        self._tell()
        self._runner.start()

    async def stop(self) -> None:
        await self._runner.stop()

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._asked.wait()
            anyway = self._asked.is_set()
            self._asked.clear()
            await self.look(anyway=anyway)

    def reload(self) -> None:
        """Soon, whether or not the files seem to have changed."""
        self._asked.set()

    async def look(self, *, anyway: bool = False) -> None:
        """Reads the files again if they have changed; `anyway` also if they seem not to have."""
        async with self._looking:
            found = await asyncio.to_thread(stamp, self._settings)
            if anyway or found != self._stamp:
                self._stamp = found
                await self._reload()
            self._tell()

    async def _reload(self) -> None:
        try:
            self._loaded = await asyncio.to_thread(load, self._settings)
        except ConfigError as error:
            self._failure = f"{error}; the certificate read before stays in use"
            return
        self._failure = None
        _log.info("the certificate was read again", extra={"days_left": round(self.seconds_left / 86_400, 1)})

    def _tell(self) -> None:
        """Logs what is wrong now and was not before."""
        problems = self.problems()
        for problem in problems:
            if problem not in self._told:
                level = logging.ERROR if problem == self._failure else logging.WARNING
                _log.log(level, "the certificate has a problem", extra={"problem": problem})
        self._told = problems


def stamp(settings: TlsSettings) -> Stamp:
    """Changes when a file does: when it is written to, replaced, or linked to another."""
    return tuple(
        _stamp_of(path) for path in (settings.certificate, settings.key, settings.client_ca) if path is not None
    )


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def load(settings: TlsSettings) -> Loaded:
    """ConfigError when the files cannot be used, with the reason."""
    if settings.certificate is None or settings.key is None:
        raise ConfigError("TLS needs both tls.certificate and tls.key")
    context = ServerContext()
    try:
        context.load_cert_chain(settings.certificate, settings.key, _no_password)
        not_after = _check(Path(settings.certificate))
    except (OSError, ValueError, x509.InvalidVersion, x509.DuplicateExtension) as error:
        raise ConfigError(
            f"the certificate {settings.certificate} with the key {settings.key} cannot be used: {_reason(error)}"
        ) from None
    if settings.client_ca is not None and settings.client_auth != "none":
        _ask_clients(context, settings.client_ca, settings.client_auth == "optional")
    return Loaded(context, not_after)


def _ask_clients(context: ssl.SSLContext, client_ca: str, is_optional: bool) -> None:
    try:
        context.load_verify_locations(client_ca)
    except OSError as error:
        raise ConfigError(f"tls.client_ca {client_ca} cannot be used: {_reason(error)}") from None
    context.verify_mode = ssl.CERT_OPTIONAL if is_optional else ssl.CERT_REQUIRED
    # Each connection shows its certificate: one that has expired since is not let in on an old session's word.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0


def _check(path: Path) -> float:
    """When it expires, in seconds since 1970. ValueError when it is not for servers."""
    certificate = x509.load_pem_x509_certificates(path.read_bytes())[0]
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        pass
    else:
        if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(uses):
            raise ValueError("it is not for servers (its extended key usage lacks serverAuth); is it that of a client?")
    return certificate.not_valid_after_utc.timestamp()


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody can be asked for its passphrase; decrypt it with `openssl pkey`")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason or "", error.reason or str(error))
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


_REASONS = {
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "NO_CERTIFICATE_OR_CRL_FOUND": "there is no certificate in the file",
}
