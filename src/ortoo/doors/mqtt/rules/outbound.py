"""Messages to a client: packet identifiers, the window that the client allows, topic aliases, and what waits for its turn.

    QoS 1   PUBLISH ─▶ PUBACK                          done
    QoS 2   PUBLISH ─▶ PUBREC ─▶ PUBREL ─▶ PUBCOMP     done; the message itself is with the client at PUBREC

In a session that outlives its connection the identifier of a QoS 2 message is saved before it is sent, and that it was received
before it is released: so it is neither sent under another identifier, nor again after it was released. Either would double it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from ortoo.doors.mqtt.wire.codes import FAILURE, V5, Code, protocol_error
from ortoo.doors.mqtt.wire.encoding import encode, publish_run
from ortoo.doors.mqtt.wire.packets import Puback, Pubcomp, Pubrec, Pubrel
from ortoo.doors.mqtt.wire.properties import Kind

from .actions import Acked, Dropped, Redeliver, Unsent
from .messages import Delivery, PlainRun, extra_properties
from .output import Output
from .state import UNNAMED, InFlight, Ref, SessionState, Stage
from .terms import Agreement, Terms

# What an answer does to a delivery that waits: the next stage, None for the end. Anything else is a protocol error.
_NEXT: Final[dict[tuple[Stage, Kind], Stage | None]] = {
    (Stage.PUBACK, Kind.PUBACK): None,
    (Stage.PUBREC, Kind.PUBREC): Stage.PUBCOMP,
    (Stage.PUBCOMP, Kind.PUBREC): Stage.PUBCOMP,  # it did not get our PUBREL
    (Stage.PUBCOMP, Kind.PUBCOMP): None,
}


_UNNAMED: Final = {Stage.PUBACK: InFlight(UNNAMED, Stage.PUBACK), Stage.PUBREC: InFlight(UNNAMED, Stage.PUBREC)}
_UNNAMED_PUBACK: Final = _UNNAMED[Stage.PUBACK]


class Outbound:
    def __init__(self, state: SessionState, agreement: Agreement, terms: Terms, output: Output) -> None:
        self._state = state
        self._agreement = agreement
        self._terms = terms
        self._output = output
        self._version = agreement.version
        self._bytes_max = agreement.packet_bytes_max
        self._aliases: dict[str, int] = {}
        self.queue: deque[Delivery] = deque()  # what waits for room
        self._queue_bytes = 0
        self._is_plain = not (agreement.version == V5 and agreement.aliases_out) and agreement.packet_bytes_max is None
        self._ids = {flight.ref: packet_id for packet_id, flight in state.in_flight.items()}
        self._awaited: set[Ref] = set()  # under way when the last connection ended, and not sent again yet
        self._again: deque[Delivery] = deque()  # those of them that the door has found, beyond what the client takes

    @property
    def credit(self) -> int:
        """Deliveries of QoS 1 and 2 that would be sent at once."""
        if self.queue or self._awaited:
            return 0
        return max(0, self._agreement.receive_maximum - len(self._state.in_flight))

    def resume(self) -> None:
        """What the last connection left: PUBREL again at once, messages when the door has found them."""
        for packet_id, flight in self._state.in_flight.items():
            if flight.stage is Stage.PUBCOMP:
                self._output.send(encode(Pubrel(packet_id), self._version))
            else:
                self._awaited.add(flight.ref)
        if self._awaited:
            awaited = (flight.ref for flight in self._state.in_flight.values() if flight.ref in self._awaited)
            self._output.act(Redeliver(tuple(awaited)))

    def deliver(self, deliveries: Sequence[Delivery], now: int) -> None:
        in_flight, most = self._state.in_flight, self._agreement.receive_maximum
        if not self.queue and not self._awaited and len(in_flight) + len(deliveries) <= most:
            self._send_all(deliveries, now)
            return
        for delivery in deliveries:
            if delivery.qos == 0:
                self._send(delivery, 0, False, now)
            elif delivery.ref != UNNAMED and delivery.ref in self._ids:
                self._deliver_again(delivery, now)
            elif len(in_flight) < most and not self.queue and not self._awaited:
                self._begin(delivery, now)
            elif self._has_room(delivery):
                self.queue.append(delivery)
                self._queue_bytes += len(delivery.message.payload)
            else:
                self._output.act(Dropped(delivery.ref, Code.QUOTA_EXCEEDED))

    def _send_all(self, deliveries: Iterable[Delivery], now: int) -> None:
        """There is room for all of them in the client's window."""
        out = self._output.open_end() if self._is_plain else None
        version, state, in_flight = self._version, self._state, self._state.in_flight
        for delivery in deliveries:
            message = delivery.message
            if out is not None and message.expires_at is None and not delivery.ids:  # nearly always
                if delivery.qos == 0:
                    before, after = message.parts(version, 0, delivery.retain)
                    out.append(before + after)
                    continue
                if delivery.qos == 1 and delivery.ref == UNNAMED:
                    packet_id = state.last_packet_id % 65_535 + 1
                    if packet_id in in_flight:
                        packet_id = self._next_id()
                    state.last_packet_id = packet_id
                    in_flight[packet_id] = _UNNAMED_PUBACK
                    before, after = message.parts(version, 1, delivery.retain)
                    out.append(before + packet_id.to_bytes(2, "big") + after)
                    continue
            if delivery.qos == 0:
                self._send(delivery, 0, False, now)
            elif delivery.ref != UNNAMED and delivery.ref in self._ids:
                self._deliver_again(delivery, now)
            else:
                self._begin(delivery, now)

    def deliver_run(self, run: PlainRun) -> bool:
        """All of them at once; False where there is more to it, so that they have to be delivered one by one."""
        count, in_flight = len(run.payloads), self._state.in_flight
        out = self._output.open_end() if self._is_plain and self._version == V5 else None
        if out is None or self.queue or self._awaited or len(in_flight) + count > self._agreement.receive_maximum:
            return False
        out.append(publish_run(run.topic, self._begin_many(count), run.properties, run.payloads))
        return True

    def forward(self, before: bytes, after: bytes | None) -> bytes | None:
        """The bytes of a message that goes to this client before anything else does, and that nobody asks about."""
        if not self._is_plain or self._output.open_end() != []:
            return None
        if after is None:
            return before
        state = self._state
        if self.queue or self._awaited or len(state.in_flight) >= self._agreement.receive_maximum:
            return None
        packet_id = self._next_id()
        state.in_flight[packet_id] = _UNNAMED_PUBACK
        return before + packet_id.to_bytes(2, "big") + after

    def forget(self, ref: Ref, now: int) -> None:
        """The message is gone: what was under way of it ends."""
        packet_id = self._ids.get(ref)
        if packet_id is not None and ref in self._awaited:
            self._awaited.discard(ref)
            self._abandon(packet_id)
            self._drain(now)

    def answered(self, packet: Puback | Pubrec | Pubcomp, now: int) -> None:
        """By the client."""
        kind, packet_id = packet.kind, packet.packet_id
        flight = self._state.in_flight.get(packet_id)
        if flight is _UNNAMED_PUBACK and type(packet) is Puback:
            del self._state.in_flight[packet_id]  # `drain` comes after all packets of the read
            return
        if type(packet) is Puback and flight is not None and flight.stage is Stage.PUBACK and not self._awaited:
            self._output.act(Acked(flight.ref, packet.reason))
            del self._state.in_flight[packet_id], self._ids[flight.ref]
            if self.queue:
                self._drain(now)
            return
        if flight is None:
            if kind == Kind.PUBREC:  # an answer to what we do not know any more
                reason = Code.PACKET_ID_NOT_FOUND if self._version == V5 else 0
                self._output.send(encode(Pubrel(packet_id, reason), self._version))
            return
        if (flight.stage, kind) not in _NEXT:
            raise protocol_error(f"{kind.name} does not answer what was sent under the identifier {packet_id}")
        is_refused = packet.reason >= FAILURE
        stage = None if is_refused and kind == Kind.PUBREC else _NEXT[flight.stage, kind]
        if flight.stage is not Stage.PUBCOMP:
            self._awaited.discard(flight.ref)
            if flight.ref != UNNAMED:
                self._output.act(Acked(flight.ref, packet.reason))
        if stage is None:
            self._end(packet_id)
            self._drain(now)
            return
        self._state.in_flight[packet_id] = InFlight(flight.ref, stage)
        self._output.send_after_save(encode(Pubrel(packet_id), self._version))

    def acked(self, packet_id: int) -> bool:
        """A PUBACK that came alone: whether that is all there is to do about it."""
        in_flight = self._state.in_flight
        if self.queue or in_flight.get(packet_id) is not _UNNAMED_PUBACK:
            return False
        del in_flight[packet_id]
        return True

    def drain(self, now: int) -> None:
        """What waits, as far as the client has made room for it."""
        self._drain(now)

    def close(self) -> None:
        """What waits for its turn goes back, and what is nowhere else is not sent again."""
        in_flight = self._state.in_flight
        for packet_id in [number for number, flight in in_flight.items() if flight is _UNNAMED_PUBACK]:
            del in_flight[packet_id]
        if self.queue:
            self._output.act(Unsent(tuple(delivery.ref for delivery in self.queue if delivery.ref != UNNAMED)))
            self.queue.clear()

    # -- sending

    def _begin(self, delivery: Delivery, now: int) -> None:
        """The identifier is taken even if nothing is sent, for a moment."""
        packet_id = self._next_id()
        stage = Stage.PUBACK if delivery.qos == 1 else Stage.PUBREC
        if delivery.ref == UNNAMED:
            self._state.in_flight[packet_id] = _UNNAMED[stage]
        else:
            self._state.in_flight[packet_id] = InFlight(delivery.ref, stage)
            self._ids[delivery.ref] = packet_id
        if not self._send(delivery, packet_id, False, now):
            self._end(packet_id)

    def _begin_many(self, count: int) -> Sequence[int]:
        """Identifiers for so many, which nobody asks about."""
        state = self._state
        ids = range(state.last_packet_id + 1, state.last_packet_id + 1 + count)
        if ids[-1] <= 65_535 and state.in_flight.keys().isdisjoint(ids):  # as mostly
            state.in_flight.update(dict.fromkeys(ids, _UNNAMED_PUBACK))
            state.last_packet_id = ids[-1]
            return ids
        found = []
        for _ in range(count):
            found.append(self._next_id())
            state.in_flight[found[-1]] = _UNNAMED_PUBACK
        return found

    def _deliver_again(self, delivery: Delivery, now: int) -> None:
        packet_id = self._ids[delivery.ref]
        flight = self._state.in_flight[packet_id]
        if flight.stage is Stage.PUBCOMP:
            self._output.act(Acked(delivery.ref))  # the client has it; whoever delivers it did not hear of that
        elif delivery.ref in self._awaited:  # otherwise it is under way on this connection, and not sent twice
            self._again.append(delivery)
            self._drain(now)

    def _send_again(self, delivery: Delivery, now: int) -> None:
        """Under the same identifier. The QoS may have been another then, and the client would be confused by a change."""
        self._awaited.discard(delivery.ref)
        packet_id = self._ids[delivery.ref]
        qos = 1 if self._state.in_flight[packet_id].stage is Stage.PUBACK else 2
        if not self._send(delivery, packet_id, True, now, qos):
            self._abandon(packet_id)

    def _send(self, delivery: Delivery, packet_id: int, dup: bool, now: int, qos: int | None = None) -> bool:
        """False where it cannot be sent to this client at all; the door has been told."""
        message, qos = delivery.message, delivery.qos if qos is None else qos
        seconds = None
        if message.expires_at is not None:
            seconds = max(0, message.expires_at - now + 999) // 1000
            if seconds == 0 and not dup:  # what may be there already is not taken back
                return self._drop(delivery, 0)
        is_saved_first = qos == 2 and self._output.is_durable and not dup  # what is sent again was saved with CONNACK
        alias = topic = None
        if self._version == V5 and self._agreement.aliases_out and not is_saved_first:
            alias, topic = self._alias(message.topic)
        if dup or alias is not None or (self._version == V5 and (seconds is not None or delivery.ids)):
            extra = extra_properties(seconds, delivery.ids, alias) if self._version == V5 else b""
            name = message.topic if topic is None else topic
            before, after = message.own_parts(self._version, qos, delivery.retain, dup=dup, topic=name, extra=extra)
        else:
            before, after = message.parts(self._version, qos, delivery.retain)
        if self._bytes_max is not None and len(before) + len(after) + (2 if qos else 0) > self._bytes_max:
            return self._drop(delivery, Code.PACKET_TOO_LARGE)
        if alias is not None and topic:
            self._aliases[topic] = alias
        if qos == 0:
            self._output.send(before + after)
        elif is_saved_first:
            self._output.send_after_save(before + packet_id.to_bytes(2, "big") + after)
        else:
            self._output.send(before + packet_id.to_bytes(2, "big") + after)
        return True

    def _alias(self, topic: str) -> tuple[int | None, str | None]:
        """An alias, and the topic to be sent with it: none once the client knows it."""
        alias = self._aliases.get(topic)
        if alias is not None:
            return alias, ""
        if len(self._aliases) < self._agreement.aliases_out:
            return len(self._aliases) + 1, topic
        return None, None

    def _drop(self, delivery: Delivery, reason: int) -> bool:
        if delivery.qos:
            self._output.act(Dropped(delivery.ref, reason))
        return False

    def _abandon(self, packet_id: int) -> None:
        """The client may remember the identifier: that of a QoS 2 message has to be released before it is used again."""
        flight = self._state.in_flight[packet_id]
        if flight.stage is Stage.PUBACK:
            self._end(packet_id)
            return
        self._state.in_flight[packet_id] = InFlight(flight.ref, Stage.PUBCOMP)
        self._output.send_after_save(encode(Pubrel(packet_id), self._version))

    def _end(self, packet_id: int) -> None:
        flight = self._state.in_flight.pop(packet_id)
        if flight.ref != UNNAMED:
            del self._ids[flight.ref]

    def _drain(self, now: int) -> None:
        """What is sent again goes first. What was not sent on this connection does not count in the client's window."""
        in_flight, most = self._state.in_flight, self._agreement.receive_maximum
        while self._again and len(in_flight) - len(self._awaited) < most:
            delivery = self._again.popleft()
            if delivery.ref in self._awaited:  # it may have been answered early, or forgotten
                self._send_again(delivery, now)
        if self._awaited:
            return
        room = min(most - len(in_flight), len(self.queue))
        if room > 0:
            some = [self.queue.popleft() for _ in range(room)]
            self._queue_bytes -= sum(len(delivery.message.payload) for delivery in some)
            self._send_all(some, now)

    def _has_room(self, delivery: Delivery) -> bool:
        size = self._queue_bytes + len(delivery.message.payload)
        return len(self.queue) < self._terms.queue_max and (not self.queue or size <= self._terms.queue_bytes_max)

    def _next_id(self) -> int:
        """The window is smaller than the number of identifiers, so that one is free."""
        packet_id = self._state.last_packet_id
        while True:
            packet_id = packet_id % 65_535 + 1
            if packet_id not in self._state.in_flight:
                self._state.last_packet_id = packet_id
                return packet_id
