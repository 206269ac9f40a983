"""Connections that cost next to nothing, so that servers are measured and not their clients.

What is sent was made beforehand, as one piece for many packets; what comes is counted by its length, because all packets of a
round have the same one. A library that makes an object for each message reaches a tenth of what a server can do.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from time import monotonic

from ortoo.doors.mqtt.wire.codes import V5, V311
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.packets import Connack, Connect, Packet, Suback, Subscribe, Subscription
from ortoo.doors.mqtt.wire.properties import NONE, Properties

_READ_BYTES = 256 * 1024
_ANSWER_SECONDS = 30.0
_PACKET_BYTES_MAX = 1 << 20


def connect(port: int, client_id: str, version: int = V311) -> socket.socket:
    """A connection that the server has welcomed."""
    connection = socket.create_connection(("127.0.0.1", port), _ANSWER_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The session ends with the connection, in either version.
    [answer] = _ask(connection, encode(Connect(client_id, version, keep_alive=600), version), version)
    if not isinstance(answer, Connack) or answer.reason:
        raise RuntimeError(f"the server did not welcome {client_id}: {answer}")
    return connection


def subscribe(connection: socket.socket, filter: str, qos: int, user: tuple[tuple[str, str], ...] = ()) -> None:
    """User properties make it MQTT 5."""
    version = V5 if user else V311
    asked = Subscribe(1, (Subscription(filter, qos),), Properties(user=user) if user else NONE)
    [answer] = _ask(connection, encode(asked, version), version)
    if not isinstance(answer, Suback) or answer.reasons != (qos,):
        raise RuntimeError(f"the server did not grant {filter}: {answer}")


def _ask(connection: socket.socket, data: bytes, version: int) -> list[Packet]:
    connection.sendall(data)
    decoder, found = Decoder(_PACKET_BYTES_MAX, side="client", version=version), list[Packet]()
    while not found:
        data = connection.recv(_READ_BYTES)
        if not data:
            raise RuntimeError("the server closed the connection")
        found = decoder.feed(data)
    return found


class Link:
    """One end of a connection in a loop. `on_data` is for what kind of end it is."""

    def __init__(self, loop: Loop, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self._waiting: list[bytes] = []
        self._loop = loop
        loop.add(self)

    def on_data(self, data: bytes) -> None:
        raise NotImplementedError

    def send(self, data: bytes) -> None:
        if self._waiting:
            self._waiting.append(data)
            return
        try:
            sent = self.connection.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self._waiting.append(data[sent:])
            self._loop.watch_writing(self, True)

    def flush(self) -> None:
        waiting, self._waiting = b"".join(self._waiting), []
        self.send(waiting)
        if not self._waiting:
            self._loop.watch_writing(self, False)


class Loop:
    """Hands out what comes, until it is time to stop."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._links: dict[int, Link] = {}

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links.values():
            link.connection.close()
        self._epoll.close()

    def add(self, link: Link) -> None:
        self._links[link.connection.fileno()] = link
        self._epoll.register(link.connection.fileno(), select.EPOLLIN)

    def watch_writing(self, link: Link, watch: bool) -> None:
        self._epoll.modify(link.connection.fileno(), select.EPOLLIN | (select.EPOLLOUT if watch else 0))

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
        """The seconds that it took."""
        began = now = monotonic()
        while now < began + seconds and not until():
            for number, event in self._epoll.poll(min(0.05, began + seconds - now)):
                link = self._links[number]
                if event & select.EPOLLOUT:
                    link.flush()
                if event & ~select.EPOLLOUT:
                    self._read(link)
            now = monotonic()
        return now - began

    def _read(self, link: Link) -> None:
        try:
            data = link.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise RuntimeError("the server closed a connection")
        link.on_data(data)
