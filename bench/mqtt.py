"""What MQTT costs before anything is sent: reading packets, the rules of sessions, finding who gets a message,
finding retained ones."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from time import process_time

from ortoo.doors.mqtt.routing.retained import RetainedIndex
from ortoo.doors.mqtt.routing.subscriptions import Recipient, SubscriptionIndex
from ortoo.doors.mqtt.rules.actions import Action, Incoming
from ortoo.doors.mqtt.rules.messages import deliver_to, message_of
from ortoo.doors.mqtt.rules.session import Session
from ortoo.doors.mqtt.rules.terms import Terms
from ortoo.doors.mqtt.wire.codes import V5, V311
from ortoo.doors.mqtt.wire.decoder import Decoder
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.packets import Connect, Puback, Pubcomp, Publish, Pubrec, Pubrel
from ortoo.doors.mqtt.wire.properties import NONE, Properties
from ortoo.doors.mqtt.wire.properties import encode as encode_properties
from ortoo.doors.mqtt.wire.topics import Filter, parse_filter

from .figures import Figure, rates
from .settings import Settings
from .timing import Rates, Stopwatch, best_of

PACKETS = "MQTT, packets"
SUBSCRIPTIONS = "MQTT, 100,000 subscriptions"
SESSIONS = "MQTT, sessions"
RETAINED = "MQTT, 100,000 retained"
_MANY = 100_000
_SOME = 20_000  # topics that are matched for the first time
_READ_BYTES = 64 * 1024  # of a connection, at once
_PAYLOAD = b"x" * 100


def packets(settings: Settings) -> list[Figure]:
    """PUBLISH packets read in a second; with properties that differ from one to the next, and with the same ones."""
    total = settings.messages[1000]
    ids = count()
    same = Properties(content_type="application/json", message_expiry=60, user=(("unit", "celsius"),))
    cases: dict[str, tuple[int, int, Callable[[], Properties]]] = {
        "3.1.1, QoS 0": (V311, 0, lambda: NONE),
        "3.1.1, QoS 1": (V311, 1, lambda: NONE),
        "5, QoS 0": (V5, 0, lambda: NONE),
        "5, QoS 1": (V5, 1, lambda: NONE),
        "5, QoS 1, the same three properties": (V5, 1, lambda: same),
        "5, QoS 1, three properties that differ": (V5, 1, lambda: _differing(next(ids))),
    }

    async def measure() -> Rates:
        found = {}
        for what, (version, qos, properties) in cases.items():
            one = [_publish(number, qos, properties()) for number in range(4_000)]
            reads = _reads(b"".join(encode(each, version) for each in one))
            found[what] = _rate(version, reads, total // len(one) * len(one), len(one))
        return found

    return rates(PACKETS, best_of(settings.repetitions, measure))


def sessions(settings: Settings) -> list[Figure]:
    """From the bytes of a publisher to those of a subscriber and back, with all but sockets; messages in a second."""
    total = settings.messages[1000]

    async def measure() -> Rates:
        return {
            f"{name}, 1 to 1, QoS {qos}": _one_to_one(version, qos, total)
            for version, name in ((V311, "3.1.1"), (V5, "5"))
            for qos in (0, 1, 2)
        }

    return rates(SESSIONS, best_of(settings.repetitions, measure))


_WINDOW = 1_000


class _Party:
    """A client's side of a session that is not kept, as bytes."""

    def __init__(self, version: int) -> None:
        self.session, self.decoder = Session(Terms(), 0), Decoder(1 << 20)
        self.hear(encode(Connect("c", version), version))
        self.session.take_actions()
        self.session.accept("c", None, 0)
        self.session.take()

    def hear(self, data: bytes) -> list[Action]:
        self.session.receive(self.decoder.feed(data), self.decoder.error, 0)
        return self.session.take_actions()


def _one_to_one(version: int, qos: int, total: int) -> float:
    """What the clients would send back is made up beforehand: only the server's work is measured."""
    watch, done, ref = Stopwatch(), 0, 0
    index = _index([])
    index.add(parse_filter("plant/+/line/#"), Recipient(1, qos))
    publisher, subscriber = _Party(version), _Party(version)
    ids = range(1, _WINDOW + 1)
    sent = b"".join(encode(_publish(n, qos, NONE), version) for n in range(_WINDOW))
    releases = b"".join(encode(Pubrel(n), version) for n in ids)
    reader = Decoder(1 << 20, side="client", version=version)
    while done < total:
        with watch:
            deliveries = []
            for action in publisher.hear(sent):
                assert isinstance(action, Incoming)
                message = message_of(action.topic, action.publish, 0)
                for recipient in index.match(action.topic).recipients:
                    ref += 1
                    delivery = deliver_to(recipient, message, ref)
                    if delivery is not None:
                        deliveries.append(delivery)
                if action.ticket:
                    publisher.session.settled(action.ticket)
            subscriber.session.deliver(deliveries, 0)
            publisher.session.take()
            got = subscriber.session.take()
            if qos == 2:
                publisher.hear(releases)
                publisher.session.take()
        done += _WINDOW
        answers = [each.packet_id for each in reader.feed(got) if isinstance(each, Publish)]
        for kind in ((), (Puback,), (Pubrec, Pubcomp))[qos]:
            back = b"".join(encode(kind(number), version) for number in answers)
            with watch:
                subscriber.hear(back)
                subscriber.session.take()
        assert len(answers) == _WINDOW
    return done / watch.seconds


def _differing(number: int) -> Properties:
    return Properties(content_type="application/json", correlation_data=b"%d" % number, user=(("unit", "celsius"),))


def _publish(number: int, qos: int, properties: Properties) -> Publish:
    topic = f"plant/{number % 10}/line/{number % 7}/temperature"
    raw = encode_properties(properties)
    return Publish(topic, _PAYLOAD, qos, packet_id=number + 1 if qos else 0, properties=properties, raw=raw)


def _reads(data: bytes) -> list[bytes]:
    return [data[at : at + _READ_BYTES] for at in range(0, len(data), _READ_BYTES)]


def _rate(version: int, reads: list[bytes], total: int, each: int) -> float:
    decoder, watch, taken = Decoder(1 << 20, version=version), Stopwatch(), 0
    while taken < total:
        with watch:
            for read in reads:
                taken += len(decoder.feed(read))
    assert decoder.error is None
    assert taken % each == 0
    return taken / watch.seconds


_KINDS: dict[str, Callable[[int], str]] = {
    "without wildcards": lambda n: f"plant/{n % 100}/line/{n}/temperature",
    "with +": lambda n: f"plant/{n % 100}/line/+/{n}/+",
    "with #": lambda n: f"plant/{n % 100}/line/{n}/#",
}


def subscriptions(settings: Settings) -> list[Figure]:
    """The cost of one subscription, of a topic that is asked for the first time, and again; and the memory of one."""
    return [figure for kind in _KINDS for figure in _subscriptions(kind, settings.repetitions)]


def _subscriptions(kind: str, repetitions: int) -> list[Figure]:
    texts = [_KINDS[kind](number) for number in range(_MANY)]
    filters = list(map(parse_filter, texts))
    topics = [f"plant/{n % 100}/line/{n}/{n}/temperature" for n in range(0, _MANY, _MANY // _SOME)]
    spent: dict[str, list[float]] = {"subscribe": [], "match first": [], "match again": []}
    for _ in range(repetitions):
        index = _index([])
        spent["subscribe"].append(_each(_MANY, partial(_add, index, filters)))
        spent["match first"].append(_each(_SOME, partial(_match, index, topics)))
        spent["match again"].append(_each(1_000, partial(_match, index, topics[-1_000:])))
    memory = Figure(SUBSCRIPTIONS, f"memory, {kind}", _bytes_each(lambda: _index(texts)), "bytes")
    return [
        *(Figure(SUBSCRIPTIONS, f"{what}, {kind}", min(some), "µs/message") for what, some in spent.items()),
        memory,
    ]


def retained(settings: Settings) -> list[Figure]:
    """The cost of one topic that a filter finds, and what the first one takes."""
    index: RetainedIndex[bytes] = RetainedIndex()
    found = [Figure(RETAINED, "store", _each(_MANY, partial(_store, index)), "µs/message")]
    for text in ("site/7/#", "+/+/+/+/temp", "#"):
        levels = parse_filter(text).levels
        matched = sum(one is not None for one in index.matching(levels))
        spent = min(_each(matched, partial(_walk, index, levels)) for _ in range(settings.repetitions))
        found.append(Figure(RETAINED, f"find {text}", spent, "µs/message"))
    first = min(_each(1, lambda: next(index.matching(("#",)))) for _ in range(settings.repetitions))
    return [*found, Figure(RETAINED, "the first of #", first / 1000, "ms")]


def _store(index: RetainedIndex[bytes]) -> None:
    for number in range(_MANY):
        index.set(f"site/{number % 1000}/room/{number}/temp", b"21")


def _walk(index: RetainedIndex[bytes], levels: tuple[str, ...]) -> None:
    for _ in index.matching(levels):
        pass


def _index(texts: Iterable[str]) -> SubscriptionIndex[int]:
    index: SubscriptionIndex[int] = SubscriptionIndex()
    for number, text in enumerate(texts):
        index.add(parse_filter(text), Recipient(number, 1))
    return index


def _add(index: SubscriptionIndex[int], filters: list[Filter]) -> None:
    for number, filter in enumerate(filters):
        index.add(filter, Recipient(number, 1))


def _match(index: SubscriptionIndex[int], topics: list[str]) -> None:
    for topic in topics:
        index.match(topic)


def _each(many: int, work: Callable[[], object]) -> float:
    """Microseconds of processor time."""
    gc.collect()
    began = process_time()
    work()
    return (process_time() - began) * 1e6 / many


def _bytes_each(make: Callable[[], object]) -> float:
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return used / _MANY
