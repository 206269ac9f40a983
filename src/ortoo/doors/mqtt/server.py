"""The MQTT door: listens, keeps its connections and namespaces, looks after sessions that nobody is connected to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic

from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.gate import Gate
from ortoo.doors.listening import Listening, ServerTls, listen
from ortoo.model.access import MQTT_NAMESPACE, SYSTEM_NAMESPACE
from ortoo.model.errors import ConfigError, ForbiddenError, OrtooError, TooManyError
from ortoo.model.metrics import MqttFigures
from ortoo.model.mqtt_settings import MqttSettings
from ortoo.model.names import DEFAULT_NAMESPACE, TopicName, check_name

from .connection import Connection
from .inbox import Inbox
from .namespace import Namespace
from .rules.lifetime import reopen
from .services import QueueAdmin, Services
from .system import SystemTopics
from .wire.codes import Code, MqttError

_log = logging.getLogger("ortoo.mqtt")

_TICK_SECONDS = 1.0
_PER_TURN = 500  # connections and sessions that are looked at in one turn
_NAMESPACES_MAX = 10_000


class MqttDoor:
    def __init__(self, gate: Gate, settings: MqttSettings, *, admin: QueueAdmin, tls: ServerTls | None = None) -> None:
        self.services = Services(gate, settings, admin)
        self.is_closing = False
        port = settings.port if settings.port is not None else (1883 if tls is None else 8883)
        self.address: tuple[str, int] = (settings.host, port)
        self._is_optional = settings.port is None
        self._settings = settings
        self._tls = tls
        self._listener: Listening | None = None
        self._namespaces: dict[str, Namespace] = {}
        self._connections: set[Connection] = set()
        self._ticker: asyncio.Task[None] | None = None
        self._system = SystemTopics(self.services)
        gate.tell_mqtt(self._figures)

    @property
    def is_listening(self) -> bool:
        return self._listener is not None

    async def open(self) -> None:
        """Listening when it returns. A default port that is taken is no reason not to serve the rest."""
        await self._restore()
        host, port = self.address
        try:
            self._listener = await listen(
                "mqtt", lambda: Connection(self), self.address, self._tls, _answer_plain, 4096
            )
        except OSError as error:
            why = f"{host}:{port}: {error.strerror or error}"
            if not self._is_optional:
                raise ConfigError(f"MQTT cannot listen on {why}; choose another with mqtt.port") from error
            _log.warning("MQTT cannot listen on %s; only WebSocket is served. Choose another with mqtt.port", why)
        else:
            bound = self._listener.sockets[0].getsockname()
            self.address = (bound[0], bound[1])
        self._ticker = asyncio.get_running_loop().create_task(self._tick(), name="ortoo-mqtt-ticker")

    async def close(self, grace: float = 0.0) -> None:
        if self.is_closing:
            return
        self.is_closing = True
        if self._listener is not None:
            self._listener.close()
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        now = self.services.now()
        for connection in list(self._connections):
            connection.session.disconnect(Code.SERVER_SHUTTING_DOWN, "the server stops", now)
            connection.pump()
        clients = [client for namespace in self._namespaces.values() for client in namespace.clients.values()]
        try:
            async with asyncio.timeout(max(grace, 1.0)):
                await asyncio.gather(*(client.wait_ended() for client in clients))
                for namespace in self._namespaces.values():
                    await namespace.line.wait_idle()
        except TimeoutError:
            _log.warning("sessions of MQTT were not saved in time")
        for client in clients:
            client.close()
        for connection in list(self._connections):
            connection.abort()

    # -- namespaces

    def namespace_for(self, link: AuthorizedLink, user: str | None) -> Namespace:
        """That of the token; where it has several, the one behind the @ of the user name, or the default."""
        principal = link.principal
        _, at, named = (user or "").rpartition("@")
        realm = principal.realm
        if not self.services.gate.needs_token:
            name = DEFAULT_NAMESPACE
        elif realm is not None and len(realm) == 1:
            name = realm[0]
        elif at and named:
            name = check_name("a namespace", named)
        else:
            name = DEFAULT_NAMESPACE
        if name in (SYSTEM_NAMESPACE, MQTT_NAMESPACE):
            raise ForbiddenError(f"the namespace {name!r} is the server's own")
        if not (principal.allows_in("read", name) or principal.allows_in("write", name)):
            raise ForbiddenError(f"the token is not for the namespace {name!r}; name another one: USER@NAMESPACE")
        return self._namespace(name)

    def _namespace(self, name: str) -> Namespace:
        found = self._namespaces.get(name)
        if found is None:
            if len(self._namespaces) >= _NAMESPACES_MAX:
                raise TooManyError("too many namespaces have clients of MQTT")
            found = self._namespaces[name] = Namespace(name, self.services)
            for filter, topic in captures_of(self._settings.capture, name):
                found.captures.configure(filter, topic)
        return found

    async def _restore(self) -> None:
        """What was there before a restart: sessions with their subscriptions, and retained messages."""
        storage, now = self.services.storage, self.services.now()
        await storage.open()
        keys: dict[str, tuple[str, str]] = {}
        async for namespace, message, key in storage.retained():
            if message is None:
                if key in keys:
                    known, text = keys[key]
                    self._namespace(known).retained.delete(text)
                continue
            keys[key] = (namespace, message.topic)
            self._namespace(namespace).retained.set(message)
        for captured in await storage.captures():
            try:
                self._namespace(captured.namespace).captures.restore(captured)
            except MqttError as error:  # nothing that was stored keeps the server from starting
                _log.error("a capture of MQTT cannot be restored", extra={"error": str(error)})
        inboxes = await storage.inboxes()
        clients = []
        async for namespace, state in storage.sessions():
            reopen(state, now)
            topic = TopicName(MQTT_NAMESPACE, state.inbox)
            backlog = inboxes.pop(topic, None)
            client = self._namespace(namespace).client(state.client_id)
            client.restore(state, Inbox(self.services, topic, backlog or 0, is_made=backlog is not None))
            clients.append(client)
        for topic in inboxes:  # of sessions that are over
            await storage.delete_inbox(topic)
        for client in clients:
            client.namespace.look_after(client)
        if clients:
            _log.info("sessions of MQTT restored", extra={"sessions": len(clients)})

    # -- what connections tell

    def begun(self, connection: Connection) -> None:
        self._connections.add(connection)

    def ended(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def _figures(self) -> MqttFigures:
        namespaces, meters = self._namespaces.values(), self.services.meters
        return MqttFigures(
            sum(len(each.clients) for each in namespaces),
            sum(each.index.count for each in namespaces),
            sum(len(each.retained) for each in namespaces),
            sum(each.received for each in namespaces),
            meters.sent,
            meters.dropped,
        )

    async def _tick(self) -> None:
        """Cannot raise: nobody would be told."""
        while True:
            slept_at = monotonic()
            await asyncio.sleep(_TICK_SECONDS)
            try:
                await self._look(is_late=monotonic() - slept_at > 2 * _TICK_SECONDS)
            except Exception:
                _log.exception("a look at the connections of MQTT failed")

    async def _look(self, *, is_late: bool) -> None:
        now = self.services.now()
        for place, connection in enumerate(list(self._connections), 1):
            connection.tick(now, is_late=is_late)
            if place % _PER_TURN == 0:
                await asyncio.sleep(0)
        for namespace in list(self._namespaces.values()):
            namespace.tick(now)
            namespace.expire_retained(now)
            try:
                await namespace.captures.forget()
            except OrtooError as error:  # the others have theirs; it is tried again
                _log.warning("a capture of MQTT cannot be forgotten", extra={"error": str(error)})
            await asyncio.sleep(0)
        await self._system.tell(self._namespaces.values(), self._connections, now)


def captures_of(settings: Sequence[str], namespace: str) -> list[tuple[str, TopicName]]:
    """Of one namespace: `FILTER=TOPIC`, or `FILTER=NAMESPACE:TOPIC`."""
    found = []
    for text in settings:
        filter, _, target = text.rpartition("=")
        where, colon, topic = target.partition(":")
        name = TopicName(where, topic) if colon else TopicName(DEFAULT_NAMESPACE, target)
        if name.namespace == namespace:
            found.append((filter, name))
    return found


def _answer_plain(first: bytes) -> bytes:
    """To a client that does not speak TLS: there is no way to tell it."""
    return b""
