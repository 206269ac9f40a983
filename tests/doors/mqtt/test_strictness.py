"""Bytes that the specifications do not allow, each with the statement that forbids them and the reason that is given.

Numbers are those of MQTT 5 (`5:`) and MQTT 3.1.1 (`3:`); README.md of the door lists them.
"""

from __future__ import annotations

import pytest

from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5, V31, V311, Code
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.properties import Properties
from ortoo.doors.mqtt.wire.properties import encode as encode_properties

MALFORMED, PROTOCOL = Code.MALFORMED, Code.PROTOCOL_ERROR


def refused(data: bytes, version: int | None) -> int | None:
    decoder = Decoder(1 << 20, version=version)
    packets = decoder.feed(data)
    assert bool(packets) == (decoder.error is None)
    return None if decoder.error is None else decoder.error.reason


def packet(head: int, body: bytes) -> bytes:
    assert len(body) < 128
    return bytes((head, len(body))) + body


def text(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


def publish(topic: bytes = b"t", head: int = 0x30, properties: bytes = b"\0", packet_id: bytes = b"") -> bytes:
    return packet(head, text(topic) + packet_id + properties + b"payload")


def connect(flags: int, version: int, payload: bytes = b"\0\1c", properties: bytes = b"") -> bytes:
    name = text(b"MQIsdp" if version == V31 else b"MQTT")
    return packet(0x10, name + bytes((version, flags)) + b"\0\x0a" + (properties or b"\0" * (version == V5)) + payload)


def subscribe(name: bytes, options: int, properties: bytes = b"\0") -> bytes:
    return packet(0x82, b"\0\1" + properties + text(name) + bytes((options,)))


ILL_FORMED = {
    "surrogate": b"\xed\xa0\x80",
    "NUL": b"a\0b",
    "overlong": b"\xc0\x80",
    "cut": b"\xe2\x82",
    "stray": b"\x80",
    "beyond Unicode": b"\xf5\x80\x80\x80",
}


@pytest.mark.parametrize("raw", ILL_FORMED.values(), ids=ILL_FORMED)
@pytest.mark.parametrize("version", [V311, V5])
def test_strings_are_well_formed(raw: bytes, version: int) -> None:
    """5:[MQTT-1.5.4-1] 5:[MQTT-1.5.4-2] 3:[MQTT-1.5.3-1] 3:[MQTT-1.5.3-2] 5:[MQTT-4.7.3-2] 3:[MQTT-4.7.3-2]
    5:[MQTT-3.1.3-4] 3:[MQTT-3.1.3-4] 5:[MQTT-3.1.3-12] 3:[MQTT-3.1.3-11] 5:[MQTT-3.1.3-11] 3:[MQTT-3.1.3-10] 5:[MQTT-3.3.2-1]
    3:[MQTT-3.3.2-1] 5:[MQTT-3.8.3-1] 3:[MQTT-3.8.3-1] 5:[MQTT-3.10.3-1] 3:[MQTT-3.10.3-1]"""
    none = b"\0" if version == V5 else b""
    assert refused(publish(raw, properties=none), version) == MALFORMED
    assert refused(subscribe(raw, 0, none), version) == MALFORMED
    assert refused(packet(0xA2, b"\0\1" + none + text(raw)), version) == MALFORMED
    assert refused(connect(0x02, version, text(raw)), None) == MALFORMED
    assert refused(connect(0x86, version, text(b"c") + none + text(b"w") + text(b"") + text(raw)), None) == MALFORMED
    assert refused(connect(0x06, version, text(b"c") + none + text(raw) + text(b"")), None) == MALFORMED


@pytest.mark.parametrize("raw", ILL_FORMED.values(), ids=ILL_FORMED)
def test_strings_of_properties_are_well_formed(raw: bytes) -> None:
    """5:[MQTT-3.3.2-13] 5:[MQTT-3.3.2-19] 5:[MQTT-1.5.7-1]"""
    for head in (b"\x03", b"\x08", b"\x26" + text(b"name")):
        value = head + text(raw)
        assert refused(publish(properties=bytes((len(value),)) + value), V5) == MALFORMED


def test_a_byte_order_mark_stays() -> None:
    """5:[MQTT-1.5.4-3] 3:[MQTT-1.5.3-3]"""
    [found] = Decoder(1000, version=V311).feed(publish(b"\xef\xbb\xbft", properties=b""))
    assert isinstance(found, p.Publish)
    assert found.topic == "\ufefft"


def test_lengths_are_as_short_as_they_can_be() -> None:
    """5:[MQTT-1.5.5-1]: what came before MQTT 5 does not say so."""
    assert refused(b"\x30\x85\x00\x00\x01tab", V311) is None
    assert refused(b"\x30\x85\x00\x00\x01t\x00b", V5) == MALFORMED
    assert refused(publish(properties=b"\x80\0"), V5) == MALFORMED
    assert refused(b"\xc0\x80\x00", V5) == MALFORMED
    long = connect(0x02, V5)
    assert refused(long[:1] + bytes((long[1] | 0x80, 0)) + long[2:], None) == MALFORMED
    assert refused(b"\x30\xff\xff\xff\x80", V311) == MALFORMED
    assert refused(b"\x30\xff\xff\xff\xff\x01", V5) == MALFORMED


@pytest.mark.parametrize("head", [*range(0x41, 0x50), *range(0x51, 0x60), 0x60, 0x6A, 0x63, 0x71, 0x80, 0x8A])
@pytest.mark.parametrize("version", [V311, V5])
def test_reserved_flags_of_the_head(head: int, version: int) -> None:
    """5:[MQTT-2.1.3-1] 3:[MQTT-2.2.2-1] 3:[MQTT-2.2.2-2] 5:[MQTT-3.6.1-1] 3:[MQTT-3.6.1-1] 5:[MQTT-3.8.1-1] 3:[MQTT-3.8.1-1]"""
    assert refused(packet(head, b"\0\1"), version) == MALFORMED


@pytest.mark.parametrize("head", [0xA0, 0xAA, 0xC1, 0xE1, 0xEF, 0xF1, 0x00, 0x0F])
def test_reserved_flags_of_other_heads(head: int) -> None:
    """5:[MQTT-3.10.1-1] 3:[MQTT-3.10.1-1] 5:[MQTT-3.14.1-1] 3:[MQTT-3.14.1-1] 5:[MQTT-3.15.1-1]"""
    assert refused(bytes((head, 0)), V5) == MALFORMED
    assert refused(bytes((head,)), V5) == MALFORMED  # its first byte is enough


def test_reserved_flags_of_connect() -> None:
    assert refused(b"\x11" + connect(0x02, V5)[1:], None) == MALFORMED


def test_mqtt_3_1_marks_what_is_sent_again() -> None:
    assert refused(packet(0x6A, b"\0\1"), V31) is None
    assert refused(b"\x8a" + subscribe(b"t", 0, b"")[1:], V31) is None


@pytest.mark.parametrize("version", [V311, V5])
def test_publish_heads(version: int) -> None:
    """5:[MQTT-3.3.1-2] 3:[MQTT-3.3.1-2] 5:[MQTT-3.3.1-4] 3:[MQTT-3.3.1-4]"""
    for head in (0x36, 0x37, 0x3E, 0x3F, 0x38, 0x39):
        assert refused(bytes((head,)), version) == MALFORMED


@pytest.mark.parametrize("version", [V311, V5])
def test_packet_identifiers_are_not_zero(version: int) -> None:
    """5:[MQTT-2.2.1-3] 3:[MQTT-2.3.1-1]"""
    none = b"\0" if version == V5 else b""
    assert refused(publish(head=0x32, packet_id=b"\0\0", properties=none), version) == PROTOCOL
    assert refused(packet(0x82, b"\0\0" + none + b"\0\1t\0"), version) == PROTOCOL
    assert refused(packet(0xA2, b"\0\0" + none + b"\0\1t"), version) == PROTOCOL
    for head in (0x40, 0x50, 0x62, 0x70):
        assert refused(packet(head, b"\0\0"), version) == PROTOCOL


def test_the_first_packet_is_connect_and_no_other_is() -> None:
    """5:[MQTT-3.1.0-1] 3:[MQTT-3.1.0-1] 5:[MQTT-3.1.0-2] 3:[MQTT-3.1.0-2]"""
    for data in (b"\xc0\0", publish(), b"\x20\x02\0\0", b"\x00\0"):
        assert refused(data, None) == PROTOCOL
    for version in (V31, V311, V5):
        decoder = Decoder(1000)
        assert len(decoder.feed(connect(0x02, version) * 2)) == 1
        assert decoder.error is not None
        assert decoder.error.reason == PROTOCOL


@pytest.mark.parametrize("head", [0x20, 0x90, 0xB0, 0xD0])
def test_what_only_servers_send(head: int) -> None:
    assert refused(packet(head, b"\0\1\0"), V5) == PROTOCOL


def test_other_protocols_and_levels() -> None:
    """5:[MQTT-3.1.2-1] 3:[MQTT-3.1.2-1] 5:[MQTT-3.1.2-2] 3:[MQTT-3.1.2-2]"""
    for name, level, spoken in (
        (b"MQTT", 6, V5),
        (b"MQTT", 3, V311),
        (b"MQTT", 0, V311),
        (b"MQIsdp", 4, V311),
        (b"MQTT", 0x84, V5),
        (b"mqtt", 4, None),
        (b"HTTP", 4, None),
    ):
        decoder = Decoder(1000)
        decoder.feed(packet(0x10, text(name) + bytes((level, 2)) + b"\0\0\0\1c"))
        assert decoder.error is not None
        assert (decoder.error.reason, decoder.error.version) == (0x84, spoken)
        assert decoder.error.return_code == 1


def test_the_flags_of_connect() -> None:
    """5:[MQTT-3.1.2-3] 3:[MQTT-3.1.2-3] 5:[MQTT-3.1.2-11] 5:[MQTT-3.1.2-12] 5:[MQTT-3.1.2-13]
    3:[MQTT-3.1.2-13] 3:[MQTT-3.1.2-14] 3:[MQTT-3.1.2-15] 3:[MQTT-3.1.2-22]"""
    for version in (V311, V5):
        for flags in (0x03, 0x0A, 0x12, 0x22):
            assert refused(connect(flags, version), None) == MALFORMED
        will = b"\0" * (version == V5) + text(b"w") + text(b"gone")
        assert refused(connect(0x16, version, text(b"c") + will), None) is None
        assert refused(connect(0x1E, version, text(b"c") + will), None) == MALFORMED
    assert refused(connect(0x42, V311, text(b"c") + text(b"secret")), None) == MALFORMED
    assert refused(connect(0x42, V5, text(b"c") + text(b"secret")), None) is None


def test_what_flags_announce_has_to_be_there() -> None:
    """5:[MQTT-3.1.2-9] 3:[MQTT-3.1.2-9] 5:[MQTT-3.1.2-17] 5:[MQTT-3.1.2-19] 3:[MQTT-3.1.2-19] 3:[MQTT-3.1.2-21]"""
    for version in (V311, V5):
        for flags in (0x06, 0x82, 0xC2):
            assert refused(connect(flags, version), None) == MALFORMED


def test_what_flags_do_not_announce_may_not_be_there() -> None:
    """5:[MQTT-3.1.2-16] 5:[MQTT-3.1.2-18] 3:[MQTT-3.1.2-18] 3:[MQTT-3.1.2-20]"""
    for version in (V311, V5):
        assert refused(connect(0x02, version, text(b"c") + text(b"user")), None) == MALFORMED


def test_the_topic_of_a_will() -> None:
    """5:[MQTT-4.7.0-1] 3:[MQTT-4.7.1-1] 5:[MQTT-4.7.3-1] 3:[MQTT-4.7.3-1]"""
    for topic in (b"a/+", b"#", b""):
        assert refused(connect(0x06, V311, text(b"c") + text(topic) + text(b"")), None) == 0x90


def test_topic_names_have_no_wildcards() -> None:
    """5:[MQTT-3.3.2-2] 3:[MQTT-3.3.2-2] 5:[MQTT-4.7.0-1] 3:[MQTT-4.7.1-1]"""
    for topic in (b"a/#", b"+", b"a+b", b"a/b#/c"):
        assert refused(publish(topic), V5) == 0x90
        assert refused(publish(topic, properties=b""), V311) == 0x90


def test_a_publish_has_a_topic_or_an_alias() -> None:
    """5:[MQTT-4.7.3-1] 3:[MQTT-4.7.3-1] 5:[MQTT-3.3.2-8]"""
    assert refused(publish(b""), V5) == PROTOCOL
    assert refused(publish(b"", properties=b""), V311) == PROTOCOL
    assert refused(publish(b"", properties=b"\x03\x23\0\1"), V5) is None
    assert refused(publish(b"", properties=b"\x03\x23\0\0"), V5) == 0x94


def test_a_clients_publish_has_no_subscription_identifier() -> None:
    """5:[MQTT-3.3.4-6]"""
    assert refused(publish(properties=b"\x02\x0b\x01"), V5) == PROTOCOL


def test_a_response_topic_has_no_wildcards() -> None:
    """5:[MQTT-3.3.2-14]"""
    assert refused(publish(properties=b"\x06\x08\0\x03a/+"), V5) == PROTOCOL


BAD_FILTERS = [b"", b"a/#/b", b"a#", b"#a", b"a/b+", b"+a/b", b"##", b"a/+#", b"#/"]
BAD_SHARED = [b"$share", b"$share/g", b"$share//t", b"$share/g/", b"$share/g+/t", b"$share/#/t", b"$share/g/a#"]
GOOD_FILTERS = [b"#", b"+", b"/", b"a//b", b"+/+/#", b"/#", b"$SYS/#", b"$share/g/#", b"$share/g//", b"$shared", b" "]


@pytest.mark.parametrize("name", BAD_FILTERS + BAD_SHARED)
@pytest.mark.parametrize("version", [V311, V5])
def test_topic_filters_are_well_formed(name: bytes, version: int) -> None:
    """5:[MQTT-4.7.1-1] 5:[MQTT-4.7.1-2] 3:[MQTT-4.7.1-2] 3:[MQTT-4.7.1-3] 5:[MQTT-4.8.2-1] 5:[MQTT-4.8.2-2]"""
    none = b"\0" if version == V5 else b""
    assert refused(subscribe(name, 0, none), version) == 0x8F
    assert refused(packet(0xA2, b"\0\1" + none + text(name)), version) == 0x8F


@pytest.mark.parametrize("name", GOOD_FILTERS)
def test_topic_filters_that_are_fine(name: bytes) -> None:
    assert refused(subscribe(name, 0), V5) is None
    assert refused(packet(0xA2, b"\0\1\0" + text(name)), V5) is None


def test_subscriptions_have_options_that_exist() -> None:
    """5:[MQTT-3.8.3-5] 3:[MQTT-3.8.3-4] 5:[MQTT-3.8.3-4]"""
    for options, reason in ((0x40, MALFORMED), (0x80, MALFORMED), (0x03, PROTOCOL), (0x30, PROTOCOL), (0x2E, None)):
        assert refused(subscribe(b"t", options), V5) == reason
    for options in (0x04, 0x08, 0x10, 0x80):
        assert refused(subscribe(b"t", options, b""), V311) == MALFORMED
    assert refused(subscribe(b"t", 3, b""), V311) == PROTOCOL
    assert refused(subscribe(b"$share/g/t", 0x04), V5) == PROTOCOL


def test_lists_of_filters_are_not_empty() -> None:
    """5:[MQTT-3.8.3-2] 3:[MQTT-3.8.3-3] 5:[MQTT-3.10.3-2] 3:[MQTT-3.10.3-2]"""
    for head in (0x82, 0xA2):
        assert refused(packet(head, b"\0\1\0"), V5) == PROTOCOL
        assert refused(packet(head, b"\0\1"), V311) == PROTOCOL


def test_a_packet_has_only_so_many_filters() -> None:
    many = tuple(p.Subscription(f"t/{number}") for number in range(5_001))
    assert refused(encode(p.Subscribe(1, many[:5_000]), V5), V5) is None
    assert refused(encode(p.Subscribe(1, many), V5), V5) == 0x97
    assert refused(encode(p.Unsubscribe(1, tuple(one.filter for one in many)), V5), V5) == 0x97


def test_properties_that_a_packet_may_not_have() -> None:
    for value in (b"\x11\0\0\0\1", b"\x7f", b"\x00", b"\x80\x01", b"\x1f\0\1x", b"\x18\0\0\0\1"):
        assert refused(publish(properties=bytes((len(value),)) + value), V5) == MALFORMED
    assert refused(subscribe(b"t", 0, b"\x05\x02\0\0\0\1"), V5) == MALFORMED


def test_properties_that_come_twice() -> None:
    for value in (b"\x01\0", b"\x02\0\0\0\1", b"\x03\0\1x", b"\x08\0\1x", b"\x09\0\1x", b"\x23\0\1"):
        assert refused(publish(properties=bytes((len(value),)) + value), V5) is None
        assert refused(publish(properties=bytes((2 * len(value),)) + value * 2), V5) == PROTOCOL
    assert refused(subscribe(b"t", 0, b"\x02\x0b\x01"), V5) is None
    assert refused(subscribe(b"t", 0, b"\x04\x0b\x01\x0b\x02"), V5) == PROTOCOL


def test_values_that_properties_may_not_have() -> None:
    assert refused(publish(properties=b"\x02\x01\x02"), V5) == PROTOCOL  # the format of a payload
    assert refused(subscribe(b"t", 0, b"\x02\x0b\x00"), V5) == PROTOCOL
    for value in (b"\x21\0\0", b"\x27\0\0\0\0", b"\x17\x02", b"\x19\x02", b"\x16\0\1x"):
        assert refused(connect(0x02, V5, properties=bytes((len(value),)) + value), None) == PROTOCOL


def test_properties_reach_no_further_than_their_packet() -> None:
    """5:[MQTT-2.2.2-1]"""
    for properties in (b"\x7e", b"\x04\x03\0\x09x", b"\x01\x02", b"\x02\x0b\x80", b"\xff\xff\xff\xff"):
        assert refused(publish(properties=properties), V5) == MALFORMED
    assert refused(packet(0x30, text(b"t")), V5) == MALFORMED  # their length is not left out


def test_user_properties_are_bounded() -> None:
    many = Properties(user=(("", ""),) * 1_024)
    assert refused(encode(p.Publish("t", b"", properties=many), V5), V5) is None
    more = encode_properties(many) + b"\x26\0\0\0\0"
    assert refused(encode(p.Publish("t", b"", raw=more), V5), V5) == 0x97


def test_packets_end_where_they_say() -> None:
    for version in (V311, V5):
        assert refused(b"\xc0\x01\0", version) == MALFORMED
        assert refused(connect(0x02, version) + b"", None) is None
    for head in (0x40, 0x50, 0x62, 0x70):
        assert refused(packet(head, b"\0\1\0"), V311) == MALFORMED
        assert refused(packet(head, b"\0\1\0\0x"), V5) == MALFORMED
        assert refused(packet(head, b"\0"), V5) == MALFORMED
    assert refused(b"\xe0\x01\0", V311) == MALFORMED
    assert refused(packet(0xE0, b"\0\0x"), V5) == MALFORMED
    assert refused(b"\x30\x01\0", V311) == MALFORMED
    assert refused(b"\x32\x03\0\1t", V311) == MALFORMED
    assert refused(b"\x30\x03\0\5t", V311) == MALFORMED


def test_reason_codes_exist() -> None:
    """5:[MQTT-3.4.2-1] 5:[MQTT-3.5.2-1] 5:[MQTT-3.6.2-1] 5:[MQTT-3.7.2-1] 5:[MQTT-3.14.2-1] 5:[MQTT-3.15.2-1]"""
    for head, reason in ((0x40, 0x92), (0x50, 0x01), (0x62, 0x10), (0x70, 0x80)):
        assert refused(packet(head, bytes((0, 1, reason))), V5) == MALFORMED
    for head, reason in ((0x40, 0x10), (0x50, 0x97), (0x62, 0x92), (0x70, 0x92)):
        assert refused(packet(head, bytes((0, 1, reason))), V5) is None
    assert refused(packet(0xE0, b"\x8e"), V5) == MALFORMED  # only servers take a session over
    assert refused(packet(0xE0, b"\x04"), V5) is None
    assert refused(packet(0xF0, b"\x01"), V5) == MALFORMED


def test_there_is_no_auth_before_mqtt_5() -> None:
    assert refused(b"\xf0\0", V311) == MALFORMED
