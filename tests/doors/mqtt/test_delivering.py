"""What clients get: QoS 0, 1 and 2, identifiers, the client's window and size, aliases, expiry, and what is sent again."""

from __future__ import annotations

from typing import Any

import pytest

from ortoo.doors.mqtt.routing.subscriptions import Recipient
from ortoo.doors.mqtt.rules import actions as a
from ortoo.doors.mqtt.rules.messages import Delivery, deliver_to
from ortoo.doors.mqtt.rules.session import Phase
from ortoo.doors.mqtt.rules.state import restore, save
from ortoo.doors.mqtt.rules.terms import Terms
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5, V311, Code
from ortoo.doors.mqtt.wire.properties import Properties
from ortoo.doors.mqtt.wire.properties import encode as encode_properties
from tests.doors.mqtt.wiring import Wire, deliveries, message, opened, resumed

BOTH = pytest.mark.parametrize("version", [V311, V5])


def published(wire: Wire) -> list[p.Publish]:
    return [packet for packet in wire.got() if isinstance(packet, p.Publish)]


@BOTH
def test_qos_0(version: int) -> None:
    """5:[MQTT-4.3.1-1] 3:[MQTT-4.3.1-1] 5:[MQTT-2.2.1-2] 3:[MQTT-2.3.1-5]"""
    wire = opened(version)
    wire.deliver(Delivery(message(b"1")), Delivery(message(b"2"), retain=True))
    assert wire.got() == [p.Publish("t", b"1"), p.Publish("t", b"2", retain=True)]
    assert wire.did() == []


@BOTH
def test_qos_1(version: int) -> None:
    """5:[MQTT-4.3.2-1] 5:[MQTT-4.3.2-2] 5:[MQTT-2.2.1-4] 3:[MQTT-2.3.1-4] 3:[MQTT-4.3.2-1]"""
    wire = opened(version)
    wire.deliver(*deliveries([50, 51]))
    one, two = published(wire)
    assert (one.qos, one.dup, one.payload, two.payload) == (1, False, b"50", b"51")
    assert one.packet_id != two.packet_id
    wire.send(p.Puback(two.packet_id))
    assert wire.did() == [a.Acked(51)]
    wire.send(p.Puback(one.packet_id), p.Puback(one.packet_id))  # the second one answers nothing
    assert wire.did() == [a.Acked(50)]
    assert wire.session.phase is Phase.OPEN


@BOTH
def test_qos_2(version: int) -> None:
    """5:[MQTT-4.3.3-1] 5:[MQTT-4.3.3-2] 5:[MQTT-4.3.3-4] 5:[MQTT-4.3.3-5] 5:[MQTT-4.3.3-6] 3:[MQTT-4.3.3-1]"""
    wire = opened(version)
    wire.deliver(*deliveries([50], qos=2))
    [sent] = published(wire)
    assert sent.qos == 2
    wire.send(p.Pubrec(sent.packet_id))
    assert wire.did() == [a.Acked(50)]
    assert wire.got() == [p.Pubrel(sent.packet_id)]
    wire.send(p.Pubrec(sent.packet_id))
    assert wire.got() == [p.Pubrel(sent.packet_id)]
    wire.deliver(*deliveries([50], qos=2))  # whoever delivers it again is told that the client has it
    assert wire.did() == [a.Acked(50)]
    assert wire.got() == []
    wire.send(p.Pubcomp(sent.packet_id))
    assert wire.did() == []
    assert wire.session.state is not None
    assert wire.session.state.in_flight == {}


def test_answers_of_the_wrong_kind() -> None:
    for qos, answer in ((1, p.Pubrec(1)), (1, p.Pubcomp(1)), (2, p.Puback(1)), (2, p.Pubcomp(1))):
        wire = opened()
        wire.deliver(*deliveries([50], qos=qos))
        wire.got()
        wire.send(answer)
        assert wire.got_one(p.Disconnect).reason == 0x82


def test_answers_to_what_is_not_known() -> None:
    wire = opened()
    wire.send(p.Puback(9), p.Pubcomp(9), p.Pubrec(9))
    assert wire.got() == [p.Pubrel(9, Code.PACKET_ID_NOT_FOUND)]


def test_a_client_may_refuse_a_message() -> None:
    """5:[MQTT-4.4.0-2]"""
    wire = opened()
    wire.deliver(*deliveries([50], qos=1), *deliveries([51], qos=2))
    one, two = published(wire)
    wire.send(p.Puback(one.packet_id, 0x97), p.Pubrec(two.packet_id, 0x80))
    assert wire.did() == [a.Acked(50, 0x97), a.Acked(51, 0x80)]
    assert wire.got() == []
    assert wire.session.state is not None
    assert wire.session.state.in_flight == {}


@BOTH
def test_messages_keep_their_order(version: int) -> None:
    """5:[MQTT-4.6.0-5] 5:[MQTT-4.6.0-6] 3:[MQTT-4.6.0-5] 3:[MQTT-4.6.0-6]"""
    wire = opened(version, terms=Terms(in_flight_max=3))
    wire.deliver(*deliveries(range(10)))
    got = []
    while sent := published(wire):
        got += [packet.payload for packet in sent]
        wire.send(*(p.Puback(packet.packet_id) for packet in sent))
    assert got == [b"%d" % number for number in range(10)]


def test_the_window_of_the_client() -> None:
    """5:[MQTT-3.3.4-9] 5:[MQTT-4.9.0-1] 5:[MQTT-4.9.0-2] 5:[MQTT-4.9.0-3]"""
    wire = opened(asked={"receive_maximum": 2})
    assert wire.session.credit == 2
    wire.deliver(*deliveries(range(5), qos=2))
    one, _ = published(wire)
    assert wire.session.credit == 0
    wire.send(p.Pingreq(), p.Pubrec(one.packet_id))
    assert wire.got() == [p.Pingresp(), p.Pubrel(one.packet_id)]  # PUBREC makes no room
    wire.send(p.Pubcomp(one.packet_id))
    [three] = published(wire)
    assert three.payload == b"2"
    wire.deliver(Delivery(message(b"0"), 0))
    assert [packet.payload for packet in published(wire)] == [b"0"]  # QoS 0 has no window


def test_what_waits_is_bounded() -> None:
    wire = opened(terms=Terms(in_flight_max=1, queue_max=3, queue_bytes_max=25))
    wire.deliver(*deliveries(range(10)))
    dropped = [action for action in wire.did() if isinstance(action, a.Dropped)]
    assert dropped == [a.Dropped(number, 0x97) for number in range(4, 10)]
    large = opened(terms=Terms(in_flight_max=1, queue_max=30, queue_bytes_max=25))
    large.deliver(*(Delivery(message(b"x" * 10), 1, number) for number in range(6)))
    assert large.did() == [a.Dropped(number, 0x97) for number in (3, 4, 5)]
    large.session.lost(0)
    assert [action for action in large.did() if not isinstance(action, a.Close)] == [a.Unsent((1, 2))]


def test_nothing_is_delivered_to_who_is_gone() -> None:
    wire = opened()
    wire.session.lost(0)
    wire.did()
    wire.deliver(*deliveries([1, 2]), Delivery(message(), 0))
    assert wire.did() == [a.Unsent((1, 2))]
    assert wire.got() == []


def test_identifiers_go_round() -> None:
    wire = opened(terms=Terms(in_flight_max=3))
    assert wire.session.state is not None
    wire.deliver(*deliveries(["1"]))
    [held] = published(wire)
    wire.session.state.last_packet_id = 65_534
    wire.deliver(*deliveries(["2", "3"]))
    assert [packet.packet_id for packet in published(wire)] == [65_535, held.packet_id + 1]


@BOTH
def test_what_was_not_answered_is_sent_again(version: int) -> None:
    """5:[MQTT-4.4.0-1] 3:[MQTT-4.4.0-1] 5:[MQTT-3.3.1-1] 3:[MQTT-3.3.1-1] 5:[MQTT-3.3.1-3] 3:[MQTT-3.3.1-3]
    5:[MQTT-4.3.2-3] 5:[MQTT-4.3.3-3]"""
    wire = opened(version)
    wire.deliver(*deliveries([1, 2]), *deliveries([3, 4, 5], qos=2), *deliveries([6]))
    ids = {packet.payload: packet.packet_id for packet in published(wire)}
    wire.send(p.Puback(ids[b"2"]), p.Pubrec(ids[b"3"]), p.Pubrec(ids[b"4"]))
    wire.send(p.Pubcomp(ids[b"4"]))
    again = resumed(wire)
    assert again.did() == [a.Redeliver((1, 5, 6))]
    _, pubrel = again.got()
    assert pubrel == p.Pubrel(ids[b"3"])
    again.deliver(*deliveries([7]), *deliveries([1]), *deliveries([5], qos=2), *deliveries([6]))
    sent = published(again)
    assert [(packet.payload, packet.packet_id, packet.dup, packet.qos) for packet in sent[:3]] == [
        (b"1", ids[b"1"], True, 1),
        (b"5", ids[b"5"], True, 2),
        (b"6", ids[b"6"], True, 1),
    ]
    assert [(packet.payload, packet.dup) for packet in sent[3:]] == [(b"7", False)]  # behind them, though it came first
    assert sent[3].packet_id not in {ids[b"1"], ids[b"3"], ids[b"5"], ids[b"6"]}


def test_what_is_sent_again_keeps_to_the_window_of_the_new_connection() -> None:
    """5:[MQTT-3.3.4-9]"""
    wire = opened()
    wire.deliver(*deliveries([1, 2, 3, 4]))
    sent = published(wire)
    again = resumed(wire, asked={"receive_maximum": 2})
    again.got()
    again.deliver(*deliveries([1, 2, 3, 4, 5]))
    assert [packet.payload for packet in published(again)] == [b"1", b"2"]
    again.send(p.Puback(sent[2].packet_id))  # an answer from before
    assert published(again) == []
    again.send(p.Puback(sent[0].packet_id))
    assert [(packet.payload, packet.dup) for packet in published(again)] == [(b"4", True)]
    again.send(p.Puback(sent[1].packet_id))
    assert [(packet.payload, packet.dup) for packet in published(again)] == [(b"5", False)]


def test_nothing_is_sent_again_while_connected() -> None:
    wire = opened()
    wire.deliver(*deliveries([1]))
    wire.deliver(*deliveries([1]))
    assert len(published(wire)) == 1


def test_a_message_that_is_gone_is_not_waited_for() -> None:
    wire = opened()
    wire.deliver(*deliveries([1, 2]))
    again = resumed(wire)
    again.got()
    again.deliver(*deliveries([3]))
    again.session.forget(1, 0)
    again.session.forget(1, 0)
    assert published(again) == []
    again.session.forget(2, 0)
    assert again.got_one(p.Publish).payload == b"3"
    assert again.session.state is not None
    assert [flight.ref for flight in again.session.state.in_flight.values()] == [3]


@pytest.mark.parametrize("is_gone", [True, False])
def test_an_identifier_that_a_client_may_remember_is_released_before_it_is_used_again(is_gone: bool) -> None:
    """A QoS 2 message that cannot be sent again: it is gone, or too large for what the client takes now."""
    wire = opened()
    wire.deliver(*deliveries([1], qos=2))
    [sent] = published(wire)
    again = resumed(wire, asked={"maximum_packet_size": 30})
    again.got()
    if is_gone:
        again.session.forget(1, 0)
    else:
        again.deliver(Delivery(message(b"x" * 30, 2), 2, 1))
        assert again.did() == [a.Dropped(1, 0x95)]
    assert again.got() == [p.Pubrel(sent.packet_id)]
    assert again.session.state is not None
    assert sent.packet_id in again.session.state.in_flight
    again.send(p.Pubcomp(sent.packet_id, Code.PACKET_ID_NOT_FOUND))
    assert again.session.state.in_flight == {}


def test_an_early_answer_to_what_is_to_be_sent_again() -> None:
    wire = opened()
    wire.deliver(*deliveries([1]))
    [sent] = published(wire)
    again = resumed(wire)
    again.got()
    again.send(p.Puback(sent.packet_id))
    assert again.did() == [a.Acked(1)]
    assert again.session.credit > 0


def test_the_quality_of_a_message_does_not_change_under_way() -> None:
    wire = opened()
    wire.deliver(*deliveries([1], qos=2))
    again = resumed(wire)
    again.got()
    again.deliver(*deliveries([1], qos=1))  # the subscription has another QoS now
    assert [packet.qos for packet in published(again)] == [2]


def test_qos_2_waits_until_its_identifier_is_saved() -> None:
    wire = opened(saves=False)
    wire.deliver(*deliveries([1], qos=2), *deliveries([2], qos=1))
    saving = wire.did_one(a.Save)
    assert [packet.payload for packet in published(wire)] == [b"2"]
    assert wire.session.state is not None
    assert {flight.ref for flight in restore(save(wire.session.state)).in_flight.values()} == {1, 2}
    wire.session.saved(saving.ticket)
    [sent] = published(wire)
    wire.send(p.Pubrec(sent.packet_id))
    acked, saving_too = wire.did()
    assert acked == a.Acked(1)
    assert isinstance(saving_too, a.Save)
    assert wire.got() == []
    wire.session.saved(saving_too.ticket)
    assert wire.got() == [p.Pubrel(sent.packet_id)]


def test_what_is_too_large_is_dropped_for_this_client() -> None:
    """5:[MQTT-3.1.2-24] 5:[MQTT-3.1.2-25]"""
    wire = opened(asked={"maximum_packet_size": 40})
    wire.deliver(Delivery(message(b"x" * 40), 1, 1), Delivery(message(b"x" * 40), 0), *deliveries([2]))
    assert wire.did() == [a.Dropped(1, 0x95)]
    [sent] = published(wire)
    assert sent.payload == b"2"
    exact = 40 - len(b"\x32\x26\0\1t\0\1\0")
    wire.deliver(Delivery(message(b"x" * exact), 1, 3), Delivery(message(b"x" * (exact + 1)), 1, 4))
    assert wire.did() == [a.Dropped(4, 0x95)]
    assert len(published(wire)) == 1
    assert wire.session.state is not None
    assert len(wire.session.state.in_flight) == 2


def test_messages_expire() -> None:
    """5:[MQTT-3.3.2-5] 5:[MQTT-3.3.2-6]"""
    wire = opened()
    wire.now = 5_000
    late, early = message(b"late", expires_at=5_000), message(b"early", expires_at=7_500)
    wire.deliver(Delivery(late, 1, 1), Delivery(late, 0), Delivery(early, 1, 2), Delivery(early, 0))
    assert wire.did() == [a.Dropped(1, 0)]
    assert [packet.properties.message_expiry for packet in published(wire)] == [3, 3]
    old = opened(V311)
    old.deliver(Delivery(message(b"early", expires_at=7_500)))
    assert [packet.payload for packet in published(old)] == [b"early"]


@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_begun_does_not_expire(qos: int) -> None:
    """5:[MQTT-4.3.3-7]"""
    wire = opened()
    wire.deliver(Delivery(message(b"x", expires_at=1_000), qos, 1))
    wire.now = 5_000
    again = resumed(wire)
    again.got()
    again.deliver(Delivery(message(b"x", expires_at=1_000), qos, 1))
    assert [packet.dup for packet in published(again)] == [True]


def test_what_expires_while_it_waits_is_not_sent() -> None:
    wire = opened(asked={"receive_maximum": 1})
    wire.deliver(*deliveries([1]), Delivery(message(b"2", expires_at=1_000), 1, 2), *deliveries([3]))
    [sent] = published(wire)
    wire.now = 1_000
    wire.send(p.Puback(sent.packet_id))
    assert wire.did() == [a.Acked(1), a.Dropped(2, 0)]
    assert [packet.payload for packet in published(wire)] == [b"3"]


def test_aliases_towards_the_client() -> None:
    """5:[MQTT-3.1.2-26] 5:[MQTT-3.3.2-11]"""
    wire = opened(asked={"topic_alias_maximum": 2})
    for topic in ("a", "b", "c", "a", "b", "c"):
        wire.deliver(Delivery(message(topic=topic)))
    sent = [(packet.topic, packet.properties.topic_alias) for packet in published(wire)]
    assert sent == [("a", 1), ("b", 2), ("c", None), ("", 1), ("", 2), ("c", None)]


def test_no_aliases_where_the_client_does_not_allow_them() -> None:
    """5:[MQTT-3.1.2-27]"""
    wire = opened()
    wire.deliver(Delivery(message()), Delivery(message()))
    assert [packet.properties.topic_alias for packet in published(wire)] == [None, None]


def test_an_alias_is_not_told_by_what_is_sent_later_or_not_at_all() -> None:
    wire = opened(asked={"topic_alias_maximum": 9, "maximum_packet_size": 50}, saves=False)
    wire.deliver(Delivery(message(b"x" * 60, topic="a")), *deliveries([1], qos=2))
    wire.deliver(Delivery(message(b"1", topic="a")), Delivery(message(b"2")))
    assert [packet.topic for packet in published(wire)] == ["a", "t"]


def test_properties_are_handed_on_with_those_of_the_receiver() -> None:
    """5:[MQTT-3.3.4-3] 5:[MQTT-3.3.2-17] 5:[MQTT-3.3.2-18]"""
    sent = Properties(content_type="text/plain", user=(("b", "1"), ("a", "2")))
    one = message(raw=encode_properties(sent))
    wire = opened()
    wire.deliver(Delivery(one, 1, 1, ids=(3, 200_000)), Delivery(one, 1, 2))
    first, second = published(wire)
    assert first.properties == Properties(
        content_type="text/plain", user=(("b", "1"), ("a", "2")), subscription_ids=(3, 200_000)
    )
    assert second.properties == sent
    old = opened(V311)
    old.deliver(Delivery(one, 0, ids=(3,)))
    assert old.got() == [p.Publish("t", b"x")]


@pytest.mark.parametrize(
    ("recipient", "rest", "expected"),
    [
        (Recipient(7, 2), {}, (1, False)),
        (Recipient(7, 0), {}, (0, False)),
        (Recipient(7, 1, retain_as_published=True), {}, (1, True)),
        (Recipient(7, 1, no_local=True), {}, (1, False)),
        (Recipient(7, 1, no_local=True), {"publisher": 7}, None),
        (Recipient(7, 1), {"publisher": 7}, (1, False)),
        (Recipient(7, 1, no_local=True, own=Recipient(7, 0)), {"publisher": 7}, (0, False)),
    ],
)
def test_what_a_subscription_asks_for(recipient: Recipient[int], rest: dict[str, Any], expected: Any) -> None:
    """5:[MQTT-3.8.3-3] 5:[MQTT-3.3.1-12] 5:[MQTT-3.3.1-13] 3:[MQTT-3.3.1-9] 5:[MQTT-3.8.4-8] 3:[MQTT-3.8.4-6]"""
    found = deliver_to(recipient, message(retain=True), 1, **rest)
    assert (None if found is None else (found.qos, found.retain)) == expected
