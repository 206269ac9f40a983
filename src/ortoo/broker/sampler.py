"""Looks at every topic once a second and keeps what it sees in rings: one sampler, whoever looks at its series.

A tick is a second since 1970, counted on the monotonic clock since the sampler began. So rings are in order whatever happens to
the machine's clock; what is told has its time at the moment of telling. Rates are differences of the engine's counters, which
begin anew when the broker recovers. It runs by itself, so nothing of it can raise; and it takes no more than a tenth of a
core, or else looks less often.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple, Protocol

from ortoo.engine import Engine
from ortoo.engine.group import Group
from ortoo.engine.topic import Topic, TopicCounters
from ortoo.engine.view import Load, group_load, log_load
from ortoo.model import limits
from ortoo.model.access import HIDDEN_NAMESPACES
from ortoo.model.errors import OrtooError, TooManyError
from ortoo.model.names import GroupId, TopicId, TopicName
from ortoo.ports import Clock

from .rings import OF_GROUP, OF_TOPIC, Rings
from .running import Runner
from .turns import TimedTurns
from .waiters import resolve

_EARLY_MS = 10  # a timer that rings so early is in time
_JUMP_MS = 2_000  # what the machine's clock may be off by before times are told anew
_SHARE = 10  # of the time, one part at the most is spent on looking
_GONE_UNITS = 20  # what a partition costs in which some messages are gone, in units of turns
_FAILURES = ("attempts", "timeout", "rejected")  # why a message that failed was not delivered again
_DELETED_MAX = 1_000  # topics that are remembered
_NO_RATES = (0, 0, 0, 0, 0, 0)

_log = logging.getLogger("ortoo.broker")


class TopicSample(NamedTuple):
    """What happened in a topic in one second, and its depth at the end."""

    published: int
    delivered: int
    acked: int
    failed: int
    dead_lettered: int
    depth: int


class Sample(NamedTuple):
    """One second of the server: the topics in which something happened, or that stand otherwise; and those that are gone."""

    timestamp: int
    topics: dict[TopicName, TopicSample]
    gone: list[TopicName]


Listener = Callable[[Sample], None]
_TOLD = [OF_TOPIC.names.index(name) for name in TopicSample._fields]


class Sampled(Protocol):
    """What the sampler needs of the broker."""

    engine: Engine
    clock: Clock

    @property
    def refusal(self) -> OrtooError | None: ...

    def now(self) -> int: ...


class TopicSeries:
    """Of one topic: its rings and those of its groups, and what was counted when it was last looked at."""

    __slots__ = ("counted", "groups", "name", "rings")

    def __init__(self, name: TopicName, counted: tuple[int, ...]) -> None:
        self.name = name
        self.counted = counted
        self.rings = Rings(OF_TOPIC)
        self.groups: dict[GroupId, Rings] = {}

    def passed(self, counted: tuple[int, ...]) -> tuple[int, ...]:
        """What happened since. A counter that went back has begun anew."""
        before, self.counted = self.counted, counted
        return tuple([now - then if now >= then else 0 for now, then in zip(counted, before, strict=True)])

    def begin_anew(self) -> None:
        """The counters have; the bytes of a log are not counted but known."""
        self.counted = (*_NO_RATES[:-1], self.counted[-1])


class Sampler:
    def __init__(self, broker: Sampled) -> None:
        self._broker = broker
        self._clock = broker.clock
        self._origin = self._clock.now_ms() - self._clock.monotonic_ms()
        self._engine: Engine | None = None  # that was looked at last
        self._newest_topic = TopicId(0)  # none with a higher number was there
        self._listeners: dict[object, Listener] = {}
        self._failed: dict[TopicId, str] = {}  # topics that cannot be looked at, and why
        self._problem: str | None = None
        self._runner = Runner("ortoo-sampler", self._run)
        self.topics: dict[TopicId, TopicSeries] = {}
        self.total = Rings(OF_TOPIC)
        self.groups = 0  # that are sampled
        self.deleted: deque[tuple[int, TopicName]] = deque(
            maxlen=_DELETED_MAX
        )  # ticks, and topics that went since the last
        self.first: int | None = None  # tick
        self.newest = 0  # tick
        self.shift = 0  # what to add to a tick, for the machine's clock was set since
        self.longest_turn = 0.0  # seconds of the processor, of the last sample
        self.spent = 0.0  # the same, of all its turns

    # -- running

    async def open(self) -> None:
        """Looks once and starts: who is let in after that sees every topic at once, and not an empty queue."""
        self._newest_topic = _newest(self._broker.engine)
        await self._try_sample()
        self.start()

    def start(self) -> None:
        if self.first is None:
            self._newest_topic = _newest(self._broker.engine)
        self._runner.start()

    async def stop(self) -> None:
        await self._runner.stop()

    async def _run(self) -> None:
        while True:
            at = self._clock.monotonic_ms() + self._origin
            wait = max(1_000 * (self._tick() + 2) - at, round(1_000 * _SHARE * self.spent))
            await self._sleep(wait + -(at + wait) % 1_000)
            await self._try_sample()

    async def _try_sample(self) -> None:
        try:
            await self.sample()
        except Exception as error:  # nobody would be told, and the next second is another one
            if self._problem is None:
                _log.error("the server cannot be sampled", exc_info=error)
            self._problem = f"the series of topics are not kept: {error!r}"

    async def _sleep(self, ms: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        alarm = self._clock.call_later(ms, lambda: resolve(future))
        try:
            await future
        finally:
            alarm.cancel()

    def problems(self) -> list[str]:
        found = [] if self._problem is None else [self._problem]
        if self._failed:
            why = next(iter(self._failed.values()))
            found.append(f"{len(self._failed)} topics cannot be sampled, for instance {why}")
        return found

    def _tick(self) -> int:
        """The second that is over."""
        return (self._clock.monotonic_ms() + self._origin + _EARLY_MS) // 1_000 - 1

    # -- listening

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Has it called with each sample, until what is returned is called. It must be quick, and one that raises is not called
        again."""
        if len(self._listeners) >= limits.SERIES_LISTENERS_MAX:
            raise TooManyError(f"{limits.SERIES_LISTENERS_MAX} listen to samples already; try again later")
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    async def _tell(self, sample: Sample, turns: TimedTurns) -> None:
        for key, listener in list(self._listeners.items()):
            try:
                listener(sample)
            except Exception as error:  # its mistake must not end the others
                self._listeners.pop(key, None)
                _log.error("a listener to samples failed and is not told any more", exc_info=error)
            await turns.worked(1 + len(sample.topics) // 10)

    # -- looking

    async def sample(self) -> None:
        """Looks at everything once, in turns, each topic as it is when its turn comes."""
        engine, tick, turns = self._broker.engine, self._tick(), TimedTurns()
        if self._broker.refusal is not None:
            return  # what the engine holds may never have been
        if engine is not self._engine:
            self._recovered(engine)
        self._set_clock()
        shown = (topic for topic in engine.state.topics.values() if topic.name.namespace not in HIDDEN_NAMESPACES)
        topics = list(islice(shown, limits.SERIES_TOPICS_MAX))
        newest = _newest(engine)
        changed: dict[TopicName, TopicSample] | None = {} if self._listeners else None
        totals = [0] * len(OF_TOPIC.codes)
        for topic in topics:
            if self._broker.engine is not engine:
                return  # it has recovered meanwhile
            try:
                row, is_new = await self._look(topic, tick, turns)
            except Exception as error:  # it stays the only one
                self._fail(topic, error)
                continue
            self._failed.pop(topic.id, None)
            _add(totals, row)
            if is_new and changed is not None:
                changed[topic.name] = TopicSample(*[row[place] for place in _TOLD])
        gone = self._forget(engine, {topic.id for topic in topics})
        self.deleted.extend((tick, name) for name in gone)
        self._newest_topic = newest
        rates = OF_TOPIC.rates
        self.total.add(tick, tuple(totals[:rates]), tuple(totals[rates:]))
        self.first, self.newest = tick if self.first is None else self.first, tick
        if changed is not None:
            await self._tell(Sample(tick + self.shift, changed, gone), turns)
        turns.ended()
        self.spent, self.longest_turn, self._problem = turns.spent, turns.longest, None

    def _recovered(self, engine: Engine) -> None:
        self._engine = engine
        for series in self.topics.values():
            series.begin_anew()

    def _set_clock(self) -> None:
        drift = self._clock.now_ms() - self._clock.monotonic_ms() - self._origin
        if abs(drift - 1_000 * self.shift) >= _JUMP_MS:
            self.shift = round(drift / 1_000)

    async def _look(self, topic: Topic, tick: int, turns: TimedTurns) -> tuple[tuple[int, ...], bool]:
        """The row of a topic, and whether anything in it is new."""
        counted = _count(topic)
        series = self.topics.get(topic.id)
        if series is None:
            series = self.topics[topic.id] = TopicSeries(topic.name, self._begin(topic, counted))
        rates = series.passed(counted)
        load = await self._look_at_groups(topic, series, tick, turns)
        delayed = sum([len(log.delayed) for log in topic.partitions])
        gauges = (load.backlog, load.leased, delayed, self._to_tick(load.oldest))
        await turns.worked(len(topic.partitions))
        return rates + gauges, series.rings.add(tick, rates, gauges)

    def _begin(self, topic: Topic, counted: tuple[int, ...]) -> tuple[int, ...]:
        """What to count from: zero if it was made since the last sample, and everything so far if it had been left out. At the
        start only the counters are of this opening."""
        if topic.id > self._newest_topic:
            return _NO_RATES
        return (*_NO_RATES[:-1], counted[-1]) if self.first is None else counted

    async def _look_at_groups(self, topic: Topic, series: TopicSeries, tick: int, turns: TimedTurns) -> Load:
        """Of those that outlive their consumers, the first: the largest backlog, what all have leased, the oldest."""
        units = sum([_GONE_UNITS if log.has_gone() else 1 for log in topic.partitions])
        looked = list(islice(_durable(topic), limits.SERIES_TOPIC_GROUPS_MAX))
        loads = []
        for group in looked:
            load = group_load(group)
            loads.append(load)
            rings = self._rings_of(series, group)
            if rings is not None:
                rings.add(tick, (), (load.backlog, load.leased, self._to_tick(load.oldest)))
            await turns.worked(units)
        if len(series.groups) > len(looked) or any(group.id not in series.groups for group in looked):
            self._forget_groups(series, {group.id for group in looked})
        if not loads:
            return log_load(topic)
        times = [load.oldest for load in loads if load.oldest is not None]
        return Load(max(load.backlog for load in loads), sum(load.leased for load in loads), min(times, default=None))

    def _rings_of(self, series: TopicSeries, group: Group) -> Rings | None:
        rings = series.groups.get(group.id)
        if rings is None and self.groups < limits.SERIES_GROUPS_MAX:
            rings = series.groups[group.id] = Rings(OF_GROUP)
            self.groups += 1
        return rings

    def _forget_groups(self, series: TopicSeries, kept: set[GroupId]) -> None:
        for group in series.groups.keys() - kept:
            del series.groups[group]
            self.groups -= 1

    def _to_tick(self, instant: int | None) -> int:
        """An instant of the queue as a tick; 0 for none. It stays the same while it is looked at from later on."""
        if instant is None:
            return 0
        return max(1, (self._clock.monotonic_ms() + self._origin - (self._broker.now() - instant)) // 1_000)

    def _forget(self, engine: Engine, looked: set[TopicId]) -> list[TopicName]:
        there = engine.state.topics
        gone = [topic for topic in self.topics if topic not in looked or topic not in there]
        names = [self.topics[topic].name for topic in gone if topic not in there]
        for topic in gone:
            self._forget_groups(self.topics.pop(topic), set())
        for topic in [topic for topic in self._failed if topic not in there]:
            del self._failed[topic]
        return names

    def _fail(self, topic: Topic, error: Exception) -> None:
        if topic.id not in self._failed:
            _log.error("a topic cannot be sampled", extra={"topic": str(topic.name)}, exc_info=error)
        self._failed[topic.id] = f"{str(topic.name)!r}: {error!r}"


def _newest(engine: Engine) -> TopicId:
    return next(reversed(engine.state.topics), TopicId(0))


def _durable(topic: Topic) -> Iterable[Group]:
    return (group for group in list(topic.groups.values()) if not group.ephemeral)


def _count(topic: Topic) -> tuple[int, ...]:
    """In the order of `RATES`."""
    counters = topic.counters
    written = sum([log.bytes_total for log in topic.partitions])
    failed = counters.retried + _given_up(counters)
    return counters.published, counters.delivered, counters.acked, failed, counters.dead_lettered, written


def _given_up(counters: TopicCounters) -> int:
    dead, dropped = counters.dead_reasons, counters.drop_reasons
    if not dead and not dropped:
        return 0
    return sum(dead.get(reason, 0) + dropped.get(reason, 0) for reason in _FAILURES)


def _add(totals: list[int], row: tuple[int, ...]) -> None:
    *numbers, oldest = row
    for place, number in enumerate(numbers):
        totals[place] += number
    if oldest:
        totals[-1] = min(totals[-1] or oldest, oldest)
