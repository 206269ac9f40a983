"""Whatever a client sends, in whatever order, and however the door answers: a session never raises, and what it sends is MQTT."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortoo.doors.mqtt.rules import actions as a
from ortoo.doors.mqtt.rules.messages import Delivery, Message
from ortoo.doors.mqtt.rules.session import Phase
from ortoo.doors.mqtt.rules.state import SessionState, restore, save
from ortoo.doors.mqtt.rules.terms import Terms
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5, V311, Code
from ortoo.doors.mqtt.wire.encoding import encode
from tests.doors.mqtt import drawing
from tests.doors.mqtt.test_codec import mutated
from tests.doors.mqtt.wiring import Wire, connect

TERMS = Terms(receive_maximum=4, in_flight_max=4, aliases_in=3, queue_max=5, subscriptions_max=5, keep_alive_max=50)
REASONS = [0, 0, 0, 0x10, 0x87, 0x97, 0x80]


class Door:
    """Answers what a session asks, at once or later, and kindly or not."""

    def __init__(self, random: Random, version: int) -> None:
        self.random = random
        self.wire = Wire(version, TERMS, saves=False)
        self.later: list[a.Action] = []
        self.previous: SessionState | None = None
        self.last_ref = 0

    def turn(self) -> None:
        self.later += self.wire.did()
        while self.later and self.random.random() < 0.7:
            self.answer(self.later.pop(0))
            self.later += self.wire.did()
        self.wire.got()  # it has to be MQTT, and of this version
        self.check()

    def answer(self, action: a.Action) -> None:
        session, random = self.wire.session, self.random
        match action:
            case a.Admit() if session.phase is Phase.ADMITTING:
                if random.random() < 0.1:
                    session.refuse(random.choice(list(Code)), "no")
                else:
                    session.accept(action.connect.client_id or "assigned", self.previous, self.wire.now)
            case a.Incoming(ticket) if ticket:
                session.settled(ticket, random.choice(REASONS), "words")
            case a.Subscribe(packet_id, asked):
                session.subscribed(packet_id, [random.choice([0, 1, 2, 0x87]) for _ in asked])
            case a.Save(ticket):
                session.saved(ticket)
            case a.Redeliver(refs):
                for ref in refs:
                    if random.random() < 0.5:
                        session.forget(ref, self.wire.now)
                    else:
                        session.deliver([Delivery(Message("t", b"x", 2), 2, ref)], self.wire.now)
            case _:
                pass

    def deliver(self) -> None:
        found = []
        for _ in range(self.random.choice([1, 3, 8])):
            self.last_ref += 1
            payload, qos = b"x" * self.random.choice([0, 5, 300]), self.random.randrange(3)
            expires_at = self.random.choice([None, None, self.wire.now, self.wire.now + 5_000])
            one = Message(f"t/{self.random.randrange(5)}", payload, qos, expires_at=expires_at)
            found.append(Delivery(one, qos, self.last_ref, ids=self.random.choice([(), (1, 2)])))
        self.wire.session.deliver(found, self.wire.now)

    def check(self) -> None:
        session = self.wire.session
        state = session.state
        if state is not None:
            assert restore(save(state)) == state
            assert len(state.in_flight) <= TERMS.in_flight_max
            assert len(state.subscriptions) <= TERMS.subscriptions_max
            assert len(state.received) <= 65_535
        if session.phase is Phase.CLOSED:
            assert sum(isinstance(action, a.Close) for action in self.wire.log) == 1
            assert session.deadline is None


@given(
    st.sampled_from([V311, V5]).flatmap(
        lambda v: st.tuples(
            drawing.connects(v), st.lists(st.one_of(drawing.from_client(v), drawing.acks(v), small(v)), max_size=25)
        )
    ),
    st.integers(0, 2**32),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_packets(drawn: tuple[p.Connect, list[Any]], seed: int) -> None:
    first, packets = drawn
    random = Random(seed)
    door = Door(random, first.version)
    door.wire.send(first)
    door.turn()
    for packet in packets:
        door.wire.now += random.choice([0, 1, 1000])
        match random.randrange(8):
            case 0:
                door.deliver()
            case 1:
                door.wire.session.tick(door.wire.now)
        if not door.wire.session.is_busy:
            door.wire.send(packet)
        door.turn()
    door.wire.session.lost(door.wire.now)
    while door.later:
        door.turn()


def small(version: int) -> st.SearchStrategy[Any]:
    """Identifiers that meet."""
    numbers = st.integers(1, 6)
    publish = st.builds(
        lambda qos, number, dup: p.Publish("t", b"x", qos, dup=dup, packet_id=number),
        st.integers(1, 2),
        numbers,
        st.booleans(),
    )
    answers = [st.builds(kind, numbers) for kind in (p.Puback, p.Pubrec, p.Pubrel, p.Pubcomp)]
    return st.one_of(publish, publish, *answers)


@pytest.mark.parametrize("version", [V311, V5])
def test_damaged_bytes(version: int) -> None:
    random = Random(version)
    sound: list[p.Packet] = [
        connect(version),
        p.Subscribe(1, (p.Subscription("a/#", 1), p.Subscription("$share/g/b", 2))),
        p.Publish("a/b", b"payload", 1, packet_id=3),
        p.Publish("a/b", b"payload", 2, packet_id=4),
        p.Pubrel(4),
        p.Unsubscribe(2, ("a/#",)),
        p.Pingreq(),
        p.Disconnect(),
    ]
    data = b"".join(encode(packet, version) for packet in sound)
    for _ in range(1_000):
        door = Door(random, version)
        damaged = mutated(data, random)
        door.wire.reader.version = None  # it may have become another one
        door.wire.send_bytes(damaged)
        if door.wire.decoder.version is not None:
            door.wire.reader.version = door.wire.decoder.version
            for _ in range(5):
                door.turn()
        door.wire.session.lost(0)
