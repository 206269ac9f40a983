"""Which pages of browsers may call, and under which names: `Host` and `Origin`, and the headers of CORS."""

from __future__ import annotations

import re
from ipaddress import ip_address

from ortoo.model.errors import ForbiddenError
from ortoo.model.settings import HttpSettings

from .answers import Headers, Refusal

_AUTHORITY = re.compile(r"(\[[^\[\]@/]*\]|[^:\[\]@/]*)(?::\d*)?")


_OUR_HEADER = re.compile(rb"ortoo-[\w%.-]+")


class Origins:
    """Browsers: which sites' pages may call (CORS), under which names this server answers, and keeping out everyone else.

    Whoever can reach this server may call it, and every browser of a machine can for any page that it shows. Two things keep the
    pages of other sites out. `Origin` tells whose page it is; but a name may have been pointed here by someone else (DNS
    rebinding), and then a page of theirs is, to the browser, a page of this server. So `Host` must be an address, which nobody
    else can point here, or a name that was configured. A token changes nothing about that: some routes need none, and what keeps
    pages out must not depend on how clients authenticate.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._everyone = "*" in settings.cors_origins
        self._allowed = frozenset(origin.rstrip("/").encode() for origin in settings.cors_origins)
        self._any_name = "*" in settings.allowed_hosts
        self._names = frozenset(map(_canonical, ("localhost", settings.host, *settings.allowed_hosts)))
        self._known: bytes | None = None  # the host that was checked last: most often it is the same

    def is_allowed(self, origin: bytes) -> bool:
        return self._everyone or origin in self._allowed

    def check(self, method: str, headers: dict[bytes, bytes]) -> None:
        """Browsers send the requests of any page, even if it cannot read the answer; so they are refused before they act."""
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if host is not None and host != self._known:  # no browser leaves it out
            self._check_host(host)
            self._known = host
        if origin is None or method == "OPTIONS" or self.is_allowed(origin) or _is_own(origin, host):
            return
        raise ForbiddenError(
            f"pages of {origin.decode('latin-1')} may not call this server; http.cors_origins lists those that may"
        )

    def check_acting(self, headers: dict[bytes, bytes]) -> None:
        """A GET that changes something: a page gets those with a picture or a link, too, for which browsers send no `Origin`."""
        site = headers.get(b"sec-fetch-site")
        if site is None or site in (b"same-origin", b"none") or self._everyone:
            return
        if not self.is_allowed(headers.get(b"origin", b"")):
            raise ForbiddenError("pages of other sites may not call this; http.cors_origins lists those that may")

    def _check_host(self, host: bytes) -> None:
        text = host.decode("latin-1")
        match = _AUTHORITY.fullmatch(text)
        if match is None:
            raise Refusal(400, f"the header host is a name or an address, and a port, not {text!r}")
        name = _canonical(match[1])
        if not (self._any_name or name in self._names or _is_address(name)):
            raise Refusal(
                421,
                f"this server does not answer to the name {name!r}: add it to http.allowed_hosts, or use an address",
                code=ForbiddenError.code,
            )

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
        asked = headers.get(b"access-control-request-headers", b"").lower().split(b",")
        ours = [name.strip() for name in asked if _OUR_HEADER.fullmatch(name.strip())]
        known = [b"authorization", b"content-type", b"content-encoding", b"accept", b"last-event-id"]
        return [
            (b"access-control-allow-methods", methods.encode()),
            (b"access-control-allow-headers", b", ".join(known + ours)),
            (b"access-control-max-age", b"600"),
        ]


def _is_own(origin: bytes, host: bytes | None) -> bool:
    """Whether the page came from this very server, as the browser sees it."""
    return bool(host) and origin.partition(b"://")[2] == host


def _canonical(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
