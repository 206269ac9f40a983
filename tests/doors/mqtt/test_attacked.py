"""What attacks found, each as small as it can be shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortoo.doors.mqtt import connection as connections
from ortoo.doors.mqtt.record import SessionRecord
from ortoo.doors.mqtt.rules import actions as a
from ortoo.doors.mqtt.rules.state import UNNAMED, InFlight, SessionState, Stage, Subscribed, restore, save
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5, V311
from ortoo.doors.mqtt.wire.decoder import Decoder, read_alone
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.properties import Properties
from ortoo.model.commands import CreateTopic
from ortoo.model.names import TopicName
from ortoo.model.topic import TopicConfig
from tests.turns import counting_turns

from .test_short_ways import Peer, door_of, settle
from .wired import join, serving
from .wiring import Wire, connect

NOTHING: frozenset[int] = frozenset()


# -- the short way


@given(
    st.sampled_from((V311, V5)),
    st.sampled_from((0, 1)),
    st.integers(0, 20_000),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 255)), max_size=3),
)
def test_what_may_go_the_short_way_is_what_the_decoder_would_have_taken(
    version: int, qos: int, size: int, damages: list[tuple[int, int]]
) -> None:
    Decoder(1 << 20, version=version).feed(encode(p.Publish("t", b""), version))  # the topic is known
    data = bytearray(encode(p.Publish("t", bytes(size), qos, packet_id=7 if qos else 0), version))
    for place, value in damages:
        if place < len(data):
            data[place] = value
    if data[0] not in (0x30, 0x32) or len(data) < 4:
        return
    found = read_alone(bytes(data), version)
    decoder = Decoder(1 << 20, version=version)
    packets = decoder.feed(bytes(data))
    if found is not None and data[found[1] : found[1] + 2] != b"\0\0":  # that is looked at by who forwards it
        [packet] = packets
        assert isinstance(packet, p.Publish)
        assert (decoder.error, decoder.held, packet.topic) == (None, 0, found[0])


def test_a_length_that_is_longer_than_it_need_be_does_not_go_the_short_way() -> None:
    Decoder(1 << 20, version=V311).feed(encode(p.Publish("t", b""), V311))
    assert read_alone(b"\x30\x85\x00\x01t" + bytes(130), V311) is None


@pytest.mark.parametrize("why", ["large", "unread"])
async def test_what_is_too_large_or_comes_from_who_does_not_read_takes_the_long_way(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(port=0, max_packet_bytes=2_048) as server:
        subscriber, publisher = (Peer(door_of(server), name, V311, Properties()) for name in ("s", "p"))
        await settle()
        subscriber.send(p.Subscribe(1, (p.Subscription("t", 1),)))
        publisher.send(p.Publish("t", b"", 1, packet_id=1))  # so that the topic is known
        await settle()
        subscriber.send(p.Puback(1))
        if why == "unread":
            publisher.connection.pause_writing()
        monkeypatch.setattr(connections, "forward", _never)
        publisher.send(p.Publish("t", bytes(10_000 if why == "large" else 10), 1, packet_id=2))
        assert publisher.channel.is_closed == (why == "large")
        for peer in (subscriber, publisher):
            peer.close()


def _never(*args: Any) -> None:
    raise AssertionError("it went the short way")


# -- kept sessions


async def test_a_message_in_the_inbox_comes_when_an_answer_for_a_queue_makes_room() -> None:
    async with serving() as server:
        sender = await join(server, "sender")
        wire = await join(server, "c", expiry=60, window=1)
        await wire.subscribe("$queue/jobs", "a")
        await sender.publish("$queue/jobs", b"job")
        [job] = await wire.messages(1)
        await sender.publish("a", b"ordinary")
        wire.send(p.Puback(job.packet_id))
        [ordinary] = await wire.messages(1)
        assert ordinary.payload == b"ordinary"


async def test_a_message_in_the_inbox_comes_behind_what_was_under_way_before() -> None:
    async with serving() as server:
        sender = await join(server, "sender")
        wire = await join(server, "c", expiry=60)
        await wire.subscribe("$queue/jobs", "a", ack_mode="puback")
        await sender.publish("$queue/jobs", b"job")
        await wire.messages(1)
        wire.cut()
        await sender.publish("a", b"while away")
        wire = await join(server, "c", expiry=60, clean=False)
        assert wire.session_present
        assert {message.payload for message in await wire.messages(2)} == {b"job", b"while away"}


def test_what_was_only_on_its_way_takes_no_place_after_a_restart() -> None:
    named, unnamed = InFlight(5, Stage.PUBACK), InFlight(UNNAMED, Stage.PUBACK)
    state = SessionState("c", in_flight={1: unnamed, 2: named, 3: unnamed})
    assert restore(save(state)).in_flight == {2: named}


def test_filters_are_written_again_after_a_removal_that_others_were_ahead_of() -> None:
    record = SessionRecord("default", "c")
    state = SessionState("c", 60, subscriptions={"f": Subscribed(p.Subscription("f", 1))})
    ahead = record.of(state)
    removal = record.removal()
    ahead.done()
    removal.done()
    assert len(record.of(state).publish(NOTHING).batch.values) == 2


def test_pubrec_waits_until_its_identifier_is_saved() -> None:
    wire = Wire(saves=False)
    wire.send(connect())
    wire.did()
    wire.session.accept("c", None, 0)
    [opening] = [action for action in wire.did() if isinstance(action, a.Save)]
    wire.session.saved(opening.ticket)
    wire.got()
    wire.send(p.Publish("t", b"x", 2, packet_id=1))
    incoming, saving = wire.did()
    assert isinstance(incoming, a.Incoming)
    assert isinstance(saving, a.Save)
    wire.session.settled(incoming.ticket)  # nobody gets it, so that nothing else is stored
    assert wire.got() == []
    wire.send(p.Publish("t", b"x", 2, dup=True, packet_id=1))
    assert wire.got() == []
    wire.session.saved(saving.ticket)
    assert [type(packet) for packet in wire.got()] == [p.Pubrec, p.Pubrec]


# -- much at once


async def test_many_messages_for_many_clients_are_handed_out_in_turns_and_in_order() -> None:
    count, receivers = 600, 100
    async with serving(port=0) as server:
        door = door_of(server)
        peers = [Peer(door, f"s{number}", V311, Properties()) for number in range(receivers)]
        publisher = Peer(door, "p", V311, Properties())
        await settle()
        for peer in peers:
            peer.send(p.Subscribe(1, (p.Subscription("t", 1),)))
        await settle()
        for peer in peers:
            peer.look()
        async with counting_turns() as turns:
            publisher.send(*(p.Publish("t", b"%d" % n, 1, packet_id=n + 1) for n in range(count)), p.Pingreq())
            while sum(map(len, publisher.channel.out)) < 4 * count + 2:
                await settle()
            assert turns.count >= 4  # of its own
        await settle()
        expected = [b"%d" % number for number in range(count)]
        for peer in peers:
            packets = peer.reader.feed(b"".join(peer.channel.out))
            assert [packet.payload for packet in packets if isinstance(packet, p.Publish)] == expected
            peer.close()
        publisher.close()


async def test_a_message_that_is_named_twice_is_settled_once() -> None:
    async with serving() as server:
        await server.broker.call(CreateTopic(TopicName("default", "q"), TopicConfig(max_attempts=9)))
        wire = await join(server, "c")
        await wire.subscribe("$queue/q")
        await wire.publish("$queue/q", b"x")
        [first] = await wire.messages(1)
        wire.send(p.Puback(first.packet_id))
        [one] = [value for name, value in first.properties.user if name == "message-id"]
        assert await wire.settle("q", "nack", one, one) == 0
        [again] = await wire.rest()
        assert dict(again.properties.user)["attempt"] == "2"
        assert await wire.settle("q", "reject", one, one) == 0
