"""How a connection begins: who is let in, on what terms, with which session; and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from ortoo.doors.mqtt.rules import actions as a
from ortoo.doors.mqtt.rules import lifetime
from ortoo.doors.mqtt.rules.messages import message_of_will
from ortoo.doors.mqtt.rules.session import Phase
from ortoo.doors.mqtt.rules.state import SessionState, restore, save
from ortoo.doors.mqtt.rules.terms import Terms
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5, V31, V311, Code
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.properties import Kind, Properties, parse
from ortoo.doors.mqtt.wire.properties import encode as encode_properties
from tests.doors.mqtt.wiring import Wire, connect, opened, resumed

WILL = p.Will("gone", b"bye", 1, True)
BOTH = pytest.mark.parametrize("version", [V311, V5])


def kept(**fields: Any) -> SessionState:
    """A session that nobody is connected to, and that lives until second 100."""
    return SessionState("c", **{"expiry": 100, "is_connected": False, "expires_at": 100_000, **fields})


@BOTH
def test_a_client_is_greeted_before_anything_else(version: int) -> None:
    """5:[MQTT-3.2.0-1] 3:[MQTT-3.2.0-1] 5:[MQTT-3.1.4-5] 3:[MQTT-3.1.4-4] 5:[MQTT-3.2.0-2]"""
    wire = Wire(version, saves=False)
    wire.send(connect(version), p.Pingreq(), p.Publish("t", b"1", 1, packet_id=1))
    assert [type(action) for action in wire.did()] == [a.Admit]
    assert wire.session.take() == b""
    assert wire.session.is_busy
    wire.session.accept("c", None, 0)
    incoming, save_ = wire.did()
    assert isinstance(incoming, a.Incoming)
    assert isinstance(save_, a.Save)
    wire.session.settled(incoming.ticket)
    assert wire.session.take() == b""  # the session is not safe yet
    wire.session.saved(save_.ticket)
    assert [type(packet) for packet in wire.got()] == [p.Connack, p.Pingresp, p.Puback]


def test_what_comes_while_a_client_is_looked_at_waits() -> None:
    wire = Wire()
    wire.send(connect())
    wire.send(p.Publish("t", b"1"))
    wire.send_bytes(encode(p.Publish("t", b"2"), V5) + b"\x00")
    assert [type(action) for action in wire.did()] == [a.Admit]
    wire.session.accept("c", None, 0)
    assert [type(action) for action in wire.did()] == [a.Incoming, a.Incoming, a.Close]
    assert wire.closed().reason == 0x81


def test_nobody_is_sent_away_before_they_were_greeted() -> None:
    """5:[MQTT-3.14.0-1]"""
    wire = Wire(saves=False)
    wire.send(connect())
    wire.did()
    wire.session.accept("c", None, 0)
    wire.session.take_over(0)
    assert wire.got() == []
    for action in wire.did():
        if isinstance(action, a.Save):
            wire.session.saved(action.ticket)
    assert wire.got() == []


def test_a_connection_ends_once() -> None:
    wire = opened(will=WILL)
    wire.send(p.Disconnect(), p.Publish("t", b"too late"))
    wire.session.lost(5)
    wire.session.take_over(6)
    wire.session.tick(10**9)
    wire.send_bytes(b"\0\0")
    assert wire.closed().reason == 0
    assert [type(action) for action in wire.log] == [a.Close]
    assert wire.session.state is not None
    assert wire.session.state.will_at is None
    assert wire.got() == []


@BOTH
def test_nothing_of_a_client_that_is_refused_is_looked_at(version: int) -> None:
    """5:[MQTT-3.1.4-6] 3:[MQTT-3.1.4-5] 5:[MQTT-3.2.2-7] 3:[MQTT-3.2.2-5] 5:[MQTT-3.2.2-6] 3:[MQTT-3.2.2-4] 5:[MQTT-3.1.4-2]
    5:[MQTT-4.13.2-1]"""
    wire = Wire(version)
    wire.send(connect(version), p.Publish("t", b"1"))
    wire.did()
    wire.session.refuse(Code.NOT_AUTHORIZED, "go away")
    connack = wire.got_one(p.Connack)
    assert connack.reason == (0x87 if version == V5 else 5)
    assert not connack.session_present
    assert [type(action) for action in wire.log] == [a.Admit, a.Close]


def test_a_failure_that_old_clients_have_no_code_for_is_not_answered() -> None:
    """3:[MQTT-3.2.2-6]"""
    wire = Wire(V311)
    wire.send(connect(V311))
    wire.did()
    wire.session.refuse(Code.PACKET_TOO_LARGE, "too large")
    assert wire.got() == []
    assert wire.closed().reason == 0x95


@pytest.mark.parametrize(
    ("level", "answer"), [(6, b"\x20"), (3, b"\x20\x02\x00\x01"), (2, b"\x20\x02\x00\x01"), (0x84, b"\x20")]
)
def test_an_unknown_level_is_told_in_terms_that_are_understood(level: int, answer: bytes) -> None:
    """5:[MQTT-3.1.2-2] 3:[MQTT-3.1.2-2]"""
    wire = Wire()
    wire.send_bytes(b"\x10\x0d\x00\x04MQTT" + bytes((level,)) + b"\x02\x00\x00\x00\x01c")
    sent = wire.session.take()
    assert sent.startswith(answer)
    assert level < 5 or sent[3] == 0x84
    assert wire.closed().reason == 0x84


def test_who_does_not_speak_mqtt_is_not_answered() -> None:
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\xc0\0", b"\x16\x03\x01\x02\x00", b"\x10\x0d\x00\x04mqtt\4\2\0\0\0\1c"):
        wire = Wire()
        wire.send_bytes(data)
        assert wire.session.take() == b""
        assert wire.session.phase is Phase.CLOSED
        wire.closed()


def test_a_malformed_connect_is_answered_in_mqtt_5_only() -> None:
    """5:[MQTT-3.1.4-1] 3:[MQTT-3.1.4-1] 5:[MQTT-3.1.2-3] 3:[MQTT-3.1.2-3]"""
    for version, answer in ((V5, [0x81]), (V311, [])):
        wire = Wire(version)
        data = bytearray(encode(p.Connect("c", version), version))
        data[9] |= 1
        wire.send_bytes(bytes(data))
        assert [packet.reason for packet in wire.got() if isinstance(packet, p.Connack)] == answer
        wire.closed()


def test_the_terms_are_told() -> None:
    terms = Terms(receive_maximum=10, packet_bytes_max=5_000, aliases_in=3, keep_alive_max=60, session_expiry_max=1_000)
    wire = Wire(V5, terms)
    [connack] = wire.connect(connect(V5, keep_alive=3_600))
    assert connack == p.Connack(
        properties=Properties(
            receive_maximum=10,
            maximum_packet_size=5_000,
            topic_alias_maximum=3,
            server_keep_alive=60,
            session_expiry=1_000,
        )
    )
    assert wire.session.deadline == 90_000


def test_old_clients_are_told_nothing() -> None:
    wire = Wire(V311, Terms(keep_alive_max=60))
    assert wire.connect(connect(V311, keep_alive=3_600)) == [p.Connack()]
    assert wire.session.deadline == 5_400_000


def test_a_client_identifier_is_made_up_for_a_client_without_one() -> None:
    """5:[MQTT-3.1.3-6] 5:[MQTT-3.1.3-7] 5:[MQTT-3.2.2-16] 3:[MQTT-3.1.3-6]"""
    wire = Wire()
    [connack] = wire.connect(connect(client_id=""))
    assert isinstance(connack, p.Connack)
    assert connack.properties.assigned_client_id == "assigned"
    old = Wire(V311)
    assert old.connect(p.Connect("", V311, clean_start=True)) == [p.Connack()]


def test_an_old_client_without_an_identifier_keeps_no_session() -> None:
    """3:[MQTT-3.1.3-7] 3:[MQTT-3.1.3-8]"""
    for version, clean in ((V311, False), (V31, True), (V31, False)):
        wire = Wire(version)
        wire.send(p.Connect("", version, clean))
        assert wire.got_one(p.Connack).reason == 2
        wire.closed()


def test_enhanced_authentication_is_refused() -> None:
    """5:[MQTT-4.12.0-1]"""
    wire = Wire()
    wire.send(connect(asked={"authentication_method": "SCRAM"}))
    assert wire.got_one(p.Connack).reason == 0x8C
    wire = opened()
    wire.send(p.Auth(0x19))
    assert wire.got_one(p.Disconnect).reason == 0x82


def test_a_client_that_takes_no_connack_gets_none() -> None:
    """5:[MQTT-3.1.2-24] 5:[MQTT-3.2.2-19]"""
    wire = Wire()
    assert wire.connect(connect(asked={"maximum_packet_size": 10})) == []
    assert wire.closed().reason == 0x95
    wire = Wire()
    wire.send(connect(asked={"maximum_packet_size": 6}))
    wire.did()
    wire.session.refuse(Code.NOT_AUTHORIZED, "a reason that is much too long")
    assert wire.session.take() == b"\x20\x03\x00\x87\x00"


@BOTH
def test_a_session_is_resumed(version: int) -> None:
    """5:[MQTT-3.1.2-5] 3:[MQTT-3.1.2-4] 5:[MQTT-3.2.2-3] 3:[MQTT-3.2.2-2] 5:[MQTT-3.1.2-23] 5:[MQTT-3.1.3-2]"""
    wire = Wire(version, now=99_999)
    [connack] = wire.connect(connect(version), kept(received={7}))
    assert isinstance(connack, p.Connack)
    assert connack.session_present
    assert wire.session.state is not None
    assert wire.session.state.received == {7}
    assert wire.session.state.expires_at is None
    assert wire.did() == []


@BOTH
def test_without_a_session_a_new_one_begins(version: int) -> None:
    """5:[MQTT-3.1.2-6] 5:[MQTT-3.2.2-3] 3:[MQTT-3.2.2-3]"""
    [connack] = Wire(version).connect(connect(version))
    assert isinstance(connack, p.Connack)
    assert not connack.session_present


@BOTH
def test_a_clean_start_discards_the_session(version: int) -> None:
    """5:[MQTT-3.1.2-4] 3:[MQTT-3.1.2-6] 5:[MQTT-3.2.2-2] 3:[MQTT-3.2.2-1] 5:[MQTT-3.1.4-4]"""
    wire = Wire(version)
    wire.send(connect(version, clean=True))
    wire.did()
    wire.session.accept("c", kept(received={7}), 0)
    assert wire.did() == [a.Discard("c")]
    assert not wire.got_one(p.Connack).session_present
    assert wire.session.state is not None
    assert wire.session.state.received == set()


def test_a_session_that_has_expired_is_not_resumed() -> None:
    """5:[MQTT-4.1.0-2]"""
    wire = Wire(now=100_000)
    [connack] = wire.connect(connect(), kept())
    assert isinstance(connack, p.Connack)
    assert not connack.session_present
    assert a.Discard("c") in wire.log


def test_silence_ends_a_connection() -> None:
    """5:[MQTT-3.1.2-22] 3:[MQTT-3.1.2-24] 5:[MQTT-3.2.2-22] 5:[MQTT-3.12.4-1] 3:[MQTT-3.12.4-1]"""
    for version in (V5, V311):
        wire = opened(version, keep_alive=10)
        wire.now = 14_999
        wire.session.tick(wire.now)
        assert wire.session.phase is Phase.OPEN
        wire.send(p.Pingreq())
        assert wire.got() == [p.Pingresp()]
        assert wire.session.deadline == 29_999
        wire.session.tick(29_999)
        assert wire.closed().reason == 0x8D
        assert [packet.reason for packet in wire.got() if isinstance(packet, p.Disconnect)] == [0x8D] * (version == V5)


def test_silence_before_connect_ends_it_too() -> None:
    wire = Wire()
    wire.session.tick(9_999)
    assert wire.session.phase is Phase.WAITING
    wire.session.tick(10_000)
    wire.closed()


def test_without_keep_alive_nobody_waits_for_old_clients() -> None:
    assert opened(V311, keep_alive=0).session.deadline is None


@BOTH
def test_a_client_that_comes_again_ends_its_other_connection(version: int) -> None:
    """5:[MQTT-3.1.4-3] 3:[MQTT-3.1.4-2]"""
    wire = opened(version)
    wire.session.take_over(0)
    assert wire.closed().reason == 0x8E
    assert [packet.reason for packet in wire.got() if isinstance(packet, p.Disconnect)] == [0x8E] * (version == V5)


@BOTH
def test_what_is_malformed_ends_the_connection(version: int) -> None:
    """5:[MQTT-4.13.1-1] 3:[MQTT-4.8.0-1]"""
    wire = opened(version)
    wire.send_bytes(encode(p.Publish("t", b"1"), version) + b"\x36\0")
    assert [type(action) for action in wire.did()] == [a.Incoming, a.Close]
    assert [packet.reason for packet in wire.got() if isinstance(packet, p.Disconnect)] == [0x81] * (version == V5)
    wire.send(p.Pingreq())
    assert wire.got() == []


def test_a_reason_in_words_is_left_out_where_there_is_no_room() -> None:
    """5:[MQTT-3.14.2-3]"""
    wire = opened(asked={"maximum_packet_size": 30})
    wire.send_bytes(b"\x36\0")
    assert wire.session.take() == b"\xe0\x01\x81"


def with_delay(delay: int) -> p.Will:
    found = Properties(will_delay=delay)
    return p.Will("gone", b"bye", 1, properties=found, raw=encode_properties(found))


@BOTH
def test_a_will_is_sent_when_a_connection_is_lost(version: int) -> None:
    """5:[MQTT-3.1.2-7] 5:[MQTT-3.1.2-8] 3:[MQTT-3.1.2-8] 5:[MQTT-3.1.2-10]"""
    wire = opened(version, will=WILL)
    state = wire.session.state
    assert state is not None
    assert state.will == WILL
    assert lifetime.due(state, 10**12) is None
    wire.session.lost(5)
    assert lifetime.next_deadline(state) == 5
    assert lifetime.due(state, 5) == "will"
    lifetime.will_published(state)
    assert lifetime.due(state, 5) is None
    assert state.will is None


@BOTH
def test_goodbye_discards_a_will(version: int) -> None:
    """5:[MQTT-3.14.4-3] 3:[MQTT-3.14.4-3] 3:[MQTT-3.1.2-10]"""
    wire = opened(version, will=WILL)
    wire.send(p.Disconnect())
    assert wire.closed().reason == 0
    assert wire.got() == []
    assert wire.session.state is not None
    assert wire.session.state.will is None
    assert lifetime.due(wire.session.state, 1) is None


def test_what_a_will_says_is_published() -> None:
    """5:[MQTT-3.1.2-14] 5:[MQTT-3.1.2-15] 3:[MQTT-3.1.2-16] 3:[MQTT-3.1.2-17] 5:[MQTT-3.1.3-10]"""
    found = Properties(message_expiry=5, user=(("b", "1"), ("a", "2")), will_delay=9)
    will = p.Will("gone", b"bye", 1, True, found, encode_properties(found))
    sent = message_of_will(will, 1_000)
    assert (sent.topic, sent.payload, sent.qos, sent.retain, sent.expires_at) == ("gone", b"bye", 1, True, 6_000)
    assert parse(sent.raw, Kind.PUBLISH) == Properties(user=(("b", "1"), ("a", "2")))
    assert not message_of_will(p.Will("gone", b"bye"), 0).retain


def test_connack_waits_until_a_will_is_safe() -> None:
    """Also that of a session that ends with its connection: a server that dies right afterwards owes it."""
    wire = Wire(saves=False)
    wire.send(connect(clean=True, asked={"session_expiry": None}, will=WILL))
    wire.did_one(a.Admit)
    wire.session.accept("c", None, 0)
    [save] = wire.did()
    assert isinstance(save, a.Save)
    assert wire.got() == []
    wire.session.saved(save.ticket)
    assert wire.got_one(p.Connack).reason == 0


def test_a_session_that_will_not_be_kept_any_more_is_saved_as_such() -> None:
    """Otherwise it would be back after a restart, with the will that its client has taken back by coming again."""
    before = opened(will=WILL)
    before.session.lost(0)
    wire = Wire(saves=False)
    wire.send(connect(asked={"session_expiry": None}))
    wire.did_one(a.Admit)
    wire.session.accept("c", before.session.state, 0)
    assert isinstance(wire.did()[-1], a.Save)
    assert wire.session.state is not None
    assert (wire.session.state.expiry, wire.session.state.will) == (0, None)


def test_goodbye_with_a_will() -> None:
    wire = opened(will=WILL)
    wire.send(p.Disconnect(Code.DISCONNECT_WITH_WILL))
    assert wire.session.state is not None
    assert lifetime.due(wire.session.state, 0) == "will"


@pytest.mark.parametrize("end", ["silence", "malformed", "take-over"])
def test_every_other_end_sends_the_will(end: str) -> None:
    wire = opened(will=WILL)
    if end == "silence":
        wire.session.tick(10**9)
    elif end == "malformed":
        wire.send_bytes(b"\0\0")
    else:
        wire.session.take_over(0)
    assert wire.session.state is not None
    assert wire.session.state.will_at is not None


@pytest.mark.parametrize(("delay", "expiry", "at"), [(10, 100, 10_000), (100, 10, 10_000), (10, 0, 0), (0, 10, 0)])
def test_a_will_waits_no_longer_than_its_session(delay: int, expiry: int, at: int) -> None:
    wire = opened(will=with_delay(delay), asked={"session_expiry": expiry})
    wire.session.lost(0)
    state = wire.session.state
    assert state is not None
    assert (state.will_at, state.expires_at) == (at, expiry * 1000)
    assert lifetime.due(state, max(at, expiry * 1000)) == "will"  # first, if both are due


def test_no_will_is_sent_for_a_client_that_is_back_in_time() -> None:
    """5:[MQTT-3.1.3-9]"""
    wire = opened(will=with_delay(10))
    again = resumed(wire)
    assert not any(isinstance(action, a.PublishWill) for action in again.log + again.did())
    assert again.session.state is not None
    assert again.session.state.will is None  # the new connection has none


def test_a_will_whose_time_has_come_is_sent_also_if_the_client_is_back() -> None:
    again = resumed(opened(will=WILL))
    assert a.PublishWill(WILL) in again.did()


def test_the_end_of_a_session_is_the_time_of_its_will() -> None:
    will = with_delay(10)
    again = resumed(opened(will=will), clean=True)
    assert again.did() == [a.PublishWill(will), a.Discard("c")]


def test_a_will_outlives_the_server() -> None:
    wire = opened(will=with_delay(10))
    assert wire.session.state is not None
    state = restore(save(wire.session.state))
    lifetime.reopen(state, 5_000)
    assert (state.will_at, state.expires_at) == (15_000, 3_605_000)
    again = restore(save(state))
    lifetime.reopen(again, 9_000)
    assert again.will_at == 15_000
    assert again.will == with_delay(10)


def test_goodbye_may_change_how_long_a_session_is_kept() -> None:
    wire = opened()
    wire.now = 1_000
    wire.send(p.Disconnect(properties=Properties(session_expiry=5)))
    assert wire.session.state is not None
    assert wire.session.state.expires_at == 6_000
    wire = opened(asked={"session_expiry": 0})
    wire.send(p.Disconnect(properties=Properties(session_expiry=5)))
    assert wire.got_one(p.Disconnect).reason == 0x82


def test_an_old_session_is_kept_as_long_as_the_server_keeps_any() -> None:
    """3:[MQTT-3.1.2-5]"""
    wire = opened(V311, Terms(session_expiry_max=50))
    wire.session.lost(0)
    assert wire.session.state is not None
    assert wire.session.state.expires_at == 50_000
    wire = opened(V311, clean=True)
    wire.session.lost(7)
    assert wire.session.state is not None
    assert wire.session.state.expires_at == 7


def test_what_the_end_changes_is_saved() -> None:
    wire = opened(will=with_delay(9), saves=False)
    wire.session.lost(0)
    assert [type(action) for action in wire.did()] == [a.Close, a.Save]
    wire = opened(asked={"session_expiry": 0}, saves=False)
    wire.session.lost(0)
    assert [type(action) for action in wire.did()] == [a.Close]
