"""The dashboard's files: `/` and what it loads. They hold no data, so they need no token; what they ask for afterwards does.

`dashboard/` at the root of the repository is their source, and `make dashboard` builds them into a folder beside this module.
They are read once, when the door is made. Names below `assets` change with their content, so browsers may keep those for good.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from xxhash import xxh3_128_hexdigest

from .answers import Answer, Headers, Refusal, choose_coding
from .call import Call
from .routing import Route

FOLDER = Path(__file__).with_name("dashboard_files")
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_HTML = b"text/html; charset=utf-8"
_TYPES = {
    ".html": _HTML,
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".woff2": b"font/woff2",
}
_CODINGS = {"br": ".br", "gzip": ".gz"}  # the best first
_FOREVER = b"public, max-age=31536000, immutable"
_ASK_AGAIN = b"no-cache"
_NOT_BUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Ortoo</title>
<h1>Ortoo is running. Its dashboard is not built.</h1>
<p>Everything else is served: see <a href="docs">the HTTP API</a>.</p>
<p>In a checkout, run <code>make dashboard</code> and start the server again. That takes Node 20.19 or newer, or else fetches Node
from PyPI, and it fetches packages from npm.</p>
<p><code>ortoo serve --set http.dashboard=false</code> leaves this page out.</p>"""


_LINKS = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "asyncapi": "/asyncapi.json",
    "health": "/health",
    "ready": "/ready",
    "metrics": "/metrics",
    "topics": "/v1/topics",
    "stream": "/v1/stream",
}
_INDEX = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Ortoo</title><h1>Ortoo</h1><ul>'
    + "".join(f'<li><a href="{path}">{name}</a></li>' for name, path in _LINKS.items())
    + "</ul>"
).encode()


class AnyQuery(msgspec.Struct):
    """Whatever somebody put behind the address of a page."""


class File(msgspec.Struct, frozen=True):
    content_type: bytes
    etag: bytes
    cache: bytes
    bodies: dict[str | None, bytes]  # by coding; None: as it is

    def answer(self, headers: dict[bytes, bytes]) -> Answer:
        more: Headers = [(b"etag", self.etag), (b"vary", b"accept-encoding"), (b"content-security-policy", POLICY)]
        if self._is_known(headers.get(b"if-none-match")):
            return Answer(b"", 304, headers=more, cache=self.cache)
        coding = choose_coding(headers.get(b"accept-encoding"), tuple(_CODINGS))
        coding = coding if coding in self.bodies else None
        return Answer(self.bodies[coding], 200, self.content_type, more, coding=coding or "identity", cache=self.cache)

    def _is_known(self, given: bytes | None) -> bool:
        """A weak comparison: a proxy that compresses anew marks the tag as weak."""
        if given is None:
            return False
        return any(tag.strip().removeprefix(b"W/") in (self.etag, b"*") for tag in given.split(b","))


class Dashboard:
    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or FOLDER
        index = folder / "index.html"
        self._page = _load(index, _ASK_AGAIN) if index.is_file() else None
        found = sorted((folder / "assets").glob("*")) if self._page is not None else []
        self._assets = {path.name: _load(path, _FOREVER) for path in found if path.suffix in _TYPES}

    @property
    def routes(self) -> list[Route]:
        """Not in the table of routes: that is the API, which programs use."""
        return [
            Route("GET", "/", self.page, "The dashboard", query=AnyQuery, needs_token=False),
            Route("GET", "/assets/{file}", self.asset, "What it loads", query=AnyQuery, needs_token=False),
        ]

    async def page(self, call: Call) -> Answer:
        if self._page is None:
            return Answer(_NOT_BUILT, 200, _HTML, [(b"content-security-policy", POLICY)])
        return self._page.answer(call.headers)

    async def asset(self, call: Call) -> Answer:
        file = self._assets.get(call.params["file"])
        if file is None:
            raise Refusal(404, "the dashboard has no such file; load its page again", code="not_found")
        return file.answer(call.headers)


async def _index(call: Call) -> Answer:
    if b"text/html" in call.headers.get(b"accept", b""):
        return Answer(_INDEX, content_type=_HTML, headers=[(b"content-security-policy", POLICY)])
    return Answer(msgspec.json.encode(_LINKS))


INDEX = Route("GET", "/", _index, "Where to go from here, without a dashboard", query=AnyQuery, needs_token=False)


def _load(path: Path, cache: bytes) -> File:
    content = path.read_bytes()
    bodies: dict[str | None, bytes] = {None: content}
    for coding, suffix in _CODINGS.items():
        packed = path.with_name(path.name + suffix)
        if packed.is_file():
            bodies[coding] = packed.read_bytes()
    return File(_TYPES[path.suffix], b'"%b"' % xxh3_128_hexdigest(content).encode(), cache, bodies)
