"""MQTT.js, in a Node process that all clients of a test run share: js/driver.js does what it is told in lines of JSON."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from .client import NONE, Address, Client, Ended, Greeting, Message, Options, Properties, Refused, in_time

_DRIVER = Path(__file__).parent / "js" / "driver.js"


class Node:
    """The process. Answers and events go to whoever waits for them, in the loop of their own."""

    def __init__(self, node: str, modules: Path) -> None:
        """`modules` is a folder in which `npm ci` has installed MQTT.js."""
        self._process = subprocess.Popen(
            [node, str(_DRIVER), str(modules)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ids = count(1)
        self._waiting: dict[int, Callable[[dict[str, Any]], None]] = {}
        self._clients: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def listen(self, client: str, tell: Callable[[dict[str, Any]], None]) -> None:
        loop = asyncio.get_running_loop()
        self._clients[client] = lambda event: _in_loop(loop, tell, event)

    def forget(self, client: str) -> None:
        self._clients.pop(client, None)

    async def ask(self, what: str, client: str, **more: object) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[dict[str, Any]] = loop.create_future()
        number = next(self._ids)
        self._waiting[number] = lambda said: _in_loop(loop, _settle, answer, said)
        assert self._process.stdin is not None
        self._process.stdin.write(
            msgspec.json.encode({"id": number, "do": what, "client": client, **more}).decode() + "\n"
        )
        self._process.stdin.flush()
        async with in_time():
            said = await answer
        if (error := said.get("error")) is not None:
            raise Refused(error["reason"] if isinstance(error["reason"], int) else 0x80, error["text"])
        return said["ok"]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = msgspec.json.decode(line)
            tell = self._waiting.pop(said["id"], None) if "id" in said else self._clients.get(said["client"])
            if tell is not None:
                tell(said)


def _settle(answer: asyncio.Future[dict[str, Any]], said: dict[str, Any]) -> None:
    if not answer.done():
        answer.set_result(said)


def _in_loop(loop: asyncio.AbstractEventLoop, what: Callable[..., None], *said: object) -> None:
    try:
        loop.call_soon_threadsafe(what, *said)
    except RuntimeError:
        pass  # the test is over


_names = count(1)


class MqttJsClient(Client):
    CAN = frozenset({"websocket", "assigned id", "aliases out", "ended reason", "publish reason", "server terms"})

    def __init__(self, node: Node, address: Address, options: Options) -> None:
        super().__init__(address, options)
        self._node = node
        self._name = f"client-{next(_names)}"

    async def connect(self) -> Greeting:
        self._node.listen(self._name, self._on_event)
        found = await self._ask("connect", address=self.address, options=self.options)
        return msgspec.convert(found, Greeting)

    async def subscribe(
        self,
        filter: str,
        qos: int = 1,
        *,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        identifier: int | None = None,
        user: tuple[tuple[str, str], ...] = (),
    ) -> int:
        found = await self._ask(
            "subscribe",
            filter=filter,
            qos=qos,
            is_five=self.options.version == 5,
            no_local=no_local,
            retain_as_published=retain_as_published,
            retain_handling=retain_handling,
            identifier=identifier,
            user=user,
        )
        return int(found["reason"])

    async def unsubscribe(self, filter: str) -> None:
        await self._ask("unsubscribe", filter=filter)

    async def publish(
        self, topic: str, payload: bytes = b"", qos: int = 1, *, retain: bool = False, properties: Properties = NONE
    ) -> int:
        try:
            found = await self._ask(
                "publish",
                topic=topic,
                payload=payload,
                qos=qos,
                retain=retain,
                is_five=self.options.version == 5,
                properties=properties,
            )
        except Refused as refused:
            return refused.reason
        return int(found["reason"])

    async def disconnect(self, reason: int = 0) -> None:
        await self._ask("disconnect", reason=reason, force=False)

    async def close(self) -> None:
        await self._ask("disconnect", reason=0, force=True)
        self._node.forget(self._name)

    async def _ask(self, what: str, **more: object) -> Any:
        return await self._node.ask(what, self._name, **more)

    def _on_event(self, said: dict[str, Any]) -> None:
        if (message := said.get("message")) is not None:
            properties = message["properties"]
            if (data := properties.get("correlation_data")) is not None:
                properties["correlation_data"] = base64.b64decode(data)
            message["payload"] = base64.b64decode(message["payload"])
            self.inbox.put_nowait(msgspec.convert(message, Message))
        else:
            self._end(Ended(said["ended"]["reason"]))
