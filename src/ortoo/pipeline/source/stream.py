"""Streams: the same, micro-batch after micro-batch. Where it stands is in Spark's checkpoint, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ortoo.model.errors import NotFoundError, OrtooError

from .offsets import Places, TopicPlace, began_at, from_offset, share_out, to_offset
from .options import LATEST, Bound, ReadOptions
from .origin import Known
from .plan import Planner
from .reading import read_split
from .schema import Column
from .splits import Split, split

if TYPE_CHECKING:
    import pyarrow as pa

_LATEST = Bound(LATEST)
_TOPICS_SECONDS = 1.0  # how often is looked for topics that match a pattern, and for topics made again
_PAUSE_SECONDS = 0.01  # Spark asks a hundred times a second: for so long an answer is good,
_PAUSE_SECONDS_MAX = 0.05  # and for so long per log that must be looked at, when nothing has come for a while,
_PAUSE_SECONDS_MOST = 1.0  # up to this


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes several of these in several processes; each looks things up when it is asked first."""

    def __init__(self, options: ReadOptions, columns: tuple[Column, ...]) -> None:
        self._options = options
        self._columns = columns
        self._planner: Planner | None = None
        self._initial: Places | None = None
        self._is_now_only = False
        self._upto: Places | None = None  # where a run ends that takes only what is there
        self._topics: dict[str, Known] = {}
        self._topics_until = 0.0
        self._end: Places = {}
        self._end_until = 0.0
        self._pause = _PAUSE_SECONDS

    def __getstate__(self) -> dict[str, Any]:
        """What a task needs."""
        return {**self.__dict__, "_planner": None}

    @property
    def _plan(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._options)
        return self._planner

    # -- where the stream stands

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Asked for twice; what comes in between must not make a difference."""
        if self._initial is None:
            self._initial = self._plan.places(self._plan.topics(), self._options.starting)
        return to_offset(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        most = self._options.max_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        begun = from_offset(start)
        end = self._upto if self._upto is not None else self._current()
        if self._is_now_only:
            self._upto = end
        end = self._limited(begun, end, limit)
        if self._initial is not None and start == to_offset(self._initial):
            return to_offset(end, self._initial)  # of the first batch
        return to_offset(end, began_at(start) if end == begun else None)  # nothing new must be the same text

    def _limited(self, begun: Places, end: Places, limit: ReadLimit) -> Places:
        begun = _with_new(begun, end)
        self._check_backwards(begun, end)
        return share_out(self._still_there(begun, end), end, limit.max_rows) if isinstance(limit, ReadMaxRows) else end

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the topics end: how far behind a stream is, stands in its progress."""
        end = self._current()
        return to_offset(end if self._options.path is None else {name: self._whole(name, end[name]) for name in end})

    def _whole(self, topic: str, place: TopicPlace) -> TopicPlace:
        """With what the files do not hold yet."""
        whole = self._plan.origin.whole_end(topic)
        return TopicPlace(place.id, {index: max(upto, _at(whole, index)) for index, upto in place.offsets.items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._is_now_only = True

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing hangs on it: Spark says it one batch late, and of the last batch never."""

    def _known_topics(self) -> dict[str, Known]:
        now = monotonic()
        if now >= self._topics_until:
            self._topics = self._plan.topics(begun=True)
            self._topics_until = now + _TOPICS_SECONDS
        return self._topics

    def _current(self) -> Places:
        now = monotonic()
        if now < self._end_until:
            return self._end
        try:
            end = self._plan.places(self._known_topics(), _LATEST)
        except NotFoundError:  # deleted since its name was looked up
            self._topics_until = 0.0
            end = self._plan.places(self._known_topics(), _LATEST)
        if not self._options.include_encrypted:  # what was published since a topic was encrypted lies behind these ends
            self._topics_until = 0.0
            end = {name: place for name, place in end.items() if name in self._known_topics()}
        longest = min(_PAUSE_SECONDS_MOST, _PAUSE_SECONDS_MAX * self._lookups(end))
        self._pause = _PAUSE_SECONDS if end != self._end else min(longest, self._pause * 1.5)
        self._end, self._end_until = end, now + self._pause
        return end

    def _lookups(self, end: Places) -> int:
        """Of a topic's messages one answer tells where all partitions end; of their histories each is asked."""
        is_history = self._options.table == "history"
        return sum(1 + is_history * len(place.offsets) for place in end.values())

    def _check_backwards(self, begun: Places, end: Places) -> None:
        """A server that lost its disk, or was restored from a backup, gives offsets a second time."""
        for topic, place in end.items():
            for index, upto in place.offsets.items():
                if upto < begun[topic].offsets[index]:
                    self._plan.lost(
                        f"partition {index} of topic {topic!r} ends at {upto}, but was read up to "
                        f"{begun[topic].offsets[index]}: what was there is gone"
                    )

    def _still_there(self, begun: Places, end: Places) -> Places:
        """Without what is gone: a limit is not spent on it, and all of it is told at once."""
        places = {}
        for topic, place in begun.items():
            upto = end[topic].offsets
            if all(place.offsets[index] >= upto[index] for index in upto):
                places[topic] = place  # nothing to read, so nothing to ask
                continue
            first = self._plan.first(topic)
            offsets = {index: max(at, min(_at(first, index), upto[index])) for index, at in place.offsets.items()}
            places[topic] = TopicPlace(place.id, offsets)
        return places

    # -- a micro-batch

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Spark asks again where a stream begins when it runs the first batch again: what the batch knows itself counts."""
        begun, ended = {**from_offset(start), **(began_at(end) or {})}, from_offset(end)
        for topic in sorted(begun.keys() - ended.keys()):
            if self._plan.wants(topic) and not self._plan.is_there(topic, begun[topic]):
                self._plan.lost(f"topic {topic!r} was deleted")
        return split(self._plan.ranges(begun, ended), self._options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        return read_split(self._options, self._columns, partition)


class RefusedReader(DataSourceStreamReader):
    """Says what is wrong when it is first asked. Spark answers an error that comes earlier with a mistake of its own."""

    def __init__(self, error: OrtooError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error


def _at(numbers: list[int] | None, index: int) -> int:
    return numbers[index] if numbers is not None and index < len(numbers) else 0


def _with_new(begun: Places, end: Places) -> Places:
    """What is in `end`. Topics and partitions that are new are read from their beginning."""
    places = {}
    for topic, place in end.items():
        known = begun.get(topic)
        offsets = known.offsets if known is not None and known.id == place.id else {}
        places[topic] = TopicPlace(place.id, {index: offsets.get(index, 0) for index in place.offsets})
    return places
