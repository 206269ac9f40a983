"""Browsers: which sites' pages may call (CORS), and keeping out those that try without being allowed."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from ortoo.model.errors import ForbiddenError
from ortoo.model.settings import HttpSettings

from .problems import Headers

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Origins:
    def __init__(self, settings: HttpSettings) -> None:
        self._everyone = "*" in settings.cors_origins
        self._allowed = frozenset(origin.rstrip("/").encode() for origin in settings.cors_origins)

    def is_allowed(self, origin: bytes) -> bool:
        return self._everyone or origin in self._allowed

    def check(self, method: str, headers: dict[bytes, bytes]) -> None:
        """A page of another site may not change anything: browsers send its requests, even if it cannot read the answer."""
        origin = headers.get(b"origin")
        if origin is None or method in _SAFE_METHODS or self.is_allowed(origin) or _is_own(origin, headers):
            return
        raise ForbiddenError(f"pages of {origin.decode('latin-1')} may not call this server; see http.cors_origins")

    def headers(self, headers: dict[bytes, bytes]) -> Headers:
        """What tells a browser that the page may read the answer; nothing unless it is configured."""
        origin = headers.get(b"origin")
        if origin is None or not self._allowed:
            return []
        if not self.is_allowed(origin):
            return [(b"vary", b"origin")]
        return [
            (b"access-control-allow-origin", b"*" if self._everyone else origin),
            (b"access-control-expose-headers", b"retry-after, www-authenticate"),
            (b"vary", b"origin"),
        ]

    def preflight(self, headers: dict[bytes, bytes], methods: str) -> Headers:
        if b"access-control-request-method" not in headers or not self.is_allowed(headers.get(b"origin", b"")):
            return []
        return [
            (b"access-control-allow-methods", methods.encode()),
            (b"access-control-allow-headers", b"authorization, content-type, content-encoding, accept"),
            (b"access-control-max-age", b"600"),
        ]


def _is_own(origin: bytes, headers: dict[bytes, bytes]) -> bool:
    """Whether the page came from this very server.

    A name may have been pointed here by someone else (DNS rebinding), so that a page of theirs looks like ours; an address
    cannot, and a token shows that the page belongs to someone who may call.
    """
    host = headers.get(b"host", b"")
    try:
        page = urlsplit(origin.decode("ascii"))
        if page.netloc.encode() != host or not host:
            return False
        name = page.hostname or ""
    except ValueError:
        return False
    return name == "localhost" or _is_address(name) or b"authorization" in headers


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
