"""Where a Redis is.

redis://cache:6379/0                                   rediss:// with TLS
redis+sentinel://s1:26379,s2:26379/SERVICE/0           the server that these Sentinels call the master of SERVICE
rediss://:PASSWORD@cache?ssl_ca_certs=/etc/ca.pem      user and password, and files for TLS
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from ortoo.model.errors import ConfigError

SCHEMES = ("redis", "rediss", "redis+sentinel", "rediss+sentinel")
OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "sentinel_username", "sentinel_password")
_PORT, _SENTINEL_PORT = 6379, 26379
_DATABASES_MAX = 65_535
_FORM = "redis://HOST[:PORT][/DB], or redis+sentinel://HOST:PORT,HOST:PORT/SERVICE[/DB]; rediss for TLS"


class Address(NamedTuple):
    hosts: list[tuple[str, int]]  # of the Sentinels, where there is a service
    service: str | None
    database: int
    username: str | None
    password: str | None
    is_tls: bool
    options: dict[str, str]
    shown: str  # without passwords


def parse_address(url: str) -> Address:
    """ConfigError, which never repeats a password, when it is not understood."""
    scheme, _, _ = url.partition("://")
    if scheme not in SCHEMES:
        known = scheme if scheme.replace("+", "").isalnum() and scheme != url else "this"
        raise ConfigError(f"redis takes {_FORM}, and knows no {known}:// addresses")
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise ConfigError(f"this address of a Redis cannot be read: it is {_FORM}") from None
    if unknown := sorted(options.keys() - set(OPTIONS)):
        raise ConfigError(f"an address of a Redis has no option {unknown[0]!r}; it knows {', '.join(OPTIONS)}")
    credentials, at, names = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    is_sentinel = scheme.endswith("+sentinel")
    hosts = [_host(name, _SENTINEL_PORT if is_sentinel else _PORT) for name in names.split(",")]
    if not is_sentinel and len(hosts) > 1:
        raise ConfigError(
            "redis:// names one server; several Sentinels are redis+sentinel://HOST:PORT,HOST:PORT/SERVICE"
        )
    service, database = _path(parts.path, is_sentinel)
    shown = f"{scheme}://{user}{at and ':***@' if password else at}{names}{parts.path}"
    username, secret = unquote(user) or None, unquote(password) or None
    return Address(hosts, service, database, username, secret, scheme.startswith("rediss"), options, shown)


def _host(name: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{name}")
        found = parts.hostname, parts.port or port
    except ValueError:
        found = None, port
    if found[0] is None:
        raise ConfigError(f"{name!r} is no HOST:PORT in the address of a Redis: it is {_FORM}")
    return found[0], found[1]


def _path(path: str, is_sentinel: bool) -> tuple[str | None, int]:
    parts = [unquote(part) for part in path.removeprefix("/").split("/")]
    service = parts.pop(0) if is_sentinel else None
    if service == "":
        raise ConfigError(
            "redis+sentinel:// needs the name of a service: redis+sentinel://HOST:PORT,HOST:PORT/SERVICE[/DB]"
        )
    database = parts[0] if parts else ""
    if len(parts) > 1 or not (database == "" or (database.isascii() and database.isdigit())):
        raise ConfigError(f"{path!r} in the address of a Redis is no number of a database: it is {_FORM}")
    if database and int(database) > _DATABASES_MAX:
        raise ConfigError(f"{path!r} in the address of a Redis names a database beyond {_DATABASES_MAX}")
    return service, int(database or 0)
