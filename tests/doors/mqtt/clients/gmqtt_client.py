"""gmqtt: asyncio, with a codec of its own."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import gmqtt  # type: ignore[import-untyped]

from .client import NONE, Address, Client, Ended, Greeting, Message, Options, Properties, Refused, in_time

_PROPERTIES = {
    "content_type": "content_type",
    "payload_format": "payload_format_id",
    "response_topic": "response_topic",
    "correlation_data": "correlation_data",
    "message_expiry": "message_expiry_interval",
    "topic_alias": "topic_alias",
}
_OF_CONNECT = {
    "session_expiry": "session_expiry_interval",
    "receive_maximum": "receive_maximum",
    "packet_bytes_max": "maximum_packet_size",
    "aliases_max": "topic_alias_maximum",
}
_LOGGER = logging.getLogger("tests.gmqtt")
_LOGGER.setLevel(logging.CRITICAL + 1)  # that a connection was cut is no error here


class GmqttClient(Client):
    CAN = frozenset({"server terms"})

    def __init__(self, address: Address, options: Options) -> None:
        super().__init__(address, options)
        more = {theirs: value for ours, theirs in _OF_CONNECT.items() if (value := getattr(options, ours)) is not None}
        will = options.will
        self._greeting = Greeting()
        self._granted: dict[int, asyncio.Future[int]] = {}
        self._mqtt = made = gmqtt.Client(
            options.client_id,
            clean_session=options.clean,
            logger=_LOGGER,
            will_message=None
            if will is None
            else gmqtt.Message(
                will.topic,
                will.payload,
                will.qos,
                will.retain,
                **_to_gmqtt(will.properties),
                **({} if will.delay is None else {"will_delay_interval": will.delay}),
            ),
            **more,
        )
        made.set_config({"reconnect_retries": 0, "reconnect_delay": 3600})
        made.on_connect, made.on_message, made.on_disconnect = self._on_connect, self._on_message, self._on_disconnect
        made.on_subscribe = lambda _client, mid, codes, _properties: self._granted[mid].set_result(codes[0])
        made.on_unsubscribe = lambda _client, mid, _codes: self._granted[mid].set_result(0)
        if options.user is not None:
            made.set_auth_credentials(options.user, options.password)

    async def connect(self) -> Greeting:
        context = ssl.create_default_context(cafile=self.address.ca) if self.address.transport == "tls" else False
        async with in_time():
            try:
                await self._mqtt.connect(
                    self.address.host,
                    self.address.port,
                    ssl=context,
                    keepalive=self.options.keep_alive,
                    version=self.options.version,
                )
            except gmqtt.mqtt.handler.MQTTConnectError as error:
                raise Refused(error._code) from None
        return self._greeting

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
        more: dict[str, Any] = {}
        if identifier is not None:
            more["subscription_identifier"] = identifier
        if user:
            more["user_property"] = list(user)
        options = (
            {"no_local": no_local, "retain_as_published": retain_as_published} if self.options.version == 5 else {}
        )
        mid = self._mqtt.subscribe(filter, qos, **options, retain_handling_options=retain_handling, **more)
        return await self._answered(mid)

    async def unsubscribe(self, filter: str) -> None:
        await self._answered(self._mqtt.unsubscribe(filter))

    async def publish(
        self, topic: str, payload: bytes = b"", qos: int = 1, *, retain: bool = False, properties: Properties = NONE
    ) -> int:
        more = _to_gmqtt(properties) if self.options.version == 5 else {}
        self._mqtt.publish(topic, payload, qos, retain, **more)
        async with in_time():
            await self._mqtt._persistent_storage.wait_empty()
        return 0

    async def disconnect(self, reason: int = 0) -> None:
        async with in_time():
            await self._mqtt.disconnect(reason_code=reason)

    async def close(self) -> None:
        if self._mqtt._connection is not None:
            await self.disconnect()

    async def _answered(self, mid: int) -> int:
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._granted[mid] = waiting
        async with in_time():
            return await waiting

    def _on_connect(self, _client: object, flags: int, _code: int, properties: dict[str, Any]) -> None:
        def told(name: str) -> Any:
            found = properties.get(name)
            return found[0] if isinstance(found, list) else None

        self._greeting = Greeting(
            session_present=bool(flags & 1),
            assigned_id=told("assigned_client_identifier"),
            server_keep_alive=told("server_keep_alive"),
            receive_maximum=told("receive_maximum"),
            packet_bytes_max=told("maximum_packet_size"),
            aliases_max=told("topic_alias_maximum"),
        )

    def _on_message(self, _client: object, topic: str, payload: bytes, qos: int, found: dict[str, Any]) -> int:
        simple = {ours: found[theirs][0] for ours, theirs in _PROPERTIES.items() if theirs in found}
        properties = Properties(
            user=tuple(found.get("user_property", ())),
            subscription_ids=tuple(found.get("subscription_identifier", ())),
            **simple,
        )
        self.inbox.put_nowait(
            Message(topic, bytes(payload), qos, bool(found["retain"]), bool(found["dup"]), properties)
        )
        return 0

    def _on_disconnect(self, _client: object, packet: Any, *_: object) -> None:
        self._end(Ended(packet[0] if isinstance(packet, bytes) and packet else None))


def _to_gmqtt(properties: Properties) -> dict[str, Any]:
    made: dict[str, Any] = {
        theirs: value for ours, theirs in _PROPERTIES.items() if (value := getattr(properties, ours)) is not None
    }
    if properties.user:
        made["user_property"] = list(properties.user)
    return made
