"""Messages from a client: topic aliases, the window that the server allows, and answers in the order of the questions.

    QoS 1   PUBLISH ─▶ (routed, safe) ─▶ PUBACK
    QoS 2   PUBLISH ─▶ (routed, safe, identifier kept) ─▶ PUBREC … PUBREL ─▶ (identifier forgotten, safe) ─▶ PUBCOMP

A QoS 2 message is routed when it comes first; until it is released its identifier tells that it comes again.
"""

from __future__ import annotations

from collections import deque

import msgspec

from ortoo.doors.mqtt.wire.codes import FAILURE, PUBACK_CODES, V5, Code, MqttError, protocol_error
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from ortoo.doors.mqtt.wire.properties import NONE, Properties

from .actions import Incoming
from .output import Output
from .state import SessionState
from .terms import Agreement, Terms


class _Answer(msgspec.Struct, gc=False):
    packet_id: int
    qos: int
    reason: int | None = None  # None until it is settled
    text: str = ""


class Inbound:
    def __init__(self, state: SessionState, agreement: Agreement, terms: Terms, output: Output) -> None:
        self._state = state
        self._version = agreement.version
        self._tells_problems = agreement.tells_problems
        self._bytes_max = agreement.packet_bytes_max
        self._terms = terms
        self._output = output
        self._aliases: dict[int, str] = {}
        self._answers: deque[_Answer] = deque()  # in the order in which they have to be given
        self._first = 1  # the ticket of the first of them
        self._unsettled_qos_2: set[int] = set()  # identifiers whose PUBREC is not on its way yet
        self._open_qos_1 = 0
        self._open_qos_2: set[int] = set()  # of this connection, until PUBCOMP

    @property
    def unanswered(self) -> int:
        return self._open_qos_1 + len(self._open_qos_2)

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
                self._answer(_Answer(packet.packet_id, 2, 0))
                return
            if len(self._state.received) >= self._terms.received_max:
                raise MqttError(Code.QUOTA_EXCEEDED, "too many QoS 2 messages were sent and never released")
            self._state.received.add(packet.packet_id)
            self._unsettled_qos_2.add(packet.packet_id)
            self._output.changed()
        self._answers.append(_Answer(packet.packet_id, packet.qos))
        self._output.act(Incoming(self._first + len(self._answers) - 1, topic, packet))

    def settled(self, ticket: int, reason: int = 0, text: str = "") -> None:
        """What was published under this ticket is safe, or refused. Raises where an old client cannot be told of that."""
        place = ticket - self._first
        if not 0 <= place < len(self._answers) or self._answers[place].reason is not None:
            raise ValueError(f"there is no publish {ticket} that waits")
        answer = self._answers[place]
        if place == 0 and reason == 0 and answer.qos == 1:  # nearly always
            self._answers.popleft()
            self._first += 1
            self._open_qos_1 -= 1
            self._output.send(b"\x40\x02" + answer.packet_id.to_bytes(2, "big"))
            if self._answers:
                self._flush()
            return
        answer.reason, answer.text = reason if reason in PUBACK_CODES else Code.UNSPECIFIED, text
        if answer.qos == 2:
            self._unsettled_qos_2.discard(answer.packet_id)
            if reason >= FAILURE:
                self._state.received.discard(answer.packet_id)
                self._output.changed()
        self._flush()

    def release(self, packet: Pubrel) -> None:
        packet_id, reason = packet.packet_id, 0
        if packet_id in self._unsettled_qos_2:
            raise protocol_error("PUBREL comes before PUBREC was sent")
        self._open_qos_2.discard(packet_id)
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

    def _answer(self, answer: _Answer) -> None:
        self._answers.append(answer)
        self._flush()

    def _flush(self) -> None:
        """Answers that are ready, as far as none before them is missing."""
        answers = self._answers
        while answers and answers[0].reason is not None:
            answer = answers.popleft()
            self._first += 1
            if answer.qos == 1:
                self._open_qos_1 -= 1
            if answer.reason == 0 and answer.qos == 1:
                self._output.send(b"\x40\x02" + answer.packet_id.to_bytes(2, "big"))
            else:
                self._send(answer)

    def _send(self, answer: _Answer) -> None:
        reason, packet_id = answer.reason or 0, answer.packet_id
        if answer.qos == 2 and packet_id not in self._state.received and reason < FAILURE:
            reason = Code.UNSPECIFIED  # it came a second time, and the first one was refused since
        if reason >= FAILURE:
            if self._version != V5:
                raise MqttError(Code(reason), answer.text or "the message could not be taken")
            self._open_qos_2.discard(packet_id)
        properties = NONE
        if answer.text and self._tells_problems and self._version == V5:
            properties = Properties(reason_string=answer.text[:1000])
        kind = Puback if answer.qos == 1 else Pubrec
        code = reason if self._version == V5 else 0
        data = encode(kind(packet_id, code, properties), self._version)
        if self._bytes_max is not None and len(data) > self._bytes_max:
            data = encode(kind(packet_id, code), self._version)
        self._output.send(data)
