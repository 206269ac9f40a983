"""A door for every test of this folder, whose routes do what the table says that they do, and nothing else."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from ortoo.broker.authorized import AuthorizedLink
from ortoo.doors.http.call import Call
from ortoo.doors.http.routing import Endpoint, Route
from ortoo.model.commands import unwrap
from tests.doors.http.home import Home, serving


class Told(AuthorizedLink):
    """Remembers what is asked in one caller's name."""

    def __init__(self, link: AuthorizedLink) -> None:
        super().__init__(link._shards, link.principal, link._meters, link._access, link._throttle)
        self.asked: set[type] = set()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("ask", "call", "lease", "publish", "publish_or_wait", "subscribe"):
            return found

        def noted(request: Any, *more: Any, **named: Any) -> Any:
            self.asked.add(type(unwrap(request)))
            return found(request, *more, **named)

        return noted


def telling(route: Route) -> Route:
    async def handler(call: Call) -> Any:
        if call.link is None:
            return await route.handler(call)
        link = call.link = Told(call.link)
        try:
            return await route.handler(call)
        finally:
            undeclared = link.asked - set(route.does)
            assert not undeclared, f"{route.method} {route.path} also does {undeclared}; say so in the table of routes"

    return msgspec.structs.replace(route, handler=handler)


@pytest.fixture(autouse=True)
def honest_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Endpoint.__init__
    monkeypatch.setattr(Endpoint, "__init__", lambda self, route, dialect=None: make(self, telling(route), dialect))


@pytest_asyncio.fixture
async def home() -> AsyncIterator[Home]:
    async with serving() as home:
        yield home
