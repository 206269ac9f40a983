"""Server URLs: ortoo://[[user:]token@]host[:port][,host[:port]...]; ortoos:// is the same over TLS. ortoo+unix:///path is a
socket of this machine."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

import msgspec

from ortoo.model.errors import InvalidError

PORT = 7632
UNIX = "unix:"  # before the path of a socket, in the place of a host
_HOST = re.compile(r"\[[0-9A-Fa-f:.%]+[\w.-]*\]|[^\s:/?#@\[\]]+")
_EXAMPLE = "ortoo://localhost:7632"


class Address(msgspec.Struct, frozen=True):
    servers: list[tuple[str, int]]
    is_tls: bool
    token: str | None

    def __str__(self) -> str:
        """Without the token: this goes into errors and logs."""
        if self.servers[0][0].startswith(UNIX):
            return f"ortoo+unix://{quote(self.servers[0][0].removeprefix(UNIX))}"
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers)
        return f"{'ortoos' if self.is_tls else 'ortoo'}://{hosts}"


def parse_url(url: str) -> Address:
    if not isinstance(url, str):
        raise InvalidError(f"a server's URL must be a string like {_EXAMPLE}, not {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "ortoo+unix":
        return _socket(rest)
    if not separator or scheme not in ("ortoo", "ortoos"):
        hint = "; the client speaks to the TCP port, not to the HTTP one" if scheme in ("http", "https") else ""
        raise InvalidError(f"a server's URL looks like {_EXAMPLE} (or ortoos:// for TLS), not {_shown(url)!r}{hint}")
    credentials, _, hosts = rest.rpartition("@")
    hosts = hosts.removesuffix("/")
    token = unquote(credentials.rpartition(":")[2]) or None
    if "/" in hosts or "?" in hosts:
        raise InvalidError("a server's URL has nothing behind the port; namespace= and the others are arguments")
    return Address([_host_and_port(host) for host in hosts.split(",")], scheme == "ortoos", token)


def _socket(rest: str) -> Address:
    credentials, slash, path = rest.partition("/")
    if not slash or not path or (credentials and not credentials.endswith("@")):
        raise InvalidError("a server's Unix socket is named by its whole path, as in ortoo+unix:///run/ortoo/tcp.sock")
    token = unquote(credentials.removesuffix("@").rpartition(":")[2]) or None
    return Address([(f"{UNIX}/{unquote(path)}", 0)], is_tls=False, token=token)


def _host_and_port(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):  # no port; an IPv6 address has colons of its own, in brackets
        host, port = text, str(PORT)
    if not _HOST.fullmatch(host) or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        # Neither is repeated: mistyped, one of them may be the token.
        raise InvalidError(f"a server's URL names a host and a port from 1 to 65535, as in {_EXAMPLE}")
    return host.strip("[]"), int(port)


def _shown(url: str) -> str:
    """Without what may be a token, however it was mistyped."""
    return f"…@{url.rpartition('@')[2]}" if "@" in url else url.partition("://")[0][:20]
