"""One connection: bytes in, packets to the session, bytes out, once a turn.

Reading stops while the session has too much under way, while what it published waits for the disk, and while others need the
room, so that TCP itself tells the client to wait. A client that does not take what it is sent loses what is sent at most once.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import Final, Protocol
from uuid import uuid4

from ortoo.broker.addresses import Visit
from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.budget import Share
from ortoo.doors.peer import address_of, peer_certificate
from ortoo.model.errors import OrtooError, RateLimitedError
from ortoo.model.peer import PeerCertificate

from .client import Client
from .forwarding import forward
from .namespace import Namespace
from .refusals import connect_code_of
from .rules import actions as a
from .rules.messages import Delivery
from .rules.session import Phase, Session
from .services import Services
from .transport import Channel
from .wire.codes import Code
from .wire.decoder import Decoder
from .wire.packets import Connect

_log = logging.getLogger("ortoo.mqtt")

FEED_BYTES: Final = 64 * 1024  # of what was read, at a time
FEED_SECONDS: Final = 0.01  # of one turn of the event loop
CLOSE_SECONDS: Final = 5.0  # for a client to take what was written before the end
CONNECT_BYTES_MAX: Final = 256 * 1024
_PUBACK: Final = b"\x40\x02"  # and the identifier
_PUBACK_BYTES: Final = 4
UNREAD_BYTES_MAX: Final = 1024 * 1024  # that a client has not taken, and is not read from any more
UNSENT_BYTES_MAX: Final = 16 * 1024 * 1024  # that wait for one client
UNSENT_BYTES_FREE: Final = 256 * 1024  # the same, when all together are too many
UNSENT_BYTES_ALL: Final = 512 * 1024 * 1024


class Door(Protocol):
    services: Services
    is_closing: bool

    def namespace_for(self, link: AuthorizedLink, user: str | None) -> Namespace: ...
    def begun(self, connection: Connection) -> None: ...
    def ended(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    def __init__(self, door: Door) -> None:
        self._door = door
        self.services = door.services
        self.session = Session(self.services.terms, self.services.now())
        self.client: Client | None = None  # once it was admitted
        self._decoder = Decoder(self.services.terms.packet_bytes_max, connect_bytes_max=CONNECT_BYTES_MAX)
        self._channel: Channel = None  # type: ignore[assignment]  # until the connection is made
        self._address: str | None = None
        self._certificate: PeerCertificate | None = None
        self._visit: Visit | None = None
        self._is_limited = False  # each read counts as a request
        self._is_guest = False  # of another door
        self._rest = b""  # of what was read: fed in later turns
        self._is_due = False  # that will happen
        self._is_reading = True
        self._is_closed = False
        self._held = 0  # of the share
        self._share = Share(self.services.gate.budget, self.regulate, self._cut)
        self._unsent = 0  # as last looked at
        self._admission: asyncio.Task[None] | None = None
        self._closing: asyncio.TimerHandle | None = None

    # -- the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.open(transport, address_of(transport), peer_certificate(transport))  # type: ignore[arg-type]

    def open(
        self,
        channel: Channel,
        address: str | None,
        certificate: PeerCertificate | None,
        visit: Visit | None = None,
    ) -> None:
        """`visit`: of a connection that another door has let in, and looks after."""
        self._channel, self._address, self._certificate = channel, address, certificate
        self._door.begun(self)
        self._is_guest = visit is not None
        try:
            self._visit = visit = self.services.gate.enter(address) if visit is None else visit
        except OrtooError:
            channel.abort()  # the gate has logged it; before a CONNECT there is no way to say so
        else:
            self._is_limited = visit.is_limited

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closed = True
        if self._closing is not None:
            self._closing.cancel()
        self.session.lost(self.services.now())
        self.pump()
        self._share.give_back(self._held)
        self._share.leave()
        self.services.unsent -= self._unsent
        self._unsent = 0
        if self._visit is not None and not self._is_guest:
            self._visit.leave()
        self._visit, self._is_limited = None, False
        self._door.ended(self)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            self._rest += data
        elif len(data) > FEED_BYTES:
            self._rest = data
            self._feed_more()
        elif not self._is_passed(data):
            self._feed(data)

    def _is_passed(self, data: bytes) -> bool:
        """Whether there is no more to do about it: the PUBACK of a message that nobody asks about, or a PUBLISH that went the
        short way. That is what clients send that do one thing at a time."""
        client = self.client
        if client is None or client.connection is not self or self._is_limited or len(data) < _PUBACK_BYTES:
            return False
        if self._decoder.is_begun or client.is_supplied or not self._is_reading or self._is_slow:
            return False
        if len(data) == _PUBACK_BYTES and data[:2] == _PUBACK:
            return self.session.acked(data[2] << 8 | data[3], self.services.now())
        if len(data) > self._decoder.bytes_max:
            return False
        answer = forward(client, data, self.services.now())
        if answer:
            self._channel.write(answer)
        return answer is not None

    def _feed_more(self) -> None:
        """A slice at a time, and not for long: the smallest packet has two bytes."""
        self._is_due = False
        until = monotonic() + FEED_SECONDS
        while self._rest and not self._is_closed and not self._must_wait():
            data, self._rest = self._rest[:FEED_BYTES], self._rest[FEED_BYTES:]
            self._feed(data)
            if monotonic() > until:
                break

    def _feed(self, data: bytes) -> None:
        packets = self._decoder.feed(data)
        error = self._decoder.error
        if self._is_limited and packets:
            try:
                assert self._visit is not None
                self._visit.ask()
            except RateLimitedError as refusal:
                self.session.disconnect(Code.MESSAGE_RATE_TOO_HIGH, str(refusal), self.services.now())
                self.pump()
                return
        if packets or error is not None:
            self.session.receive(packets, error, self.services.now())
            self.pump()
            if self.client is not None and self.client.is_supplied:
                self.client.wake_sources()  # what the client has answered makes room for more
        else:
            self.regulate()

    # -- out

    def pump(self) -> None:
        if self.client is not None:
            self.client.pump()
            return
        for action in self.session.take_actions():
            if isinstance(action, a.Admit):
                self._admission = asyncio.get_running_loop().create_task(self._admit(action.connect))
            elif isinstance(action, a.Close):
                self.flush()
                self.close()
        self.flush()

    def flush(self) -> None:
        self.write()
        self.regulate()

    def write(self) -> None:
        data = self.session.take()
        if data and not self._is_closed:
            self._channel.write(data)
            if self._unsent or len(data) > UNSENT_BYTES_FREE:
                self._count_unsent()

    def close(self) -> None:
        """After what is to be written, unless the client does not take that."""
        if not self._is_closed:
            self.flush_last()
            self._channel.close()
            if self._closing is None:
                self._closing = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._channel.abort)

    def flush_last(self) -> None:
        data = self.session.take()
        if data and not self._channel.is_closing():
            self._channel.write(data)

    def abort(self) -> None:
        self._channel.abort()

    def forward(self, before: bytes, after: bytes | None, now: int) -> bool:
        if self._is_slow or self._unsent or self._is_closed:
            return False
        packet = self.session.forward(before, after, now)
        if packet is None:
            return False
        self._channel.write(packet)
        return True

    def fitting(self, deliveries: list[Delivery]) -> list[Delivery]:
        """As long as the client takes what it is sent, all of them."""
        if not self._unsent and not self._is_slow:
            return deliveries
        self._count_unsent()
        most = UNSENT_BYTES_MAX if self.services.unsent <= UNSENT_BYTES_ALL else UNSENT_BYTES_FREE
        if self._unsent <= most:
            return deliveries
        self.services.meters.dropped += len(deliveries)
        return []

    _is_slow = False

    @property
    def is_behind(self) -> bool:
        """What is leased for the client waits meanwhile where it is."""
        return self._is_slow and self._unsent > UNREAD_BYTES_MAX

    def _count_unsent(self) -> None:
        size = self._channel.get_write_buffer_size()
        self.services.unsent += size - self._unsent
        self._unsent = size

    def pause_writing(self) -> None:
        self._is_slow = True
        self._count_unsent()
        self.regulate()

    def resume_writing(self) -> None:
        self._is_slow = False
        self._count_unsent()
        self.regulate()
        if self.client is not None and self.client.connection is self:
            self.client.wake_sources()

    # -- reading, or not

    def regulate(self) -> None:
        if self._is_closed or self._channel.is_closing():
            return
        if self._is_calm:  # as mostly
            return
        must_wait = self._must_wait()
        held = self._decoder.held + len(self._rest)
        if held != self._held:
            self._hold(held)
        is_reading = not must_wait and not self._rest and (not self._held or self._share.may_go_on())
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            (self._channel.resume_reading if is_reading else self._channel.pause_reading)()
        if self._rest and not must_wait and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._feed_more)

    @property
    def _is_calm(self) -> bool:
        """It reads, and nothing is under way that could be a reason not to."""
        client = self.client
        return (
            self._is_reading
            and not self._is_slow
            and not self._rest
            and not self._held
            and not self._decoder.held
            and client is not None
            and client.is_calm
            and not client.namespace.is_crowded
        )

    def _must_wait(self) -> bool:
        if self.session.is_busy:
            return True
        if self._is_slow and self._unsent > UNREAD_BYTES_MAX:
            return True
        client = self.client
        return client is not None and (client.is_crowded or client.namespace.is_crowded)

    def _hold(self, size: int) -> None:
        """Of packets that are not whole yet, or wait for their turn, so much is here."""
        change, self._held = size - self._held, size
        if change > 0:
            self._share.take(change)
        elif change < 0:
            self._share.give_back(-change)

    def _cut(self) -> None:
        """Others need what is held here, and the rest does not come."""
        self.session.disconnect(Code.SERVER_BUSY, str(self._share.crowded()), self.services.now())
        self.pump()

    def tick(self, now: int, *, is_late: bool) -> None:
        """Once in a while: who has been silent for too long, or may not be here any more. `is_late`: this process stood still, so
        that silence says nothing; neither does it while nothing is read here."""
        if is_late or not self._is_reading:
            self.session.excuse(now)
        deadline = self.session.deadline
        if deadline is not None and deadline <= now:
            self.session.tick(now)
            self.pump()
        client = self.client
        if client is None or client.connection is not self:
            return
        if self._is_slow:
            self._count_unsent()
        if client.link is not None and not client.link.is_valid:
            self.session.disconnect(Code.NOT_AUTHORIZED, "the token has expired or was revoked", now)
            self.pump()
        elif client.queues.by_filter:
            client.start(client.queues.tick())

    # -- admission

    async def _admit(self, connect: Connect) -> None:
        try:
            link = self._enter(connect)
        except OrtooError as error:
            self.session.refuse(connect_code_of(error), str(error))
            self.pump()
            return
        try:
            await self._accept(connect, link)
        except Exception as error:  # nobody else would answer the client
            if not isinstance(error, OrtooError):
                _log.exception("an MQTT client could not be admitted")
            if self.session.phase is Phase.ADMITTING:
                self.session.refuse(Code.SERVER_UNAVAILABLE, "the server cannot take this session now; try again later")
                self.pump()
        finally:
            if self.client is None:
                link.disconnect()

    def _enter(self, connect: Connect) -> AuthorizedLink:
        token = None
        if connect.password is not None and self.services.gate.needs_token:
            token = connect.password.decode(errors="replace")
        return self.services.gate.connect(token, self._address, self._certificate)

    async def _accept(self, connect: Connect, link: AuthorizedLink) -> None:
        client_id = connect.client_id or f"auto-{uuid4().hex}"
        try:
            namespace = self._door.namespace_for(link, connect.user)
            client = namespace.client(client_id)
            client.coming += 1
        except OrtooError as error:
            self.session.refuse(connect_code_of(error), str(error))
            self.pump()
            return
        try:
            await self._take_place(client, connect, link)
        finally:
            client.coming -= 1
            if self.client is None:
                self.pump()
                namespace.forget(client)

    async def _take_place(self, client: Client, connect: Connect, link: AuthorizedLink) -> None:
        async with client.admitting:
            if client.connection is not None:
                client.session.take_over(self.services.now())
                client.pump()
            await client.wait_ended()
            if connect.clean_start and self.session.phase is Phase.ADMITTING:
                await client.discard_record()
            if self.session.phase is Phase.ADMITTING and not self._door.is_closing:
                client.rights.use(link)
                if connect.will is not None and not client.rights.may_leave(connect.will.topic):
                    self.session.refuse(Code.NOT_AUTHORIZED, "the client may not publish its will")
                else:
                    self.client = client
                    client.attach(self, self.session, link, self.services.now())
