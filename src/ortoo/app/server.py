"""The server: a store, a broker, and the doors to it. Starts whole or not at all, and ends without losing a request."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Literal, Protocol

import msgspec

from ortoo.broker import AddressLimits, Broker, Budget, Gate, Presence, Sampler, SeriesReader, Throttle
from ortoo.broker.shards import Shards
from ortoo.broker.shards.shards import Opened
from ortoo.broker.showing import projection_of
from ortoo.client.event_loop import STOPPING, heard, loop_factory
from ortoo.dialects import DIALECTS
from ortoo.dialects.gomq import GomqDoor
from ortoo.dialects.mqtt_queues.admin import MqttQueueAdmin
from ortoo.doors.http import HttpDoor
from ortoo.doors.listening import FILES_PER_HANDSHAKE, HANDSHAKES_MAX, ServerTls
from ortoo.doors.mqtt.server import MqttDoor
from ortoo.doors.mqtt.websocket import PATH as MQTT_PATH
from ortoo.doors.mqtt.websocket import serve as serve_mqtt
from ortoo.doors.tcp.server import TcpDoor
from ortoo.doors.unix import is_unix
from ortoo.model.errors import ConfigError
from ortoo.model.places import LOOPBACK
from ortoo.model.settings import MEMORY, NO_SPILL, HttpSettings, LimitSettings, Settings
from ortoo.model.shown_settings import ShownSettings
from ortoo.model.version import __version__
from ortoo.ports import Store
from ortoo.stores.disk.open_files import file_limit, files_for_sockets, raise_file_limit

from .audit import Audit
from .authentication import make_authenticator
from .certificates import Certificates
from .clock import SystemClock
from .destinations import Destinations
from .exposure import check_exposure, risk_of
from .garbage import Collector
from .logs import configure_logs
from .metrics import Metrics
from .new_topics import check_new_topics
from .shards import Where, make_brokers, names_of
from .sharing import open_sharing
from .stores import Ahead, refuse_buffer_without_database
from .watch import Watch
from .webhook import POSTS_MAX, Webhook

_log = logging.getLogger("ortoo.server")

EXIT_BROKEN = 70


class Door(Protocol):
    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as bound."""
        ...

    async def open(self) -> None: ...

    async def close(self, grace: float = 0.0) -> None:
        """Takes nobody in any more, lets requests finish for up to `grace` seconds, then ends them."""
        ...


class Server:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.authenticator = make_authenticator(settings)
        check_exposure(settings, self.authenticator.needs_token)
        destinations = Destinations(settings.webhooks.allow)
        raise_file_limit()
        self.shards = _make_shards(settings, self._opened)
        self.broker = self.shards.first  # the only one, mostly; of several, the one that tells of the server itself
        self.webhook = _make_webhook(self.shards, destinations, settings.webhooks.secrets)
        self.addresses: dict[str, tuple[str, int]] = {}  # where each door listens, by its name: "http", "tcp"
        self._doors: dict[str, Door] = {}
        self.broker.problem_sources.append(self.authenticator.problems)
        self.audit: Audit | None = None
        self._gates = self._make_gates()
        self.sharing = open_sharing(settings.redis, *self.shards.brokers)
        self.shards.shares_dedup |= self.sharing is not None
        self.certificates: Certificates | None = None  # with TLS, once it has started
        self._metrics = Metrics(self.shards.link, self.webhook, self._certificate_seconds, settings.http.dialects)
        self.watch = Watch(self.shards)
        self._samplers = {broker: _make_sampler(broker) for broker in self.shards.brokers}
        self.sampler = self._samplers[self.broker]
        self._open = AsyncExitStack()  # what is to be closed, the last first
        self._running = AsyncExitStack()  # of that, what runs beside the shards
        self._is_stopping = False

    def ready(self) -> str | None:
        """Why clients should not be sent here now; None when they should."""
        if self._is_stopping:
            return "the server is stopping"
        if self.shards.refusal is not None:
            return str(self.shards.refusal)
        return self.shards.full()

    async def start(self) -> None:
        """Recovers, then opens the doors. When anything fails, what was opened is closed again."""
        async with AsyncExitStack() as undo:
            await self._start(undo)
            self._open = undo.pop_all()

    async def _start(self, undo: AsyncExitStack) -> None:
        if self.settings.tls.certificate is not None:
            self.certificates = Certificates(self.settings.tls)
            self.broker.problem_sources.append(self.certificates.problems)
        doors = self._make_doors()
        began = perf_counter()
        undo.push_async_callback(self.shards.close, checkpoint=True)
        undo.push_async_callback(self._running.aclose)
        await self.shards.open()
        _log.info(
            "recovered",
            extra={"data": ", ".join(self.shards.stores), "seconds": round(perf_counter() - began, 3)},
        )
        if self.sharing is not None:
            undo.push_async_callback(self.sharing.stop)
            await self.sharing.start()
        self.watch.look()
        self.watch.start()
        undo.push_async_callback(self.watch.stop)
        if self.certificates is not None:
            self.certificates.start()
            undo.push_async_callback(self.certificates.stop)
        undo.push_async_callback(self.authenticator.stop)
        await self.authenticator.start()
        if self.audit is not None:
            self.audit.start()
            undo.push_async_callback(self.audit.stop)
        self.webhook.start()
        undo.push_async_callback(self.webhook.close)
        for name, door in doors.items():
            undo.push_async_callback(door.close)
            await door.open()
            self._doors[name] = door
            if not isinstance(door, MqttDoor) or door.is_listening:
                self.addresses[name] = door.address
                self.broker.meters.door(name).port = door.address[1]
                self._tell_address(name, *door.address)

    async def _opened(self, broker: Broker) -> None:
        """What runs beside each shard."""
        sampler = self._samplers[broker]
        await sampler.open()
        self._running.push_async_callback(sampler.stop)
        if (projection := projection_of(broker)) is not None:
            broker.problem_sources.append(projection.problems)
            projection.start()
            self._running.push_async_callback(projection.stop)

    def reload(self) -> None:
        """Has what can be read again while it runs, the certificate, read again."""
        if self.certificates is not None:
            self.certificates.reload()

    def _certificate_seconds(self) -> float | None:
        return self.certificates.seconds_left if self.certificates is not None else None

    async def stop(self) -> None:
        """Graceful: takes nobody in any more, lets what is under way finish for `drain_seconds`, closes the store."""
        if self._is_stopping:
            return
        self._is_stopping = True
        _log.info("stopping", extra={"drain_seconds": self.settings.drain_seconds})
        began = perf_counter()
        await self._drain(self.settings.drain_seconds)
        await self.webhook.close(max(0.0, self.settings.drain_seconds - (perf_counter() - began)))
        await self._open.aclose()
        _log.info("drained", extra={"seconds": round(perf_counter() - began, 3)})

    async def _drain(self, grace: float) -> None:
        closed = await asyncio.gather(*(door.close(grace) for door in self._doors.values()), return_exceptions=True)
        for error in closed:
            if isinstance(error, Exception):
                _log.error("a door did not close", exc_info=error)

    def _make_gates(self) -> dict[str, Gate]:
        access, budget = self.authenticator, Budget(self.settings.limits.in_flight_bytes)
        names = self._door_names()
        doors = len(names)
        handshakes = _fit_handshakes(doors) if self.settings.tls.certificate is not None else 0
        limits = _fit_connections(self.settings.limits, doors, handshakes)
        addresses = AddressLimits(limits.connections_per_ip, limits.requests_per_second_per_ip)
        wanted = self.settings.audit.enabled
        if access.needs_token if wanted is None else wanted:
            self.audit = Audit(self.shards.link)
            self.broker.problem_sources.append(self.audit.problems)
        audited = None if self.audit is None else self.audit.note
        shared = (Presence(self.shards.link), addresses, Throttle(self.broker), audited)
        return {name: Gate(name, self.shards, access, limits, budget, *shared) for name in names}

    def _door_names(self) -> list[str]:
        settings = self.settings
        enabled = {
            "http": settings.http.enabled,
            "tcp": settings.tcp.enabled,
            "mqtt": settings.mqtt.enabled,
            "gomq": settings.gomq.enabled,
        }
        return [name for name, is_on in enabled.items() if is_on] + list(dialect_ports(settings.http))

    def _make_doors(self) -> dict[str, Door]:
        tls = None
        if self.certificates is not None:
            tls = ServerTls(self.certificates.context, _fit_handshakes(len(self._gates)))
        doors: dict[str, Door] = {}
        mqtt = self._mqtt(tls) if "mqtt" in self._gates else None
        if mqtt is not None:  # before HTTP, which hands its WebSockets over
            doors["mqtt"] = mqtt
        if "http" in self._gates:
            doors["http"] = HttpDoor(
                self._gates["http"],
                self.settings.http,
                tls=tls,
                metrics=self._metrics.render,
                ready=self.ready,
                lake=self.settings.lake,
                dialects=[DIALECTS[name] for name in self.settings.http.dialects],
                sockets={} if mqtt is None else {MQTT_PATH: partial(serve_mqtt, mqtt)},
            )
        for name, port in dialect_ports(self.settings.http).items():
            http = self.settings.http
            host = LOOPBACK if is_unix(http.host) else http.host  # a port is on the network
            own = msgspec.structs.replace(http, host=host, port=port, cors_origins=http.dialect_cors_origins)
            doors[name] = HttpDoor(
                self._gates[name], own, tls=tls, metrics=self._metrics.render, ready=self.ready, own=DIALECTS[name]
            )
        if "tcp" in self._gates:
            doors["tcp"] = TcpDoor(self._gates["tcp"], self.settings.tcp, tls=tls, server=f"ortoo/{__version__}")
        if "gomq" in self._gates:
            doors["gomq"] = GomqDoor(self._gates["gomq"], self.settings.gomq, tls=tls)
        return doors

    def _mqtt(self, tls: ServerTls | None) -> MqttDoor:
        return MqttDoor(self._gates["mqtt"], self.settings.mqtt, admin=MqttQueueAdmin(), tls=tls)

    def _tell_address(self, door: str, host: str, port: int) -> None:
        is_tls = self.settings.tls.certificate is not None and not is_unix(host)
        _log.info("listening", extra={"door": door, "host": host, "port": port, "tls": is_tls})
        if (risk := risk_of(self.settings, host, self.authenticator.needs_token)) is not None:
            _log.warning(risk, extra={"door": door, "host": host, "port": port})


def dialect_ports(settings: HttpSettings) -> dict[str, int]:
    """The dialects that have a port of their own."""
    ports = {}
    for text in settings.dialect_ports:
        name, _, port = text.partition("=")
        if name in ports or int(port) > 65_535:
            raise ConfigError(f"http.dialect_ports has {text!r}: a name may be there once, and a port is at most 65535")
        ports[name] = int(port)
    return ports


def _make_shards(settings: Settings, opened: Opened) -> Shards:
    """A store each; one, in the data directory, where none is named."""
    check_new_topics(settings)
    named: list[Where] = [*settings.store] or [None if settings.data == MEMORY else settings.data]

    def make(store: Store, shard: int | None) -> Broker:
        defaults = settings.new_topics
        return Broker(store, SystemClock(), auto_create=settings.auto_create, shard=shard, topic_defaults=defaults)

    ahead = Ahead(spill_of(settings), settings.spill_bytes, buffer_of(settings, named), settings.buffer_bytes)
    brokers = make_brokers(named, settings.encryption_keys, make, ahead)
    for broker in brokers:
        broker.meters.topics_most = max(1, settings.metrics.topics // len(brokers))
        broker.meters.groups_most = max(1, settings.metrics.groups // len(brokers))
    return Shards(brokers, names_of(named), opened)


def buffer_of(settings: Settings, named: Sequence[Where]) -> str | None:
    """The Redis that commits are confirmed from."""
    if settings.buffer is None:
        return None
    if settings.redis is None:
        raise ConfigError("buffer = redis needs a Redis: name it with redis, --redis or ORTOO_REDIS")
    refuse_buffer_without_database(settings.redis, named)
    return settings.redis


def spill_of(settings: Settings) -> Path | None:
    """The folder in which each shard has its spill."""
    if settings.spill is None:
        return None if settings.data == MEMORY else Path(settings.data) / "spill"
    return None if settings.spill == NO_SPILL else Path(settings.spill)


def _make_webhook(shards: Shards, destinations: Destinations, secrets: list[str]) -> Webhook:
    letters = shards.first.on_dead_letters
    for broker in shards.brokers:
        broker.on_dead_letters = letters
    webhook = Webhook(shards.link, letters, destinations=destinations, secrets=secrets)
    shards.first.problem_sources.append(webhook.problems)
    return webhook


def _make_sampler(broker: Broker) -> Sampler:
    sampler = Sampler(broker)
    broker.meters.series = SeriesReader(sampler)
    broker.problem_sources.append(sampler.problems)
    return sampler


def _files_per_door(doors: int) -> int:
    return (files_for_sockets() - POSTS_MAX) // max(1, doors)


def _fit_handshakes(doors: int) -> int:
    """How many a door may have under way. Connections are counted after them, so they have files of their own."""
    return max(1, min(HANDSHAKES_MAX, _files_per_door(doors) // (4 * FILES_PER_HANDSHAKE)))


def _fit_connections(limits: LimitSettings, doors: int, handshakes: int = 0) -> LimitSettings:
    """Every connection is an open file, and clients must not take those that the store and webhooks need."""
    room = _files_per_door(doors) - handshakes * FILES_PER_HANDSHAKE
    if room < 1:
        raise ConfigError(
            f"this process may open only {file_limit()} files; allow it more (`ulimit -n`, or LimitNOFILE= of systemd)"
        )
    if limits.connections <= room:
        return limits
    _log.warning(
        "limits.connections is lowered: this process may open too few files (`ulimit -n`, or LimitNOFILE= of systemd)",
        extra={"connections": room, "wanted": limits.connections, "files": file_limit()},
    )
    return msgspec.structs.replace(limits, connections=room)


def run(
    settings: Settings,
    listening: Callable[[Server], None] = lambda server: None,
    shown: ShownSettings | None = None,
) -> int:
    """Serves until SIGTERM or SIGINT, and returns the exit code. `listening` is called once the doors are open; `shown` is what
    administrators are told of the settings."""
    configure_logs(settings.log)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(settings, listening, shown))


async def _serve(settings: Settings, listening: Callable[[Server], None], shown: ShownSettings | None) -> int:
    server, asked = Server(settings), asyncio.Event()
    server.broker.settings = shown
    with ExitStack() as hearing:
        hearing.enter_context(heard(STOPPING, lambda number: _on_signal(number, asked)))
        if settings.tls.certificate is not None and hasattr(signal, "SIGHUP"):  # else it ends the server
            hearing.enter_context(heard([signal.SIGHUP], lambda number: server.reload()))
        return await _serve_until(server, asked, listening)


async def _serve_until(server: Server, asked: asyncio.Event, listening: Callable[[Server], None]) -> int:
    starting, stopping = asyncio.create_task(server.start()), asyncio.create_task(asked.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return 0
    starting.result()
    collector = Collector(server.broker.meters.requests)
    collector.start()
    try:
        listening(server)
        await _until(stopping, server.watch.broken)
    finally:
        await collector.stop()
        await server.stop()
    return 0


async def _until(stopping: asyncio.Task[Literal[True]], broken: asyncio.Event) -> None:
    breaking = asyncio.create_task(broken.wait())
    await asyncio.wait({stopping, breaking}, return_when=asyncio.FIRST_COMPLETED)
    if breaking.done():  # closing would wait for commits that never come; a new process recovers what was confirmed
        _log.critical("the broker has ended unexpectedly; ending, start again to recover")
        os._exit(EXIT_BROKEN)
    breaking.cancel()


def _on_signal(number: int, asked: asyncio.Event) -> None:
    """The first asks it to stop; a second one does not wait. Whatever was confirmed is safe either way."""
    if asked.is_set():
        _log.warning("a second signal: ending at once")
        os._exit(128 + number)
    asked.set()
