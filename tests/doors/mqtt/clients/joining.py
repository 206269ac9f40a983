"""Which libraries there are, and how a test gets a client of one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple
from uuid import uuid4

from .aiomqtt_client import AiomqttClient
from .brokers import Broker
from .client import Address, Client, Options
from .gmqtt_client import GmqttClient
from .line import Line
from .mqttjs_client import MqttJsClient
from .paho_client import PahoClient

LIBRARIES: dict[str, type[Client]] = {
    "paho": PahoClient,
    "aiomqtt": AiomqttClient,
    "gmqtt": GmqttClient,
    "mqttjs": MqttJsClient,
}
_NAMES = {4: "3.1.1", 5: "5"}
_STAYS_SECONDS = 600


class Kind(NamedTuple):
    package: str
    version: int

    def __str__(self) -> str:
        return f"{self.package}-{_NAMES[self.version]}"


KINDS = [Kind(library, version) for library in LIBRARIES for version in (4, 5)]

SOME = [Kind("paho", 4), Kind("aiomqtt", 5), Kind("gmqtt", 4), Kind("mqttjs", 5)]  # every library, and both versions
TWO = [Kind("paho", 5), Kind("mqttjs", 5)]  # for what takes seconds


def able(*things: str, versions: tuple[int, ...] = (4, 5)) -> list[Kind]:
    return [kind for kind in KINDS if kind.version in versions and LIBRARIES[kind.package].CAN.issuperset(things)]


class Join:
    """Makes clients that are connected."""

    def __init__(self, broker: Broker, make: Callable[[str, Address, Options], Client]) -> None:
        self.broker = broker
        self._make = make
        self._run = uuid4().hex[:8]
        self._numbers = count(1)

    def new_id(self) -> str:
        return f"client{next(self._numbers)}{self._run}"

    async def __call__(
        self,
        kind: Kind,
        client_id: str | None = None,
        *,
        transport: str = "tcp",
        through: Line | None = None,
        stays: bool = False,
        **more: Any,
    ) -> Client:
        """With `stays`, a session that outlives its connection, which is resumed if there is one."""
        if stays:
            more = {"clean": False, "session_expiry": _STAYS_SECONDS} | more
        if kind.version == 4:
            more.pop("session_expiry", None)
        chosen = self.new_id() if client_id is None else client_id
        address = self.broker.at(transport) if through is None else through.address
        client = self._make(kind.package, address, Options(version=kind.version, client_id=chosen, **more))
        client.greeting = await client.connect()
        return client
