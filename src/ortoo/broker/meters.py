"""What the broker and its doors measure of themselves. Soft: it begins anew with the process, and nothing depends on it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable
from time import monotonic, perf_counter
from typing import TypeVar

from ortoo.engine.group import TALLY_WIDTH
from ortoo.model.errors import OrtooError
from ortoo.model.histogram import SIZE_BOUNDS, Histogram
from ortoo.model.metrics import GROUPS_TOLD, TOPICS_TOLD, MqttFigures, RedisFigures
from ortoo.model.names import TopicId
from ortoo.model.operations import FAMILIES, Family

from .budget import Budget
from .own_series import OwnSeries
from .series import SeriesReader
from .throttle import Throttle

INTERNAL = "internal"  # stands for an error that is none of ours

T = TypeVar("T")


class Peak:
    """The largest value of the last minute."""

    _SLOT_S, _SLOTS = 10, 7  # the oldest has begun more than a minute ago

    def __init__(self) -> None:
        self._slots: deque[tuple[int, float]] = deque(maxlen=self._SLOTS)

    def observe(self, value: float, now: float) -> None:
        slot = int(now // self._SLOT_S)
        if self._slots and self._slots[-1][0] == slot:
            value = max(value, self._slots.pop()[1])
        self._slots.append((slot, value))

    def largest(self, now: float) -> float:
        oldest = int(now // self._SLOT_S) - self._SLOTS
        return max((value for slot, value in self._slots if slot > oldest), default=0.0)


class DoorMeters:
    """Of one door. A request that was served is in `seconds`, one that failed in `errors`."""

    def __init__(self) -> None:
        self.seconds: dict[Family, Histogram] = {family: Histogram() for family in FAMILIES}
        self.errors: Counter[tuple[str, str]] = Counter()  # by operation, or "connect", and code
        self.port: int | None = None  # where it listens
        self.connections = 0  # now
        self.connections_total = 0
        self.refused = 0  # connections beyond the limit

    async def timed(self, operation: Family, work: Awaitable[T]) -> T:
        began = perf_counter()
        try:
            result = await work
        except Exception as error:  # only counted; whoever asked gets it
            self.failed(operation, error)
            raise
        self.seconds[operation].observe(perf_counter() - began)
        return result

    def failed(self, operation: str, error: Exception) -> None:
        self.errors[operation, error.code if isinstance(error, OrtooError) else INTERNAL] += 1


class Meters:
    def __init__(self) -> None:
        self.doors: dict[str, DoorMeters] = {}
        self.budget: Budget | None = None  # that all doors share
        self.throttle: Throttle | None = None  # the same
        self.series: SeriesReader | None = None  # where a sampler keeps some: in a server
        self.overview_seconds = 0.0  # of the processor, that the last overview took
        self.mqtt: Callable[[], MqttFigures] | None = None  # where that is served
        self.redis: Callable[[], RedisFigures] | None = None  # where there is one
        self.commit_seconds = Histogram()  # until the store had it
        self.commit_records = Histogram(SIZE_BOUNDS)
        self.stall_seconds = Histogram()  # how late the event loop was
        self.longest_stall = Peak()  # of these
        self.longest_turn = Peak()  # of these, what the loop's own thread has computed meanwhile
        self.recoveries = 0  # after a store had failed
        self.topics_most = TOPICS_TOLD  # with series of their own in the metrics
        self.groups_most = GROUPS_TOLD
        self._own_series: tuple[int, OwnSeries[TopicId], OwnSeries[tuple[TopicId, int]]] | None = None

    def commit(self, seconds: float, records: int) -> None:
        self.commit_seconds.observe(seconds)
        self.commit_records.observe(records)

    def stalled(self, late: float, spent: float) -> None:
        """The event loop was late by so many seconds, in which its thread had the processor for so long."""
        now = monotonic()
        self.stall_seconds.observe(late)
        self.longest_stall.observe(late, now)
        self.longest_turn.observe(min(late, spent), now)

    def requests(self) -> int:
        """How many were answered so far, through all doors."""
        served = sum(seconds.count for door in self.doors.values() for seconds in door.seconds.values())
        return served + sum(door.errors.total() for door in self.doors.values())

    def door(self, name: str) -> DoorMeters:
        return self.doors.setdefault(name, DoorMeters())

    def own_series(self, epoch: int, topic_width: int) -> tuple[OwnSeries[TopicId], OwnSeries[tuple[TopicId, int]]]:
        """Of topics and of groups, for the one who measures all of them. Counters begin anew with each opening."""
        if self._own_series is None or self._own_series[0] != epoch:
            topics, groups = (
                OwnSeries[TopicId](self.topics_most, topic_width),
                OwnSeries[tuple[TopicId, int]](self.groups_most, TALLY_WIDTH),
            )
            self._own_series = epoch, topics, groups
        return self._own_series[1:]
