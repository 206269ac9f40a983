"""What clients publish: QoS 0, 1 and 2, topic aliases, the window, and answers in order."""

from __future__ import annotations

from typing import Any

import pytest

from ortoo.doors.mqtt.rules import actions as a
from ortoo.doors.mqtt.rules.messages import message_of
from ortoo.doors.mqtt.rules.session import Phase
from ortoo.doors.mqtt.rules.terms import Terms
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5, V311, Code
from ortoo.doors.mqtt.wire.properties import Kind, Properties, parse
from tests.doors.mqtt.wiring import Wire, opened, resumed

BOTH = pytest.mark.parametrize("version", [V311, V5])


def publish(packet_id: int = 0, qos: int = 1, payload: bytes = b"x", topic: str = "t", **rest: Any) -> p.Publish:
    return p.Publish(topic, payload, qos, packet_id=packet_id, **rest)


def taken(wire: Wire) -> list[a.Incoming]:
    return [action for action in wire.did() if isinstance(action, a.Incoming)]


@BOTH
def test_qos_0_is_not_answered(version: int) -> None:
    """5:[MQTT-4.3.1-1] 3:[MQTT-4.3.1-1] 5:[MQTT-2.2.1-2] 3:[MQTT-2.3.1-5]"""
    wire = opened(version)
    wire.send(p.Publish("t", b"1", retain=True))
    incoming = wire.did_one(a.Incoming)
    assert (incoming.ticket, incoming.topic, incoming.publish.payload, incoming.publish.retain) == (0, "t", b"1", True)
    assert wire.got() == []


@BOTH
def test_qos_1_is_answered_when_it_is_safe(version: int) -> None:
    """5:[MQTT-4.3.2-4] 3:[MQTT-4.3.2-2] 5:[MQTT-2.2.1-5] 3:[MQTT-2.3.1-6] 5:[MQTT-3.3.4-1]"""
    wire = opened(version)
    wire.send(publish(7))
    incoming = wire.did_one(a.Incoming)
    assert wire.got() == []
    wire.session.settled(incoming.ticket)
    assert wire.got() == [p.Puback(7)]


@BOTH
def test_after_puback_an_identifier_is_a_new_message(version: int) -> None:
    """5:[MQTT-4.3.2-5] 3:[MQTT-4.3.2-2]"""
    wire = opened(version)
    for _ in range(2):
        wire.send(p.Publish("t", b"1", 1, dup=True, packet_id=7))
        wire.session.settled(wire.did_one(a.Incoming).ticket)
        assert wire.got() == [p.Puback(7)]


@BOTH
@pytest.mark.parametrize("qos", [1, 2])
def test_answers_come_in_the_order_of_the_questions(version: int, qos: int) -> None:
    """The specifications ask this of clients only; a client that counts on it is not disappointed."""
    wire = opened(version)
    wire.send(publish(9, qos), publish(5, qos), publish(8, qos))
    first, second, third = taken(wire)
    wire.session.settled(third.ticket)
    wire.session.settled(second.ticket)
    assert wire.got() == []
    wire.session.settled(first.ticket)
    assert [packet.packet_id for packet in wire.got() if isinstance(packet, p.Puback | p.Pubrec)] == [9, 5, 8]


@BOTH
@pytest.mark.parametrize("qos", [1, 2])
def test_answers_of_many_at_once_wait_for_those_before_them(version: int, qos: int) -> None:
    wire = opened(version)
    wire.send(publish(9, 1), publish(500, qos), publish(300, 1), publish(7, 0), publish(4, 1))
    first, second, third, unanswered, last = [incoming.ticket for incoming in taken(wire)]
    wire.session.all_settled([second, third, unanswered, last])
    assert wire.got() == []
    wire.session.settled(first)
    assert [packet.packet_id for packet in wire.got() if isinstance(packet, p.Puback | p.Pubrec)] == [9, 500, 300, 4]
    wire.send(publish(9, 1), publish(500, 1), publish(6, qos))
    tickets = [incoming.ticket for incoming in taken(wire)]
    wire.session.all_settled(tickets)
    kinds = [p.Puback, p.Puback, p.Puback if qos == 1 else p.Pubrec]
    assert wire.got() == [kind(number) for kind, number in zip(kinds, (9, 500, 6), strict=True)]


@BOTH
def test_qos_2_is_taken_once(version: int) -> None:
    """5:[MQTT-4.3.3-8] 5:[MQTT-4.3.3-10] 5:[MQTT-4.3.3-11] 5:[MQTT-4.3.3-12] 3:[MQTT-4.3.3-2]"""
    wire = opened(version)
    wire.send(publish(7, 2))
    wire.session.settled(wire.did_one(a.Incoming).ticket)
    assert wire.got() == [p.Pubrec(7)]
    wire.send(p.Publish("t", b"x", 2, dup=True, packet_id=7))
    assert wire.did() == []
    assert wire.got() == [p.Pubrec(7)]
    wire.send(p.Pubrel(7))
    assert wire.got() == [p.Pubcomp(7)]
    wire.send(publish(7, 2))
    assert wire.did_one(a.Incoming).publish.packet_id == 7


@BOTH
def test_a_repetition_waits_for_the_first_one(version: int) -> None:
    wire = opened(version)
    wire.send(publish(7, 2), p.Publish("t", b"x", 2, dup=True, packet_id=7))
    [incoming] = taken(wire)
    assert wire.got() == []
    wire.session.settled(incoming.ticket)
    assert wire.got() == [p.Pubrec(7), p.Pubrec(7)]


def test_a_repetition_of_what_was_refused_is_refused() -> None:
    wire = opened()
    wire.send(publish(7, 2), p.Publish("t", b"x", 2, dup=True, packet_id=7))
    wire.session.settled(taken(wire)[0].ticket, Code.QUOTA_EXCEEDED)
    assert wire.got() == [p.Pubrec(7, 0x97), p.Pubrec(7, 0x80)]


@BOTH
def test_qos_2_is_taken_once_across_connections(version: int) -> None:
    """5:[MQTT-4.3.3-10] 3:[MQTT-4.3.3-2] 5:[MQTT-3.1.2-23] 3:[MQTT-4.1.0-1]"""
    wire = opened(version)
    wire.send(publish(7, 2))
    wire.session.settled(wire.did_one(a.Incoming).ticket)
    again = resumed(wire)
    again.got()
    again.send(p.Publish("t", b"x", 2, dup=True, packet_id=7))
    assert again.got() == [p.Pubrec(7)]
    assert taken(again) == []


def test_an_identifier_is_saved_with_its_message_and_forgotten_before_pubcomp() -> None:
    wire = opened(saves=False)
    wire.send(publish(7, 2))
    incoming, saving = wire.did()
    assert isinstance(incoming, a.Incoming)
    assert isinstance(saving, a.Save)
    wire.session.saved(saving.ticket)
    wire.session.settled(incoming.ticket)
    assert wire.got() == [p.Pubrec(7)]
    wire.send(p.Pubrel(7))
    saving = wire.did_one(a.Save)
    assert wire.got() == []
    wire.session.saved(saving.ticket)
    assert wire.got() == [p.Pubcomp(7)]


def test_a_session_that_is_not_kept_saves_nothing() -> None:
    wire = opened(asked={"session_expiry": 0}, saves=False)
    wire.send(publish(7, 2))
    incoming = wire.did_one(a.Incoming)
    wire.session.settled(incoming.ticket)
    wire.send(p.Pubrel(7))
    assert wire.got() == [p.Pubrec(7), p.Pubcomp(7)]
    assert wire.did() == []


def test_a_release_of_something_unknown() -> None:
    wire = opened()
    wire.send(p.Pubrel(9))
    assert wire.got() == [p.Pubcomp(9, Code.PACKET_ID_NOT_FOUND)]
    old = opened(V311)
    old.send(p.Pubrel(9))
    assert old.got() == [p.Pubcomp(9)]


def test_a_release_that_comes_too_early() -> None:
    wire = opened()
    wire.send(publish(7, 2), p.Pubrel(7))
    assert wire.got_one(p.Disconnect).reason == 0x82


def test_a_message_that_is_refused_is_told_so() -> None:
    """5:[MQTT-4.3.3-9]"""
    wire = opened()
    wire.send(publish(1), publish(2, 2))
    one, two = taken(wire)
    wire.session.settled(one.ticket, Code.NOT_AUTHORIZED, "not for you")
    wire.session.settled(two.ticket, Code.QUOTA_EXCEEDED)
    assert wire.got() == [
        p.Puback(1, 0x87, Properties(reason_string="not for you")),
        p.Pubrec(2, 0x97),
    ]
    assert wire.session.state is not None
    assert wire.session.state.received == set()  # the client may use the identifier again
    wire.send(publish(2, 2))
    assert len(taken(wire)) == 1


def test_reasons_in_words_are_for_those_who_want_them() -> None:
    """5:[MQTT-3.1.2-29] 5:[MQTT-3.4.2-2]"""
    wire = opened(asked={"request_problem_information": 0})
    wire.send(publish(1))
    wire.session.settled(taken(wire)[0].ticket, Code.NOT_AUTHORIZED, "not for you")
    assert wire.got() == [p.Puback(1, 0x87)]
    small = opened(asked={"maximum_packet_size": 30})
    small.send(publish(1))
    small.session.settled(taken(small)[0].ticket, Code.NOT_AUTHORIZED, "not for you" * 9)
    assert small.got() == [p.Puback(1, 0x87)]


@pytest.mark.parametrize("qos", [1, 2])
def test_an_old_client_that_cannot_be_told_is_disconnected(qos: int) -> None:
    """3:[MQTT-3.3.5-2]"""
    wire = opened(V311)
    wire.send(publish(1, qos))
    wire.session.settled(taken(wire)[0].ticket, Code.UNSPECIFIED, "the disk is full")
    assert wire.got() == []
    assert wire.closed().text == "the disk is full"


def test_what_is_settled_late_still_counts() -> None:
    wire = opened()
    wire.send(publish(1, 2), publish(2, 2), publish(3, 1))
    one, two, three = taken(wire)
    wire.session.lost(0)
    wire.session.settled(one.ticket, Code.UNSPECIFIED)
    wire.session.settled(two.ticket)
    wire.session.settled(three.ticket)
    assert wire.got() == []
    assert wire.session.state is not None
    assert wire.session.state.received == {2}


def test_what_was_not_asked_cannot_be_settled() -> None:
    wire = opened()
    wire.send(publish(1))
    [incoming] = taken(wire)
    for ticket in (incoming.ticket + 1, incoming.ticket - 1):
        with pytest.raises(ValueError, match="no publish"):
            wire.session.settled(ticket)
    wire.session.settled(incoming.ticket)
    with pytest.raises(ValueError, match="no publish"):
        wire.session.settled(incoming.ticket)


def test_the_window_of_the_server() -> None:
    """5:[MQTT-3.3.4-7]"""
    wire = opened(terms=Terms(receive_maximum=3))
    wire.send(publish(1, 2), publish(2, 1), publish(3, 2))
    one, two, three = taken(wire)
    assert wire.session.is_busy
    wire.send(p.Publish("t", b"x", 2, dup=True, packet_id=3))  # again, not one more
    wire.session.settled(one.ticket)
    wire.session.settled(two.ticket)
    wire.session.settled(three.ticket)
    assert len(wire.got()) == 4
    wire.send(publish(4))  # PUBACK made room
    assert wire.session.phase is Phase.OPEN
    wire.send(p.Pubrel(1), publish(5))  # so did PUBCOMP; PUBREC did not
    assert wire.session.phase is Phase.OPEN
    wire.send(publish(6))
    assert wire.closed().reason == 0x93
    assert [packet.reason for packet in wire.got() if isinstance(packet, p.Disconnect)] == [0x93]


@BOTH
def test_identifiers_that_are_never_released_are_bounded(version: int) -> None:
    wire = opened(version, terms=Terms(received_max=5, receive_maximum=3))
    for start in (1, 4):
        for packet_id in range(start, start + 3):
            wire.send(publish(packet_id, 2))
            for incoming in taken(wire):
                wire.session.settled(incoming.ticket)
        if start == 1:
            wire = resumed(wire)
            wire.got()
    assert wire.closed().reason == 0x97
    assert wire.session.state is not None
    assert wire.session.state.received == {1, 2, 3, 4, 5}


def test_a_refused_qos_2_message_frees_its_place() -> None:
    wire = opened(terms=Terms(receive_maximum=1))
    for packet_id in range(1, 5):
        wire.send(publish(packet_id, 2))
        wire.session.settled(taken(wire)[0].ticket, Code.QUOTA_EXCEEDED)
    assert wire.session.phase is Phase.OPEN
    assert not wire.session.is_busy


def test_old_clients_have_no_window_but_are_read_no_further() -> None:
    wire = opened(V311, terms=Terms(receive_maximum=3))
    wire.send(*(publish(packet_id) for packet_id in range(1, 6)))
    assert len(taken(wire)) == 5
    assert wire.session.is_busy
    wire.session.settled(1)
    wire.session.settled(2)
    assert wire.session.is_busy
    wire.session.settled(3)
    assert not wire.session.is_busy


def alias(number: int, topic: str = "") -> p.Publish:
    return p.Publish(topic, b"x", properties=Properties(topic_alias=number))


def test_topic_aliases() -> None:
    """5:[MQTT-3.3.2-12]"""
    wire = opened(terms=Terms(aliases_in=2))
    wire.send(alias(1, "a"), alias(2, "b"), alias(1), alias(2), alias(1, "c"), alias(1))
    assert [incoming.topic for incoming in taken(wire)] == ["a", "b", "a", "b", "c", "c"]


@pytest.mark.parametrize(("number", "topic", "reason"), [(3, "a", 0x94), (1, "", 0x82), (65_535, "a", 0x94)])
def test_topic_aliases_that_stand_for_nothing(number: int, topic: str, reason: int) -> None:
    """5:[MQTT-3.3.2-9]"""
    wire = opened(terms=Terms(aliases_in=2))
    wire.send(alias(number, topic))
    assert wire.got_one(p.Disconnect).reason == reason


def test_topic_aliases_end_with_their_connection() -> None:
    """5:[MQTT-3.3.2-7]"""
    wire = opened()
    wire.send(alias(1, "a"))
    again = resumed(wire)
    again.got()
    again.send(alias(1))
    assert again.got_one(p.Disconnect).reason == 0x82


def test_what_is_handed_on() -> None:
    """5:[MQTT-3.3.2-4] 5:[MQTT-3.3.2-15] 5:[MQTT-3.3.2-16] 5:[MQTT-3.3.2-17] 5:[MQTT-3.3.2-18] 5:[MQTT-3.3.2-20]"""
    user = (("b", "1"), ("a", "2"), ("b", "3"))
    carried = Properties(1, None, "text/plain", "reply/to", b"\0\1", user=user)
    wire = opened()
    sent = Properties(1, 10, "text/plain", "reply/to", b"\0\1", user=user, topic_alias=4)
    wire.send(p.Publish("t", b"x", properties=sent))
    [incoming] = taken(wire)
    found = message_of(incoming.topic, incoming.publish, 1_000)
    assert parse(found.raw, Kind.PUBLISH) == carried
    assert found.expires_at == 11_000
