"""The WebSocket half of the driver: one socket, any number of subscriptions."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from ortoo.doors.http.shapes import MessageView
from ortoo.model.errors import ClosedError, OrtooError, error_of


class _Frame(msgspec.Struct):
    type: str
    id: str | None = None
    ref: str | None = None
    messages: list[MessageView] = []
    code: str = ""
    detail: str = ""


class Pushing:
    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._url = url
        self._headers = headers
        self._connecting = asyncio.Lock()
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._subscriptions: dict[str, Subscription] = {}

    async def subscribe(self, **options: Any) -> Subscription:
        async with self._connecting:
            if self._socket is None:
                self._socket = await connect(self._url, additional_headers=self._headers, max_size=None)
                self._reader = asyncio.create_task(self._read(self._socket))
        subscription = Subscription(self, uuid4().hex)
        self._subscriptions[subscription.id] = subscription
        await self.send({"type": "subscribe", "id": subscription.id, **options})
        await subscription.wait("subscribed")
        return subscription

    async def send(self, message: dict[str, Any]) -> None:
        assert self._socket is not None
        try:
            await self._socket.send(msgspec.json.encode(message).decode())
        except ConnectionClosed:
            raise ClosedError("the socket was closed") from None

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for text in socket:
                frame = msgspec.json.decode(text, type=_Frame)
                subscription = self._subscriptions.get(frame.id or "")
                if subscription is not None:
                    subscription.frames.put_nowait(frame)
        except ConnectionClosed:
            pass  # by the server
        for subscription in self._subscriptions.values():
            subscription.frames.put_nowait(_Frame("error", code=ClosedError.code, detail="the socket was closed"))

    def forget(self, id: str) -> None:
        self._subscriptions.pop(id, None)

    async def close(self) -> None:
        if self._socket is not None and self._reader is not None:
            await self._socket.close()
            await self._reader


class Subscription:
    def __init__(self, pushing: Pushing, id: str) -> None:
        self._pushing = pushing
        self.id = id
        self.frames: asyncio.Queue[_Frame] = asyncio.Queue()
        self._early: list[MessageView] = []
        self._has_ended = False

    async def wait(self, kind: str) -> None:
        """Until a frame of that kind; messages that come before it are kept."""
        while (frame := await self._frame()).type != kind:
            self._early += frame.messages

    async def _frame(self) -> _Frame:
        frame = await self.frames.get()
        if frame.type == "error":
            self._has_ended = True
            self._pushing.forget(self.id)
            raise error_of(frame.code, frame.detail)
        return frame

    async def next(self) -> list[MessageView]:
        early, self._early = self._early, []
        return early or (await self._frame()).messages

    async def grant(self, credit: int) -> None:
        await self._pushing.send({"type": "credit", "id": self.id, "credit": credit})

    async def close(self) -> list[MessageView]:
        """What came and was not handed out."""
        try:
            if not self._has_ended:
                await self._pushing.send({"type": "unsubscribe", "id": self.id})
                await self.wait("unsubscribed")
        except OrtooError:
            pass  # it ended in the meantime
        self._pushing.forget(self.id)
        return self._early
