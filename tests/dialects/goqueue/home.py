"""A queue with GoQueue's API, or another that is asked alike."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from ortoo.dialects.goqueue import GOQUEUE
from ortoo.doors.http.routing import Dialect
from tests.dialects.home import DialectHome
from tests.dialects.home import serving as serve


class Home(DialectHome):
    async def get(self, path: str, expect: int = 200, **query: Any) -> Any:
        return await self.answered("GET", path, expect, None, query)

    async def post(self, path: str, body: Any, expect: int = 200) -> Any:
        return await self.answered("POST", path, expect, body, {})


def serving(dialect: Dialect = GOQUEUE, **more: Any) -> AbstractAsyncContextManager[Home]:
    return serve(Home, dialect, **more)
