"""A queue with Queen's API."""

from __future__ import annotations

from functools import partial
from typing import Any

from ortoo.dialects.queen import QUEEN
from tests.dialects.home import DialectHome
from tests.dialects.home import serving as serve

API = "/api/v1"


class Home(DialectHome):
    async def post(self, path: str, body: Any = None, expected: int | None = None, /, **query: Any) -> Any:
        return await self.answered("POST", API + path, expected, body, query)

    async def get(self, path: str, expected: int | None = None, /, **query: Any) -> Any:
        return await self.answered("GET", API + path, expected, None, query)

    async def delete(self, path: str, expected: int | None = None, /, **query: Any) -> Any:
        return await self.answered("DELETE", API + path, expected, None, query)

    async def configure(self, queue: str, options: Any = None, **more: Any) -> Any:
        return await self.post("/configure", {"queue": queue, "options": options or {}, **more}, 201)

    async def push(self, queue: str, *payloads: Any, **more: Any) -> list[dict[str, Any]]:
        """As a client of the first generation: it says `config`."""
        items = [{"queue": queue, "payload": payload, **more} for payload in payloads]
        answer = await self.post("/push", {"items": items, "config": {}}, 201)
        found: list[dict[str, Any]] = answer["messages"]
        return found

    async def pop(self, queue: str, partition: str | None = None, **query: Any) -> list[dict[str, Any]]:
        path = f"/pop/queue/{queue}" + (f"/partition/{partition}" if partition else "")
        answer = await self.get(path, **query)
        found: list[dict[str, Any]] = [] if answer is None else answer["messages"]
        return found

    async def ack(self, message: dict[str, Any], status: str = "completed", **more: Any) -> Any:
        """As a client of the first generation."""
        return await self.post("/ack", {"transactionId": message["transactionId"], "status": status, **more}, 200)

    async def later_ack(self, message: dict[str, Any], status: str = "completed", **more: Any) -> Any:
        names = ("transactionId", "partitionId", "leaseId")
        body = {name: message[name] for name in names} | {"status": status, **more}
        return await self.post("/ack", body, 200)


serving = partial(serve, Home, QUEEN)
