"""paho-mqtt, the library of the Eclipse project: a thread for each client."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Literal

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from .client import NONE, Address, Client, Ended, Greeting, Message, Options, Properties, Refused, Will, in_time

_PROPERTIES = {
    "content_type": "ContentType",
    "payload_format": "PayloadFormatIndicator",
    "response_topic": "ResponseTopic",
    "correlation_data": "CorrelationData",
    "message_expiry": "MessageExpiryInterval",
    "topic_alias": "TopicAlias",
}
_OF_CONNECT = {
    "session_expiry": "SessionExpiryInterval",
    "receive_maximum": "ReceiveMaximum",
    "packet_bytes_max": "MaximumPacketSize",
    "aliases_max": "TopicAliasMaximum",
}
_OF_CONNACK = {
    "assigned_id": "AssignedClientIdentifier",
    "server_keep_alive": "ServerKeepAlive",
    "receive_maximum": "ReceiveMaximum",
    "packet_bytes_max": "MaximumPacketSize",
    "aliases_max": "TopicAliasMaximum",
}


def to_paho(properties: Properties, kind: int = PacketTypes.PUBLISH) -> PahoProperties | None:
    made = PahoProperties(kind)  # type: ignore[no-untyped-call]
    for ours, theirs in _PROPERTIES.items():
        if (value := getattr(properties, ours)) is not None:
            setattr(made, theirs, value)
    if properties.user:
        made.UserProperty = list(properties.user)
    return made


def connect_properties(options: Options) -> PahoProperties | None:
    if options.version != 5:
        return None
    made = PahoProperties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    for ours, theirs in _OF_CONNECT.items():
        if (value := getattr(options, ours)) is not None:
            setattr(made, theirs, value)
    return made


def will_properties(will: Will, version: int) -> PahoProperties | None:
    made = to_paho(will.properties, PacketTypes.WILLMESSAGE) if version == 5 else None
    if made is not None and will.delay is not None:
        made.WillDelayInterval = will.delay
    return made


def subscribe_properties(identifier: int | None, user: tuple[tuple[str, str], ...]) -> PahoProperties | None:
    made = PahoProperties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
    if identifier is not None:
        made.SubscriptionIdentifier = identifier
    if user:
        made.UserProperty = list(user)
    return made


def from_paho(found: PahoProperties | None) -> Properties:
    if found is None:
        return NONE
    simple = {ours: getattr(found, theirs, None) for ours, theirs in _PROPERTIES.items()}
    return Properties(
        user=tuple((name, value) for name, value in getattr(found, "UserProperty", ())),
        subscription_ids=tuple(getattr(found, "SubscriptionIdentifier", ())),
        **simple,
    )


def to_message(found: mqtt.MQTTMessage) -> Message:
    return Message(
        found.topic,
        bytes(found.payload),
        found.qos,
        bool(found.retain),
        bool(found.dup),
        from_paho(getattr(found, "properties", None)),
        found.mid,
    )


def transport_of(address: Address) -> Literal["tcp", "websockets"]:
    return "websockets" if address.is_websocket else "tcp"


def tls_of(address: Address) -> ssl.SSLContext | None:
    return ssl.create_default_context(cafile=address.ca) if address.ca is not None else None


class PahoClient(Client):
    CAN = frozenset(
        {"websocket", "assigned id", "acks by hand", "aliases out", "ended reason", "publish reason", "server terms"}
    )

    def __init__(self, address: Address, options: Options) -> None:
        super().__init__(address, options)
        self._loop = asyncio.get_running_loop()
        self._greeted: asyncio.Future[Greeting] = self._loop.create_future()
        self._pending: dict[tuple[str, int], asyncio.Future[int]] = {}
        self._early: dict[tuple[str, int], int] = {}  # answers that came before their request was known
        self._paho = made = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            options.client_id,
            clean_session=options.clean if options.version == 4 else None,
            protocol=MQTTProtocolVersion(options.version),
            transport=transport_of(address),
            reconnect_on_failure=False,
            manual_ack=options.acks_by_hand,
        )
        made.on_connect, made.on_disconnect = self._on_connect, self._on_disconnect
        made.on_message = lambda _client, _data, message: self._tell(self.inbox.put_nowait, to_message(message))
        made.on_subscribe = lambda _client, _data, mid, codes, _properties: self._answer("subscribe", mid, codes)
        made.on_unsubscribe = lambda _client, _data, mid, codes, _properties: self._answer("unsubscribe", mid, codes)
        made.on_publish = lambda _client, _data, mid, code, _properties: self._answer("publish", mid, [code])
        if (context := tls_of(address)) is not None:
            made.tls_set_context(context)
        if address.is_websocket:
            made.ws_set_options(address.path)
        if options.user is not None:
            made.username_pw_set(options.user, options.password)
        if (will := options.will) is not None:
            made.will_set(will.topic, will.payload, will.qos, will.retain, will_properties(will, options.version))

    def use_tls(self, context: ssl.SSLContext) -> None:
        """With a certificate of its own, for example."""
        self._paho.tls_set_context(context)

    async def connect(self) -> Greeting:
        if self.options.version == 5:
            more: dict[str, Any] = {
                "clean_start": self.options.clean,
                "properties": connect_properties(self.options),
            }
        else:
            more = {}
        async with in_time():
            await asyncio.to_thread(
                self._paho.connect, self.address.host, self.address.port, self.options.keep_alive, **more
            )
            self._paho.loop_start()
            return await self._greeted

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
        if self.options.version == 5:
            options = SubscribeOptions(qos, no_local, retain_as_published, retain_handling)
            code, mid = self._paho.subscribe(filter, options=options, properties=subscribe_properties(identifier, user))
        else:
            code, mid = self._paho.subscribe(filter, qos)
        assert code is MQTTErrorCode.MQTT_ERR_SUCCESS
        assert mid is not None
        return await self._answered("subscribe", mid)

    async def unsubscribe(self, filter: str) -> None:
        code, mid = self._paho.unsubscribe(filter)
        assert code is MQTTErrorCode.MQTT_ERR_SUCCESS
        assert mid is not None
        await self._answered("unsubscribe", mid)

    async def publish(
        self, topic: str, payload: bytes = b"", qos: int = 1, *, retain: bool = False, properties: Properties = NONE
    ) -> int:
        more = to_paho(properties) if self.options.version == 5 else None
        info = self._paho.publish(topic, payload, qos, retain, more)
        assert info.rc is MQTTErrorCode.MQTT_ERR_SUCCESS, info.rc
        return await self._answered("publish", info.mid)

    async def ack(self, message: Message) -> None:
        self._paho.ack(message.packet_id, message.qos)

    async def disconnect(self, reason: int = 0) -> None:
        said = ReasonCode(PacketTypes.DISCONNECT, identifier=reason) if self.options.version == 5 else None
        self._paho.disconnect(said)
        await self.wait_ended()

    async def close(self) -> None:
        self._paho.disconnect()
        async with in_time():
            await asyncio.to_thread(self._paho.loop_stop)

    def _on_connect(self, *said: Any) -> None:
        _, _, flags, code, properties = said
        if code.is_failure:
            self._tell(_fail, self._greeted, Refused(code.value, getattr(properties, "ReasonString", None)))
        else:
            found = {ours: getattr(properties, theirs, None) for ours, theirs in _OF_CONNACK.items()}
            self._tell(_succeed, self._greeted, Greeting(session_present=flags.session_present, **found))

    def _on_disconnect(self, *said: Any) -> None:
        _, _, flags, code, properties = said
        reason = code.value if flags.is_disconnect_packet_from_server else None
        self._tell(self._end, Ended(reason, getattr(properties, "ReasonString", None)))

    def _answer(self, what: str, mid: int, codes: Any) -> None:
        self._tell(self._settle, (what, mid), codes[0].value if codes else 0)

    def _settle(self, key: tuple[str, int], reason: int) -> None:
        if key in self._pending:
            self._pending.pop(key).set_result(reason)
        else:
            self._early[key] = reason

    async def _answered(self, what: str, mid: int) -> int:
        if (what, mid) in self._early:
            return self._early.pop((what, mid))
        waiting: asyncio.Future[int] = self._loop.create_future()
        self._pending[what, mid] = waiting
        async with in_time():
            return await waiting

    def _tell(self, what: Any, *said: Any) -> None:
        """From its thread to the loop of the test, which may be over."""
        try:
            self._loop.call_soon_threadsafe(what, *said)
        except RuntimeError:
            pass


def _succeed(future: asyncio.Future[Greeting], greeting: Greeting) -> None:
    if not future.done():
        future.set_result(greeting)


def _fail(future: asyncio.Future[Greeting], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
