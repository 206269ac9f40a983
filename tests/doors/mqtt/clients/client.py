"""What the tests ask of a client of MQTT, whichever library it is: one test body then runs over all of them.

A library that cannot do a thing says so in `CAN`, and the tests of that thing leave it out.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar, Literal

import msgspec

WAIT_SECONDS = 20.0  # for anything that is sure to come; a machine that is busy elsewhere may take long

Transport = Literal["tcp", "tls", "websocket", "websocket+tls"]


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int
    transport: Transport = "tcp"
    ca: str | None = None  # a PEM file
    path: str = "/mqtt"  # of a WebSocket

    @property
    def is_websocket(self) -> bool:
        return self.transport.startswith("websocket")


class Properties(msgspec.Struct, frozen=True):
    """Of a message. None where there is none."""

    user: tuple[tuple[str, str], ...] = ()
    content_type: str | None = None
    payload_format: int | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    message_expiry: int | None = None
    topic_alias: int | None = None
    subscription_ids: tuple[int, ...] = ()

    def values(self, name: str) -> list[str]:
        """Of the user properties with this name."""
        return [value for key, value in self.user if key == name]


NONE = Properties()


class Message(msgspec.Struct, frozen=True):
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    properties: Properties = NONE
    packet_id: int = 0  # where the library tells it


class Will(msgspec.Struct, frozen=True):
    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False
    delay: int | None = None  # seconds
    properties: Properties = NONE


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Of a connection."""

    version: int = 5  # or 4, which is MQTT 3.1.1
    client_id: str = ""
    clean: bool = True
    session_expiry: int | None = None  # seconds
    keep_alive: int = 60
    receive_maximum: int | None = None
    packet_bytes_max: int | None = None
    aliases_max: int | None = None
    user: str | None = None
    password: str | None = None
    will: Will | None = None
    acks_by_hand: bool = False


class Greeting(msgspec.Struct, frozen=True):
    """What a CONNACK says."""

    session_present: bool = False
    assigned_id: str | None = None
    server_keep_alive: int | None = None
    receive_maximum: int | None = None
    packet_bytes_max: int | None = None
    aliases_max: int | None = None


class Ended(msgspec.Struct, frozen=True):
    """How a connection ended: the reason of a DISCONNECT, or None if there was none."""

    reason: int | None = None
    reason_string: str | None = None


class Refused(Exception):
    """A CONNACK said no."""

    def __init__(self, reason: int, reason_string: str | None = None) -> None:
        super().__init__(f"0x{reason:02X} {reason_string or ''}")
        self.reason = reason


class Client(ABC):
    """Reasons are numbers: of QoS that is granted, or codes of MQTT 5; 0x80 and above are failures."""

    CAN: ClassVar[frozenset[str]]  # of the things that not every library can do

    def __init__(self, address: Address, options: Options) -> None:
        self.address = address
        self.options = options
        self.greeting = Greeting()
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    @abstractmethod
    async def connect(self) -> Greeting: ...

    @abstractmethod
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
        """The reason that the server gave."""

    @abstractmethod
    async def unsubscribe(self, filter: str) -> None: ...

    @abstractmethod
    async def publish(
        self, topic: str, payload: bytes = b"", qos: int = 1, *, retain: bool = False, properties: Properties = NONE
    ) -> int:
        """The reason of the PUBACK or PUBREC, where the library tells it; 0 with QoS 0, which is not answered."""

    @abstractmethod
    async def disconnect(self, reason: int = 0) -> None: ...

    @abstractmethod
    async def close(self) -> None:
        """At the end of a test, whatever state it is in."""

    async def ack(self, message: Message) -> None:
        raise NotImplementedError

    async def receive(self) -> Message:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.inbox.get()

    async def receive_many(self, count: int) -> list[Message]:
        return [await self.receive() for _ in range(count)]

    async def wait_ended(self) -> Ended:
        async with asyncio.timeout(WAIT_SECONDS):
            return await asyncio.shield(self.ended)

    async def nothing_more(self) -> bool:
        """Whether the server has sent nothing up to now: it answers requests after what it had to send before."""
        for _ in range(2):
            await self.subscribe("nobody/publishes/this", 0)
        return self.inbox.empty()

    def _end(self, ended: Ended) -> None:
        if not self.ended.done():
            self.ended.set_result(ended)


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    async with asyncio.timeout(WAIT_SECONDS):
        yield
