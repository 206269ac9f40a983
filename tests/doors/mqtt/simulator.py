"""Two clients, a door and a store, made from a seed: a publisher, a subscriber, and faults between them.

    bytes are delayed and cut anywhere · connections are lost, and the server hears of it later or when the client comes again
    commits take their time · the server restarts, and of the commits under way only the first ones are there afterwards

The clients are correct, and remember what they have to. The door does what README.md asks of one: what is taken together is
committed together, and nobody is let in while something of their last connection is under way.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import msgspec

from ortoo.doors.mqtt.rules import actions as a
from ortoo.doors.mqtt.rules import lifetime
from ortoo.doors.mqtt.rules.messages import Delivery, Message
from ortoo.doors.mqtt.rules.session import Phase, Session
from ortoo.doors.mqtt.rules.state import Ref, SessionState, restore, save
from ortoo.doors.mqtt.rules.terms import Terms
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.properties import Properties
from ortoo.doors.mqtt.wire.topics import matches, parse_filter

TERMS = Terms(receive_maximum=5, in_flight_max=4, aliases_in=2)
TOPICS = ["t/x", "t/y", "t/z"]
Sent = tuple[int, bytes, str]  # QoS, payload, topic


class Wires:
    """A connection: bytes on their way."""

    def __init__(self) -> None:
        self.to_server = bytearray()
        self.to_client = bytearray()
        self.is_cut = False


class Client:
    """What a correct client keeps, and how it answers."""

    def __init__(self, name: str, version: int) -> None:
        self.name, self.version = name, version
        self.wires: Wires | None = None
        self.reader = Decoder(1 << 20, side="client", version=version)
        self.is_open = False
        self.had_session = False
        self.unsent: deque[Sent] = deque()
        self.under_way: dict[int, Sent | None] = {}  # by identifier; None once it is to be released
        self.received: set[int] = set()
        self.got: list[Sent] = []  # by the application
        self.receive_maximum = 65_535
        self.aliases_in: dict[int, str] = {}
        self.aliases_out: dict[str, int] = {}
        self.subscription: str | None = None
        self.is_asking = self.is_subscribed = False
        self.mistakes: list[str] = []

    def connect(self, random: Random) -> Wires:
        self.wires, self.is_open = Wires(), False
        self.aliases_in, self.aliases_out = {}, {}
        self.reader = Decoder(1 << 20, side="client", version=self.version)
        asked = Properties()
        if self.version == V5:
            self.receive_maximum = random.choice([1, 2, 3, 65_535])
            asked = Properties(
                session_expiry=100_000,
                topic_alias_maximum=random.choice([0, 1, 2]),
                receive_maximum=self.receive_maximum,
            )
        self._send(p.Connect(self.name, self.version, clean_start=False, properties=asked))
        return self.wires

    def cut(self) -> None:
        if self.wires is not None:
            self.wires.is_cut = True
            self.wires, self.is_open = None, False

    def work(self, random: Random) -> None:
        """Sends what it has to, as far as the server allows."""
        if not self.is_open:
            return
        if self.subscription is not None and not self.is_subscribed and not self.is_asking:
            self.is_asking = True
            self._send(p.Subscribe(60_000, (p.Subscription(self.subscription, 2),)))
        while self.unsent and len(self.under_way) < TERMS.receive_maximum and random.random() < 0.8:
            packet_id = next(number for number in range(1, 20) if number not in self.under_way)
            self.under_way[packet_id] = sent = self.unsent.popleft()
            self._publish(packet_id, sent, dup=False)

    def _publish(self, packet_id: int, sent: Sent, *, dup: bool) -> None:
        """With an alias for the first topics, in MQTT 5."""
        qos, payload, topic = sent
        properties, name = Properties(), topic
        if self.version == V5 and (topic in self.aliases_out or len(self.aliases_out) < TERMS.aliases_in):
            name = "" if topic in self.aliases_out else topic
            properties = Properties(topic_alias=self.aliases_out.setdefault(topic, len(self.aliases_out) + 1))
        self._send(p.Publish(name, payload, qos, dup=dup, packet_id=packet_id, properties=properties))

    def hear(self, data: bytes) -> None:
        for packet in self.reader.feed(data):
            self._on(packet)
        if self.reader.error is not None:
            self.mistakes.append(f"{self.name} was sent nonsense: {self.reader.error}")

    def _on(self, packet: Any) -> None:
        match packet:
            case p.Connack():
                self._resume(packet)
            case p.Publish():
                self._take(packet)
            case p.Pubrel():
                self.received.discard(packet.packet_id)
                self._send(p.Pubcomp(packet.packet_id))
            case p.Puback():
                self._done(packet.packet_id, 1)
            case p.Pubrec():
                if packet.packet_id in self.under_way:
                    self.under_way[packet.packet_id] = None
                self._send(p.Pubrel(packet.packet_id))
            case p.Pubcomp():
                self._done(packet.packet_id, 2)
            case p.Suback():
                self.is_subscribed = True
            case p.Disconnect():
                pass
            case _:
                self.mistakes.append(f"{self.name} was sent {packet}")

    def _resume(self, connack: p.Connack) -> None:
        if connack.reason or (self.had_session and not connack.session_present):
            self.mistakes.append(f"the session of {self.name} is gone: {connack}")
        self.is_open = self.had_session = True
        self.is_asking = False
        for packet_id, sent in self.under_way.items():
            if sent is None:
                self._send(p.Pubrel(packet_id))
            else:
                self._publish(packet_id, sent, dup=True)

    def _take(self, packet: p.Publish) -> None:
        topic, alias = packet.topic, packet.properties.topic_alias
        if alias is not None:
            topic = self.aliases_in[alias] = topic or self.aliases_in[alias]
        if packet.qos == 1:
            self.got.append((1, packet.payload, topic))
            self._send(p.Puback(packet.packet_id))
            return
        if packet.packet_id not in self.received:
            self.received.add(packet.packet_id)
            self.got.append((2, packet.payload, topic))
        self._send(p.Pubrec(packet.packet_id))

    def _done(self, packet_id: int, qos: int) -> None:
        sent = self.under_way.pop(packet_id, None)
        if sent is not None and sent[0] != qos:
            self.mistakes.append(f"{self.name}: QoS {sent[0]} was answered as QoS {qos}")

    def _send(self, packet: p.Packet) -> None:
        if self.wires is not None:
            self.wires.to_server += encode(packet, self.version)


class Link:
    """A connection as the server sees it."""

    def __init__(self, wires: Wires, now: int) -> None:
        self.wires = wires
        self.session = Session(TERMS, now)
        self.decoder = Decoder(TERMS.packet_bytes_max)
        self.name: str | None = None
        self.delivered: set[Ref] = set()  # on this connection
        self.spy: Decoder | None = None  # reads what the client is sent
        self.receive_maximum = 65_535
        self.open: set[int] = set()  # deliveries that the client has not answered

    def sent(self, data: bytes) -> None:
        """The client's window is never exceeded."""
        if self.spy is not None:
            for packet in self.spy.feed(data):
                if isinstance(packet, p.Publish) and packet.qos:
                    self.open.add(packet.packet_id)
        assert len(self.open) <= self.receive_maximum, "more than the client takes"

    def heard(self, packet: p.Packet) -> None:
        if isinstance(packet, p.Connect):
            self.spy = Decoder(1 << 20, side="client", version=packet.version)
            self.receive_maximum = packet.properties.receive_maximum or 65_535
        elif isinstance(packet, p.Puback | p.Pubcomp):
            self.open.discard(packet.packet_id)


class Commit(msgspec.Struct):
    link: Link
    messages: list[tuple[str, Ref, Sent]]  # for whom
    acked: list[tuple[str, Ref]]
    saved: bytes | None
    tickets: list[int]
    save: int | None


class Disk:
    def __init__(self) -> None:
        self.sessions: dict[str, bytes] = {}
        self.inboxes: dict[str, dict[Ref, Sent]] = {}

    def apply(self, commit: Commit) -> None:
        for name, ref, sent in commit.messages:
            self.inboxes.setdefault(name, {})[ref] = sent
        for name, ref in commit.acked:
            self.inboxes.get(name, {}).pop(ref, None)
        if commit.saved is not None and commit.link.name is not None:
            self.sessions[commit.link.name] = commit.saved


class Server:
    """A door as small as it can be."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.now = 0
        self.links: list[Link] = []
        self.states: dict[str, SessionState] = {name: restore(saved) for name, saved in disk.sessions.items()}
        for state in self.states.values():
            lifetime.reopen(state, 0)
        self.pending: deque[Commit] = deque()
        self.admitting: list[Link] = []
        self.last_ref = max((int(ref) for inbox in disk.inboxes.values() for ref in inbox), default=0)
        # A message that is not in the inbox any more may still be under way: its number is not given again.
        for state in self.states.values():
            self.last_ref = max([self.last_ref, *(int(flight.ref) for flight in state.in_flight.values())])

    def turn(self, link: Link) -> None:
        """What a session has to say after it was given something."""
        while actions := link.session.take_actions():
            commit = Commit(link, [], [], None, [], None)
            for action in actions:
                self._do(link, action, commit)
            if commit.messages or commit.acked or commit.saved is not None or commit.tickets:
                self.pending.append(commit)
        sent = link.session.take()
        link.sent(sent)
        if not link.wires.is_cut:
            link.wires.to_client += sent

    def _do(self, link: Link, action: a.Action, commit: Commit) -> None:
        match action:
            case a.Admit():
                link.name = action.connect.client_id
                self.admitting.append(link)
            case a.Incoming():
                self._route(action, commit)
            case a.Acked(ref):
                assert link.name is not None
                commit.acked.append((link.name, ref))
            case a.Subscribe(packet_id, asked):
                link.session.subscribed(packet_id, [one.options.qos for one in asked])
            case a.Redeliver(refs):
                self._redeliver(link, refs)
            case a.Save(ticket):
                assert link.session.state is not None
                commit.saved, commit.save = save(link.session.state), ticket
            case a.Close():
                self.links.remove(link)
            case a.SendRetained():
                pass
            case _:
                raise AssertionError(action)

    def _route(self, incoming: a.Incoming, commit: Commit) -> None:
        commit.tickets.append(incoming.ticket)
        for name, state in self.states.items():
            if any(matches(parse_filter(text).levels, incoming.topic) for text in state.subscriptions):
                self.last_ref += 1
                sent = (incoming.publish.qos, incoming.publish.payload, incoming.topic)
                commit.messages.append((name, self.last_ref, sent))

    def _redeliver(self, link: Link, refs: tuple[Ref, ...]) -> None:
        inbox = self.disk.inboxes.get(link.name or "", {})
        for ref in refs:
            if ref in inbox:
                self._deliver(link, [ref])
            else:
                link.session.forget(ref, self.now)

    def _deliver(self, link: Link, refs: list[Ref]) -> None:
        inbox = self.disk.inboxes[link.name or ""]
        link.delivered.update(refs)
        found = [
            Delivery(Message(topic, payload, qos), qos, ref) for ref in refs for qos, payload, topic in [inbox[ref]]
        ]
        link.session.deliver(found, self.now)

    def commit(self) -> None:
        """The oldest one is on disk now."""
        commit = self.pending.popleft()
        self.disk.apply(commit)
        session = commit.link.session
        if commit.save is not None:
            session.saved(commit.save)
        for ticket in commit.tickets:
            if ticket:
                session.settled(ticket)
        self.turn(commit.link)

    def admit(self) -> None:
        """Whoever waits, once nothing is under way."""
        if not self.admitting:
            return
        name = self.admitting[0].name
        for link in list(self.links):
            if link.name == name and link.session.phase is Phase.OPEN:
                link.session.take_over(self.now)
                self.turn(link)
        if self.pending:
            return
        link = self.admitting.pop(0)
        if link.session.phase is not Phase.ADMITTING:
            return
        assert name is not None
        link.session.accept(name, self.states.get(name), self.now)
        assert link.session.state is not None
        self.states[name] = link.session.state
        self.turn(link)

    def hear(self, link: Link, data: bytes) -> None:
        packets = link.decoder.feed(data)
        for packet in packets:
            link.heard(packet)
        assert link.decoder.error is None, link.decoder.error
        link.session.receive(packets, None, self.now)
        self.turn(link)

    def push(self, link: Link) -> None:
        """As much of the inbox as the client takes."""
        inbox = self.disk.inboxes.get(link.name or "", {})
        acked = {ref for commit in self.pending for name, ref in commit.acked if name == link.name}
        fresh = [ref for ref in inbox if ref not in link.delivered and ref not in acked]
        if link.session.phase is Phase.OPEN and fresh and link.session.credit:
            self._deliver(link, fresh[: link.session.credit])
            self.turn(link)


class Simulation:
    def __init__(self, seed: int, messages: int = 30) -> None:
        self.random = random = Random(seed)
        self.disk = Disk()
        self.server = Server(self.disk)
        self.publisher = Client("pub", random.choice([4, 5]))
        self.subscriber = Client("sub", random.choice([4, 5]))
        self.subscriber.subscription = random.choice(["t/#", "t/+", "+/+"])
        self.clients = [self.publisher, self.subscriber]
        self.messages = [(random.choice([1, 2]), b"%04d" % number, random.choice(TOPICS)) for number in range(messages)]
        self.restarts = self.cuts = 0

    def run(self, steps: int = 600) -> None:
        self.settle()  # the subscription is there
        self.publisher.unsent.extend(self.messages)
        for _ in range(steps):
            self.step(with_faults=True)
        self.settle()

    def settle(self) -> None:
        """Without faults, until nothing happens any more."""
        for client in self.clients:
            client.cut()
        self.hear_of_cuts()
        for _ in range(4_000):
            self.step(with_faults=False)
            if self.is_quiet():
                return
        raise AssertionError("it does not come to rest")

    def is_quiet(self) -> bool:
        wires = [client.wires for client in self.clients]
        return (
            all(client.is_open for client in self.clients)
            and not any(one is None or one.to_server or one.to_client for one in wires)
            and not self.server.pending
            and self.subscriber.is_subscribed
            and not self.publisher.unsent
            and not self.publisher.under_way
            and not self.disk.inboxes.get("sub")
        )

    def step(self, *, with_faults: bool) -> None:
        random = self.random
        self.server.now += random.choice([0, 1, 10])
        for client in self.clients:
            if client.wires is None:
                self.server.links.append(Link(client.connect(random), self.server.now))
            client.work(random)
            if with_faults and random.random() < 0.02:
                client.cut()
                self.cuts += 1
        self.move_bytes()
        if self.server.pending and random.random() < 0.4:
            self.server.commit()
        self.server.admit()
        for link in list(self.server.links):
            self.server.push(link)
        if with_faults:
            if random.random() < 0.05:
                self.hear_of_cuts()
            if random.random() < 0.01:
                self.restart()

    def move_bytes(self) -> None:
        random = self.random
        for link in list(self.server.links):
            size = random.choice([0, 1, 7, 1000])
            if not link.wires.is_cut and link.wires.to_server and not link.session.is_busy:
                data = bytes(link.wires.to_server[:size])
                del link.wires.to_server[:size]
                self.server.hear(link, data)
        for client in self.clients:
            size = random.choice([0, 1, 7, 1000])
            if client.wires is not None and client.wires.to_client:
                data = bytes(client.wires.to_client[:size])
                del client.wires.to_client[:size]
                client.hear(data)

    def hear_of_cuts(self) -> None:
        for link in list(self.server.links):
            if link.wires.is_cut:
                link.session.lost(self.server.now)
                self.server.turn(link)

    def restart(self) -> None:
        self.restarts += 1
        for commit in list(self.server.pending)[: self.random.randrange(len(self.server.pending) + 1)]:
            self.disk.apply(commit)
        for client in self.clients:
            client.cut()
        self.server = Server(self.disk)

    def judge(self) -> list[str]:
        found = [*self.publisher.mistakes, *self.subscriber.mistakes]
        for qos in (1, 2):
            sent = [one for one in self.messages if one[0] == qos]
            got = [one for one in self.subscriber.got if one[0] == qos]
            found += [f"{one} was lost" for one in sent if one not in got]
            found += [f"{one} came from nowhere" for one in got if one not in sent]
            if qos == 2 and len(got) != len(set(got)):
                found.append(f"QoS 2 was doubled: {got}")
            first = [payload for _, payload, _ in dict.fromkeys(got)]
            if first != sorted(first):
                found.append(f"QoS {qos} is out of order: {first}")
        return found
