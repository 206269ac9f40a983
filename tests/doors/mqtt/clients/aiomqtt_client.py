"""aiomqtt: asyncio on top of paho-mqtt."""

from __future__ import annotations

import asyncio

import aiomqtt
from aiomqtt.exceptions import MqttConnectError
from paho.mqtt.subscribeoptions import SubscribeOptions

from .client import NONE, Address, Client, Ended, Greeting, Message, Options, Properties, Refused, in_time
from .paho_client import (
    connect_properties,
    from_paho,
    subscribe_properties,
    tls_of,
    to_paho,
    transport_of,
    will_properties,
)


class AiomqttClient(Client):
    CAN = frozenset({"websocket"})

    def __init__(self, address: Address, options: Options) -> None:
        super().__init__(address, options)
        will = options.will
        five = options.version == 5
        self._mqtt = aiomqtt.Client(
            address.host,
            address.port,
            identifier=options.client_id,
            protocol=aiomqtt.ProtocolVersion(options.version),
            keepalive=options.keep_alive,
            transport=transport_of(address),
            tls_context=tls_of(address),
            websocket_path=address.path if address.is_websocket else None,
            username=options.user,
            password=options.password,
            properties=connect_properties(options),
            will=None
            if will is None
            else aiomqtt.Will(will.topic, will.payload, will.qos, will.retain, will_properties(will, options.version)),
            **({"clean_start": options.clean} if five else {"clean_session": options.clean}),  # type: ignore[arg-type]
        )
        self._reader: asyncio.Task[None] | None = None

    async def connect(self) -> Greeting:
        async with in_time():
            try:
                await self._mqtt.__aenter__()
            except MqttConnectError as error:
                reason = error.rc
                raise Refused(reason if isinstance(reason, int) else getattr(reason, "value", 0x80)) from None
        self._reader = asyncio.create_task(self._read())
        return Greeting()

    async def _read(self) -> None:
        try:
            async for message in self._mqtt.messages:
                self.inbox.put_nowait(
                    Message(
                        str(message.topic),
                        bytes(message.payload or b""),
                        message.qos,
                        bool(message.retain),
                        False,
                        from_paho(message.properties),
                        message.mid,
                    )
                )
        except aiomqtt.MqttError:
            self._end(Ended())

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
        async with in_time():
            if self.options.version == 5:
                options = SubscribeOptions(qos, no_local, retain_as_published, retain_handling)
                more = subscribe_properties(identifier, user)
                [granted] = await self._mqtt.subscribe(filter, options=options, properties=more)
            else:
                [granted] = await self._mqtt.subscribe(filter, qos)
        return granted if isinstance(granted, int) else granted.value

    async def unsubscribe(self, filter: str) -> None:
        async with in_time():
            await self._mqtt.unsubscribe(filter)

    async def publish(
        self, topic: str, payload: bytes = b"", qos: int = 1, *, retain: bool = False, properties: Properties = NONE
    ) -> int:
        more = to_paho(properties) if self.options.version == 5 else None
        async with in_time():
            await self._mqtt.publish(topic, payload, qos, retain, more)
        return 0

    async def disconnect(self, reason: int = 0) -> None:
        assert reason == 0
        await self.close()

    async def close(self) -> None:
        if self._reader is None:
            return
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        self._reader = None
        async with in_time():
            await self._mqtt.__aexit__(None, None, None)
        if self._mqtt._disconnected.done():
            self._mqtt._disconnected.exception()  # has been looked at
