"""An authenticator of the settings of a server, and of what `ortoo token` left in its data directory."""

from __future__ import annotations

import re
from pathlib import Path

from ortoo.auth import Authenticator, ClaimRules
from ortoo.auth.certificates import CertificateRules
from ortoo.auth.files import FOLDER, WatchedFile
from ortoo.auth.jwks import JwksUrl
from ortoo.auth.keys import Key, KeySet, parse_jwks, parse_pem, secret_key
from ortoo.auth.revocation import watch_revoked
from ortoo.auth.signing import FILE, parse_keys
from ortoo.model.access import Grant, make_grant, parse_scopes
from ortoo.model.errors import ConfigError, InvalidError
from ortoo.model.names import check_name
from ortoo.model.settings import MEMORY, AuthSettings, Settings

_JWT = re.compile(r"eyJ[\w-]*\.[\w-]+\.[\w-]*")
_URL = re.compile(r"https?://", re.IGNORECASE)


def make_authenticator(settings: Settings) -> Authenticator:
    """Reads the files that it needs; ConfigError names the setting or the file that is wrong. `start` it before it is asked."""
    if settings.token is not None and _JWT.fullmatch(settings.token):
        raise ConfigError(
            "the setting token is a JWT, which is for clients: anyone who has it could do everything here; unset ORTOO_TOKEN for "
            "the server"
        )
    auth = settings.auth
    folder = None if settings.data == MEMORY else Path(settings.data) / FOLDER
    nothing: tuple[Key, ...] = ()
    is_url = auth.jwks is not None and _URL.match(auth.jwks) is not None
    return Authenticator(
        settings.token,
        own=None if folder is None else WatchedFile(folder / FILE, parse_keys, nothing, is_private=True),
        key_sets=_key_sets(auth, None if is_url else auth.jwks),
        keys=[] if auth.secret is None else [secret_key(auth.secret.encode(), "auth.secret")],
        jwks=JwksUrl(auth.jwks, auth.jwks_refresh_seconds) if auth.jwks is not None and is_url else None,
        revoked=None if folder is None else watch_revoked(folder),
        rules=ClaimRules(auth.issuer, auth.audience, auth.require_expiry, auth.leeway_seconds, _default_grants(auth)),
        certificates=_certificate_rules(settings),
    )


def _certificate_rules(settings: Settings) -> CertificateRules | None:
    scope, namespace = settings.auth.certificate_scope, settings.auth.certificate_namespace
    if scope is None:
        return None
    if settings.tls.client_ca is None:
        raise ConfigError(
            "auth.certificate_scope needs tls.client_ca, which the certificates of clients are checked against"
        )
    try:
        check_name("a namespace", namespace)
        return CertificateRules(parse_scopes(scope.split(",")), namespace)
    except InvalidError as error:
        raise ConfigError(f"auth.certificate_namespace: {error}") from None


def _key_sets(auth: AuthSettings, jwks_file: str | None) -> list[WatchedFile[KeySet]]:
    files: list[WatchedFile[KeySet]] = []
    if auth.key_file is not None:
        files.append(WatchedFile(Path(auth.key_file), lambda data: KeySet(parse_pem(data))))
    if jwks_file is not None:
        files.append(WatchedFile(Path(jwks_file), lambda data: parse_jwks(data, with_secrets=True)))
    return files


def _default_grants(auth: AuthSettings) -> tuple[Grant, ...]:
    if auth.default_scope is None:
        return ()
    try:
        return (make_grant(auth.default_scope.split(","), auth.default_namespace),)
    except InvalidError as error:
        raise ConfigError(f"auth.default_namespace: {error}") from None
