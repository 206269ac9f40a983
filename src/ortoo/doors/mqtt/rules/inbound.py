"""Messages from a client: topic aliases, the window that the server allows, and answers in the order of the questions.

    QoS 1   PUBLISH ─▶ (routed, safe) ─▶ PUBACK
    QoS 2   PUBLISH ─▶ (routed, safe, identifier kept) ─▶ PUBREC … PUBREL ─▶ (identifier forgotten, safe) ─▶ PUBCOMP

A QoS 2 message is routed when it comes first; until it is released its identifier tells that it comes again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ortoo.doors.mqtt.wire.codes import FAILURE, PUBACK_CODES, V5, Code, MqttError, protocol_error
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from ortoo.doors.mqtt.wire.properties import NONE, Properties

from .actions import Incoming
from .output import Output
from .state import SessionState
from .terms import Agreement, Terms


class Inbound:
    def __init__(self, state: SessionState, agreement: Agreement, terms: Terms, output: Output) -> None:
        self._state = state
        self._version = agreement.version
        self._tells_problems = agreement.tells_problems
        self._bytes_max = agreement.packet_bytes_max
        self._terms = terms
        self._output = output
        self._aliases: dict[int, str] = {}
        self._answers: deque[int] = (
            deque()
        )  # packet identifiers, with the QoS in the lowest bits, in the order of answers
        self._first = 1  # the ticket of the first of them
        self._reasons: dict[int, tuple[int, str]] = {}  # of those that are settled and wait for their turn, by ticket
        self._unsettled_qos_2: set[int] = set()  # identifiers whose PUBREC is not on its way yet
        self._saves: dict[int, int] = {}  # by identifier of QoS 2: what has to be saved before PUBREC
        self._open_qos_1 = 0
        self._open_qos_2: set[int] = set()  # of this connection, until PUBCOMP

    @property
    def is_full(self) -> bool:
        """As many wait for their answers as may."""
        return self._open_qos_1 + len(self._open_qos_2) >= self._terms.receive_maximum

    @property
    def is_calm(self) -> bool:
        """None waits for its answer."""
        return not self._answers and not self._open_qos_2

    def publish(self, packet: Publish) -> None:
        topic = packet.topic
        if packet.properties is not NONE and packet.properties.topic_alias is not None:
            topic = self._resolve(topic, packet.properties.topic_alias)
        if packet.qos == 0:
            self._output.act(Incoming(0, topic, packet))
            return
        if self._open_qos_1 + len(self._open_qos_2) >= self._terms.receive_maximum:
            self._check_window(packet)
        if packet.qos == 1:
            self._open_qos_1 += 1
        else:
            self._open_qos_2.add(packet.packet_id)
            if packet.packet_id in self._state.received:
                self._answers.append(packet.packet_id << 2 | 2)
                self._reasons[self._first + len(self._answers) - 1] = (0, "")
                self._flush()
                return
            if len(self._state.received) >= self._terms.received_max:
                raise MqttError(Code.QUOTA_EXCEEDED, "too many QoS 2 messages were sent and never released")
            self._state.received.add(packet.packet_id)
            self._unsettled_qos_2.add(packet.packet_id)
            self._saves[packet.packet_id] = self._output.changed()
        self._answers.append(packet.packet_id << 2 | packet.qos)
        self._output.act(Incoming(self._first + len(self._answers) - 1, topic, packet))

    def settled(self, ticket: int, reason: int = 0, text: str = "") -> None:
        """What was published under this ticket is safe, or refused. Raises where an old client cannot be told of that."""
        place = ticket - self._first
        if not 0 <= place < len(self._answers) or ticket in self._reasons:
            raise ValueError(f"there is no publish {ticket} that waits")
        answer = self._answers[place]
        if place == 0 and reason == 0 and answer & 1:  # nearly always
            self._answers.popleft()
            self._first += 1
            self._open_qos_1 -= 1
            self._output.send(b"\x40\x02" + (answer >> 2).to_bytes(2, "big"))
            if self._reasons:
                self._flush()
            return
        self._reasons[ticket] = (reason if reason in PUBACK_CODES else Code.UNSPECIFIED, text)
        if answer & 2:
            self._unsettled_qos_2.discard(answer >> 2)
            if reason >= FAILURE:
                self._state.received.discard(answer >> 2)
                self._output.changed()
        self._flush()

    def all_settled(self, tickets: Sequence[int]) -> None:
        """The same of many that are safe; 0 stands for what has no answer."""
        asked = [ticket for ticket in tickets if ticket]
        count, answers = len(asked), self._answers
        are_next = count > 1 and asked[0] == self._first and asked[-1] - asked[0] == count - 1
        some = [answers[place] for place in range(count)] if are_next else []
        if are_next and all(answer & 1 for answer in some):  # as mostly
            for _ in some:
                answers.popleft()
            self._first += count
            self._open_qos_1 -= count
            packets = bytearray(b"\x40\x02\0\0" * count)
            packets[2::4] = bytes([answer >> 10 for answer in some])
            packets[3::4] = bytes([answer >> 2 & 0xFF for answer in some])
            self._output.send(bytes(packets))
            self._flush()
            return
        for ticket in asked:
            self.settled(ticket)

    def release(self, packet: Pubrel) -> None:
        packet_id, reason = packet.packet_id, 0
        if packet_id in self._unsettled_qos_2:
            raise protocol_error("PUBREL comes before PUBREC was sent")
        self._open_qos_2.discard(packet_id)
        self._saves.pop(packet_id, None)
        if packet_id in self._state.received:
            self._state.received.discard(packet_id)
        elif self._version == V5:
            reason = Code.PACKET_ID_NOT_FOUND
        self._output.send_after_save(encode(Pubcomp(packet_id, reason), self._version))

    def _check_window(self, packet: Publish) -> None:
        """Clients before MQTT 5 know no window: the door stops reading."""
        most = self._terms.receive_maximum
        if self._version == V5 and packet.packet_id not in self._open_qos_2:
            raise MqttError(Code.RECEIVE_MAXIMUM_EXCEEDED, f"more than {most} publishes wait for their answers")

    def _resolve(self, topic: str, alias: int) -> str:
        if alias > self._terms.aliases_in:
            raise MqttError(Code.TOPIC_ALIAS_INVALID, f"the topic alias {alias} is more than {self._terms.aliases_in}")
        if topic:
            self._aliases[alias] = topic
            return topic
        known = self._aliases.get(alias)
        if known is None:
            raise protocol_error(f"the topic alias {alias} stands for nothing")
        return known

    def _flush(self) -> None:
        """Answers that are ready, as far as none before them is missing."""
        reasons = self._reasons
        while self._first in reasons:
            answer = self._answers.popleft()
            reason, text = reasons.pop(self._first)
            self._first += 1
            if answer & 1:
                self._open_qos_1 -= 1
            if reason == 0 and answer & 1:
                self._output.send(b"\x40\x02" + (answer >> 2).to_bytes(2, "big"))
            else:
                self._send(answer >> 2, answer & 3, reason, text)

    def _send(self, packet_id: int, qos: int, reason: int, text: str) -> None:
        if qos == 2 and packet_id not in self._state.received and reason < FAILURE:
            reason = Code.UNSPECIFIED  # it came a second time, and the first one was refused since
        if reason >= FAILURE:
            if self._version != V5:
                raise MqttError(Code(reason), text or "the message could not be taken")
            self._open_qos_2.discard(packet_id)
        if reason >= FAILURE:
            self._saves.pop(packet_id, None)
        properties = NONE
        if text and self._tells_problems and self._version == V5:
            properties = Properties(reason_string=text[:1000])
        kind = Puback if qos == 1 else Pubrec
        code = reason if self._version == V5 else 0
        data = encode(kind(packet_id, code, properties), self._version)
        if self._bytes_max is not None and len(data) > self._bytes_max:
            data = encode(kind(packet_id, code), self._version)
        self._output.send_when_saved(self._saves.get(packet_id, 0) if qos == 2 else 0, data)
