"""One connection of a client, and the session that it opens or resumes.

    WAITING ──CONNECT──▶ ADMITTING ──accept──▶ OPEN ──DISCONNECT, error, silence, take-over, lost──▶ CLOSED
                                   ──refuse──────────────────────────────────────────────────────▶

Everything that comes in may change the state, give bytes to be sent and actions to be done; nothing here waits, reads a clock or
raises. `now` is in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import CONNACK_CODES, SERVER_DISCONNECT_CODES, V5, Code, MqttError, protocol_error
from ortoo.doors.mqtt.wire.encoding import PINGRESP, encode
from ortoo.doors.mqtt.wire.properties import NONE, Properties

from . import actions as a
from .inbound import Inbound
from .lifetime import disconnect
from .messages import Delivery, PlainRun
from .outbound import Outbound
from .output import Output
from .state import Ref, SessionState
from .subscribing import Subscribing
from .terms import Agreement, Terms, agree, check_connect, to_connack


class Phase(Enum):
    WAITING = "waiting"  # for a CONNECT
    ADMITTING = "admitting"  # the door finds out who it is
    OPEN = "open"
    CLOSED = "closed"


class Session:
    def __init__(self, terms: Terms, now: int) -> None:
        self.phase = Phase.WAITING
        self.state: SessionState | None = None  # once it was accepted
        self._terms = terms
        self._output = output = Output()
        self.take = output.take  # what is to be written, in one write
        self.take_actions = (
            output.take_actions
        )  # what is to be done, in this order; what is taken together is committed together
        self._connect: p.Connect = None  # type: ignore[assignment]  # until it came
        self._agreement: Agreement = None  # type: ignore[assignment]  # until it was accepted, as are these
        self._inbound: Inbound = None  # type: ignore[assignment]
        self._outbound: Outbound = None  # type: ignore[assignment]
        self._subscribing: Subscribing = None  # type: ignore[assignment]
        self._early: list[p.Packet] = []  # what came behind CONNECT, before it was accepted
        self._early_error: MqttError | None = None
        self._heard = now
        self.now = now

    # -- what the door asks

    @property
    def version(self) -> int:
        return self._connect.version

    @property
    def is_busy(self) -> bool:
        """Stop reading: it is not admitted yet, or too many of its publishes wait."""
        if self.phase is Phase.OPEN:
            return self._inbound.is_full or self._subscribing.is_busy
        return self.phase is Phase.ADMITTING

    @property
    def is_calm(self) -> bool:
        """Nothing that the client has asked for is under way."""
        return self.phase is Phase.OPEN and self._inbound.is_calm and not self._subscribing.asked

    @property
    def is_free(self) -> bool:
        """And nothing waits to be sent to it: what it publishes now can be answered at once."""
        return self.is_calm and self._output.open_end() == []

    @property
    def credit(self) -> int:
        """Deliveries of QoS 1 and 2 that would be sent at once. A persistent session is given no more than these."""
        return self._outbound.credit if self.phase is Phase.OPEN else 0

    @property
    def deadline(self) -> int | None:
        """When to call `tick`."""
        if self.phase in (Phase.WAITING, Phase.ADMITTING):
            return self._heard + self._terms.connect_ms
        if self.phase is Phase.OPEN and self._agreement.keep_alive:
            return self._heard + self._agreement.keep_alive * 1_500
        return None

    # -- what comes in

    def receive(self, packets: Sequence[p.Packet], error: MqttError | None, now: int) -> None:
        """All packets of a read, and what was wrong behind them."""
        self.now = now
        if packets:
            self._heard = now
        if self.phase is Phase.ADMITTING:
            self._early += packets
            self._early_error = error
            return
        try:
            is_open = self.phase is Phase.OPEN
            for place, packet in enumerate(packets):
                kind = type(packet)
                if is_open and kind is p.Publish:  # as _TABLE says; nearly all packets are one of these two
                    self._inbound.publish(packet)  # type: ignore[arg-type]
                    continue
                if is_open and kind is p.Puback:
                    self._outbound.answered(packet, now)  # type: ignore[arg-type]
                    continue
                handle = _TABLE[self.phase].get(kind)
                if handle is None:
                    raise protocol_error(f"{packet.kind.name} may not come now")
                handle(self, packet)
                if handle in _TURNING:
                    if self._is_in(Phase.ADMITTING):
                        self._early, self._early_error = list(packets[place + 1 :]), error
                    return
            if is_open and self._outbound.queue:
                self._outbound.drain(now)
            if error is not None:
                raise error
        except MqttError as mistake:
            self._fail(mistake)

    def acked(self, packet_id: int, now: int) -> bool:
        """A PUBACK that came alone, in short: True where there is nothing more to it than that, else `receive` has to see it."""
        if self.phase is not Phase.OPEN or not self._outbound.acked(packet_id):
            return False
        self.hear(now)
        return True

    def accept(self, client_id: str, previous: SessionState | None, now: int) -> None:
        """`client_id` is the client's, or one made up where it has none. `previous` is what is kept of its last connection,
        which has ended, with all its publishes settled."""
        self.now = now
        connect = self._connect
        self._agreement = agreement = agree(connect, self._terms, client_id)
        is_resumed = previous is not None and not connect.clean_start and _is_alive(previous, now)
        if previous is not None:
            self._leave_behind(previous, is_resumed, now)
        state = previous if is_resumed and previous is not None else SessionState(client_id)
        state.is_connected, state.expiry = True, agreement.session_expiry
        state.will, state.will_at, state.expires_at = connect.will, None, None
        self.state = state
        self._output.is_durable = state.expiry > 0
        self._inbound = Inbound(state, agreement, self._terms, self._output)
        self._outbound = Outbound(state, agreement, self._terms, self._output)
        self._subscribing = Subscribing(state, agreement, self._terms, self._output)
        connack = encode(to_connack(connect, self._terms, agreement, is_resumed), connect.version)
        self.phase, self._heard = Phase.OPEN, now
        if self._is_too_large(connack):
            self._close(Code.PACKET_TOO_LARGE, "the client takes no packet as large as a CONNACK")
            return
        # Of a session that ends with its connection a will is kept, and that it ends, where something was kept of it before.
        self._output.send_first(connack, is_saved=state.expiry > 0 or state.will is not None or is_resumed)
        self._outbound.resume()
        early, error = self._early, self._early_error
        self._early, self._early_error = [], None
        self.receive(early, error, now)

    def refuse(self, reason: Code, text: str) -> None:
        """The client is not let in."""
        self._refuse(MqttError(reason, text, self._connect.version))

    def settled(self, ticket: int, reason: int = 0, text: str = "") -> None:
        """What was published under this ticket is safe, or was refused. Also when the connection is gone."""
        try:
            self._inbound.settled(ticket, reason, text)
        except MqttError as error:
            self._fail(error)

    def all_settled(self, tickets: Sequence[int]) -> None:
        """All of these are safe; 0 is the ticket of those that are not answered."""
        try:
            self._inbound.all_settled(tickets)
        except MqttError as error:
            self._fail(error)

    def subscribed(self, packet_id: int, reasons: Sequence[int]) -> None:
        """The QoS that was granted for each filter, or why it was not. Also when the connection is gone."""
        try:
            self._subscribing.subscribed(packet_id, reasons)
        except MqttError as error:
            self._fail(error)

    def saved(self, ticket: int) -> None:
        self._output.saved(ticket)

    def deliver(self, deliveries: Sequence[Delivery], now: int) -> None:
        """Only while it is open."""
        self.now = now
        if self.phase is Phase.OPEN:
            self._outbound.deliver(deliveries, now)
        else:
            refs = tuple(delivery.ref for delivery in deliveries if delivery.qos)
            if refs:
                self._output.act(a.Unsent(refs))

    def hear(self, now: int) -> None:
        """The client has sent something that was dealt with elsewhere."""
        self.now = self._heard = now

    def forward(self, before: bytes, after: bytes | None, now: int) -> bytes | None:
        """A message of QoS 1, whose identifier goes between these bytes, or of QoS 0, if nothing comes after. None where there is
        more to it, so that `deliver` has to see it."""
        self.now = now
        return self._outbound.forward(before, after) if self.phase is Phase.OPEN else None

    def deliver_run(self, run: PlainRun, now: int) -> bool:
        """The same of many that need nothing else, at once; False where they have to be delivered one by one."""
        self.now = now
        return self.phase is Phase.OPEN and self._outbound.deliver_run(run)

    def forget(self, ref: Ref, now: int) -> None:
        """A message that was to be delivered again is gone."""
        if self.phase is Phase.OPEN:
            self._outbound.forget(ref, now)

    def tick(self, now: int) -> None:
        self.now = now
        deadline = self.deadline
        if deadline is None or now < deadline:
            return
        if self.phase is Phase.WAITING:
            self._close(Code.UNSPECIFIED, "no CONNECT came in time")
        elif self.phase is Phase.ADMITTING:
            self.refuse(Code.SERVER_BUSY, "the session before this one could not be saved in time; try again later")
        else:
            self.disconnect(Code.KEEP_ALIVE_TIMEOUT, "nothing was heard for one and a half times the keep-alive", now)

    def excuse(self, now: int) -> None:
        """What the client may have sent was not read here: its silence counts from now on."""
        if self.phase is Phase.OPEN:
            self._heard = now

    def take_over(self, now: int) -> None:
        """The same client has come on another connection."""
        self.disconnect(Code.SESSION_TAKEN_OVER, "the client has connected again elsewhere", now)

    def disconnect(self, reason: Code, text: str, now: int) -> None:
        """By the server."""
        self.now = now
        if self.phase is Phase.OPEN:
            self._fail(MqttError(reason, text))
        elif self.phase is Phase.ADMITTING:
            self.refuse(reason, text)
        else:
            self._close(reason, text)

    def lost(self, now: int) -> None:
        """The connection is gone."""
        self.now = now
        self._close(Code.UNSPECIFIED, "the connection was lost")

    # -- packets

    def _is_in(self, phase: Phase) -> bool:
        return self.phase is phase

    def _on_connect(self, packet: p.Connect) -> None:
        self._connect = packet
        try:
            check_connect(packet)
        except MqttError as error:
            error.version = packet.version
            raise
        self.phase = Phase.ADMITTING
        self._output.act(a.Admit(packet))

    def _on_publish(self, packet: p.Publish) -> None:
        self._inbound.publish(packet)

    def _on_answer(self, packet: p.Puback | p.Pubrec | p.Pubcomp) -> None:
        self._outbound.answered(packet, self.now)

    def _on_pubrel(self, packet: p.Pubrel) -> None:
        self._inbound.release(packet)

    def _on_subscribe(self, packet: p.Subscribe) -> None:
        self._subscribing.subscribe(packet)

    def _on_unsubscribe(self, packet: p.Unsubscribe) -> None:
        self._subscribing.unsubscribe(packet)

    def _on_pingreq(self, packet: p.Pingreq) -> None:
        self._output.send(PINGRESP)

    def _on_disconnect(self, packet: p.Disconnect) -> None:
        assert self.state is not None
        expiry = packet.properties.session_expiry
        if expiry is not None:
            if expiry > 0 and self.state.expiry == 0:
                raise protocol_error("a session that ends with its connection cannot be kept at the last moment")
            self.state.expiry = min(expiry, self._terms.session_expiry_max)
        self._close(packet.reason, "the client has disconnected", is_will_sent=packet.reason != 0)

    # -- the end

    def _fail(self, error: MqttError) -> None:
        if self.phase is not Phase.OPEN:
            self._refuse(error)
            return
        last = b""
        if self._agreement.version == V5:
            reason = error.reason if error.reason in SERVER_DISCONNECT_CODES else Code.UNSPECIFIED
            last = encode(p.Disconnect(reason, Properties(reason_string=str(error)[:1000])), V5)
            if self._is_too_large(last):
                last = encode(p.Disconnect(reason), V5)
        self._close(error.reason, str(error), last)

    def _refuse(self, error: MqttError) -> None:
        """Before a client was let in. Who does not speak MQTT is not answered."""
        last = b""
        if error.version == V5:
            reason = error.reason if error.reason in CONNACK_CODES else Code.UNSPECIFIED
            last = encode(p.Connack(reason, properties=Properties(reason_string=str(error)[:1000])), V5)
            if self._is_too_large(last):
                last = encode(p.Connack(reason), V5)
        elif error.version is not None and error.return_code is not None:
            last = encode(p.Connack(error.return_code), error.version)
        self._close(error.reason, str(error), last)

    def _is_too_large(self, data: bytes) -> bool:
        connect: p.Connect | None = self._connect
        most = (connect.properties if connect is not None else NONE).maximum_packet_size
        return most is not None and len(data) > most

    def _close(self, reason: int, text: str, last: bytes = b"", *, is_will_sent: bool = True) -> None:
        if self.phase is Phase.CLOSED:
            return
        if self.phase is Phase.OPEN and self.state is not None:
            self._outbound.close()
            disconnect(self.state, self.now, is_will_sent=is_will_sent)
            self._output.changed()
        self.phase = Phase.CLOSED
        self._output.close(last)
        self._output.act(a.Close(reason, text))

    def _leave_behind(self, previous: SessionState, is_resumed: bool, now: int) -> None:
        """A will whose time has not come is not sent if the session goes on; with the end of the session its time has come."""
        if previous.will is not None and previous.will_at is not None and (not is_resumed or previous.will_at <= now):
            self._output.act(a.PublishWill(previous.will))
        if not is_resumed:
            self._output.act(a.Discard(previous.client_id))


def _is_alive(state: SessionState, now: int) -> bool:
    return state.expires_at is None or now < state.expires_at


# What may come in which phase; all else is a protocol error.
_TABLE: Final[dict[Phase, dict[type[Any], Callable[[Session, Any], None]]]] = {
    Phase.WAITING: {p.Connect: Session._on_connect},
    Phase.ADMITTING: {},
    Phase.OPEN: {
        p.Publish: Session._on_publish,
        p.Puback: Session._on_answer,
        p.Pubrec: Session._on_answer,
        p.Pubcomp: Session._on_answer,
        p.Pubrel: Session._on_pubrel,
        p.Subscribe: Session._on_subscribe,
        p.Unsubscribe: Session._on_unsubscribe,
        p.Pingreq: Session._on_pingreq,
        p.Disconnect: Session._on_disconnect,
    },
    Phase.CLOSED: {},
}
_TURNING: Final = frozenset({Session._on_connect, Session._on_disconnect})  # after these, another phase
