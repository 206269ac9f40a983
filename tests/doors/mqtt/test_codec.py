"""Decoding undoes encoding; how bytes are cut into reads does not matter; whatever comes, the error is a clean one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5, MqttError
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.properties import NONE, Kind, Properties, carried, parse
from ortoo.doors.mqtt.wire.properties import encode as encode_properties
from tests.doors.mqtt import drawing

MB = 1 << 20
versions = st.sampled_from(drawing.VERSIONS)


def outcome(decoder: Decoder, reads: list[bytes]) -> tuple[list[Any], Any]:
    packets = [packet for read in reads for packet in decoder.feed(read)]
    error = decoder.error
    return packets, None if error is None else (error.reason, str(error), error.version)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(versions.flatmap(lambda v: st.tuples(drawing.connects(v), st.lists(drawing.from_client(v), max_size=5))))
def test_what_a_client_sends_is_read_as_it_was_meant(drawn: tuple[p.Connect, list[p.Packet]]) -> None:
    connect, others = drawn
    data = b"".join(encode(packet, connect.version) for packet in [connect, *others])
    decoder = Decoder(MB)
    assert decoder.feed(data) == [connect, *others]
    assert decoder.error is None
    assert decoder.held == 0
    assert decoder.version == connect.version


@given(versions.flatmap(lambda v: st.tuples(st.just(v), st.lists(drawing.from_server(v), max_size=6))))
def test_what_a_server_sends_is_read_as_it_was_meant(drawn: tuple[int, list[p.Packet]]) -> None:
    version, sent = drawn
    decoder = Decoder(MB, side="client", version=version)
    assert decoder.feed(b"".join(encode(packet, version) for packet in sent)) == sent
    assert decoder.error is None


@given(
    versions.flatmap(lambda v: st.tuples(drawing.connects(v), st.lists(drawing.from_client(v), max_size=4))),
    st.lists(st.integers(0, 10_000), max_size=8),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=2),
    st.booleans(),
)
@settings(max_examples=200)
def test_reads_may_be_cut_anywhere(
    drawn: tuple[p.Connect, list[p.Packet]], places: list[int], mutations: list[tuple[int, int]], is_small: bool
) -> None:
    connect, others = drawn
    data = bytearray(b"".join(encode(packet, connect.version) for packet in [connect, *others]))
    for place, byte in mutations:
        data[place % len(data)] = byte
    limits: dict[str, Any] = {"connect_bytes_max": MB, "bytes_max": 30 if is_small else MB}
    whole = outcome(Decoder(**limits), [bytes(data)])
    assert outcome(Decoder(**limits), cut(bytes(data), places)) == whole
    assert outcome(Decoder(**limits), [bytes((byte,)) for byte in data]) == whole


@given(st.binary(max_size=60), st.sampled_from([None, *drawing.VERSIONS]), st.sampled_from(["server", "client"]))
@settings(max_examples=500)
def test_any_bytes_are_packets_or_a_clean_error(data: bytes, version: int | None, side: Any) -> None:
    decoder = Decoder(1_000, side=side, version=version)
    decoder.feed(data)
    assert decoder.error is None or isinstance(decoder.error, MqttError)


@given(
    st.sampled_from([0x10, 0x20, 0x30, 0x32, 0x34, 0x40, 0x50, 0x62, 0x70, 0x82, 0x90, 0xA2, 0xB0, 0xE0, 0xF0]),
    st.binary(max_size=50),
    st.sampled_from([None, *drawing.VERSIONS]),
    st.sampled_from(["server", "client"]),
)
@settings(max_examples=600)
def test_any_body_is_a_packet_or_a_clean_error(head: int, body: bytes, version: int | None, side: Any) -> None:
    decoder = Decoder(1_000, side=side, version=version)
    packets = decoder.feed(bytes((head, len(body))) + body)
    assert len(packets) == 1 or isinstance(decoder.error, MqttError)


def mutated(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4])):
        place = random.randrange(len(changed) + 1)
        match random.randrange(4):
            case 0 if changed:
                changed[place % len(changed)] = random.choice([0, 1, 0x7F, 0x80, 0xC0, 0xFF, random.randrange(256)])
            case 1:
                del changed[place : place + random.choice([1, 2, 5])]
            case 2:
                changed[place:place] = random.randbytes(random.choice([1, 2, 5]))
            case _:
                changed[place:place] = changed[place : place + 8]
    return bytes(changed)


@given(
    versions.flatmap(lambda v: st.tuples(drawing.connects(v), st.lists(drawing.from_client(v), max_size=3))),
    st.integers(0, 2**32),
)
@settings(max_examples=150)
def test_what_was_damaged_is_told_cleanly(drawn: tuple[p.Connect, list[p.Packet]], seed: int) -> None:
    connect, others = drawn
    random = Random(seed)
    data = b"".join(encode(packet, connect.version) for packet in [connect, *others])
    for _ in range(10):
        decoder = Decoder(MB)
        packets = decoder.feed(mutated(data, random))
        assert decoder.error is None or isinstance(decoder.error, MqttError)
        for packet in packets:  # what was taken is something that can be said
            encode(packet, decoder.version or V5)


@given(drawing.publishes(V5, from_server=True))
def test_what_is_carried_on_is_all_but_what_each_receiver_gets_anew(publish: p.Publish) -> None:
    found = publish.properties
    kept = Properties(
        payload_format=found.payload_format,
        content_type=found.content_type,
        response_topic=found.response_topic,
        correlation_data=found.correlation_data,
        user=found.user,
    )
    assert parse(carried(publish.raw), Kind.PUBLISH) == kept
    assert carried(publish.raw) == encode_properties(kept)


def test_a_packet_of_many_reads_is_put_together_once() -> None:
    """A byte at a time, each read costs as little as the one before: no time is taken, but what is held is looked at."""
    packet = encode(p.Publish("t", b"x" * 5_000), V5)
    decoder = Decoder(MB, version=V5)
    for place in range(len(packet) - 1):
        assert decoder.feed(packet[place : place + 1]) == []
        assert decoder.held == place + 1
    assert decoder.feed(packet[-1:]) == [p.Publish("t", b"x" * 5_000)]
    assert decoder.held == 0


@pytest.mark.parametrize("head", [0x30, 0x82, 0x10])
def test_a_packet_too_large_is_refused_by_what_it_declares(head: int) -> None:
    """Three bytes of it are enough, and none is kept."""
    decoder = Decoder(1_000, version=None if head == 0x10 else V5)
    assert decoder.feed(bytes((head, 0xE6, 0x07))) == []  # 998 bytes, and two more of length and one head: 1,001
    assert decoder.error is not None
    assert decoder.error.reason == 0x95
    assert decoder.held == 0
    exact = Decoder(1_001, version=None if head == 0x10 else V5)
    exact.feed(bytes((head, 0xE6, 0x07)))
    assert exact.error is None


def test_a_connect_has_a_limit_of_its_own() -> None:
    decoder = Decoder(1_000_000, connect_bytes_max=50)
    assert decoder.feed(encode(p.Connect("c" * 60), 4)) == []
    assert decoder.error is not None
    assert decoder.error.reason == 0x95


def test_properties_that_come_again_are_read_once() -> None:
    raw = encode_properties(Properties(content_type="text/plain", user=(("a", "b"), ("a", "c"))))
    assert parse(raw, Kind.PUBLISH) is parse(raw, Kind.PUBLISH)
    assert parse(b"", Kind.PUBLISH) is NONE


def test_nothing_is_taken_after_an_error() -> None:
    decoder = Decoder(MB, version=V5)
    good = encode(p.Publish("t", b"1"), V5)
    assert decoder.feed(good + b"\x00\x00" + good) == [p.Publish("t", b"1")]
    assert decoder.error is not None
    assert decoder.error.version == V5  # in whose terms it is told
    assert decoder.feed(good) == []
