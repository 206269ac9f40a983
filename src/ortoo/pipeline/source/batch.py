"""Batch reads: a stretch of each topic, fixed when it is planned."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from .filters import Narrowing
from .options import ReadOptions
from .plan import Planner
from .reading import read_split
from .schema import Column
from .splits import Split, split

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("ortoo.pipeline")


class BatchReader(DataSourceReader):
    """Travels to the executors, so it holds what was asked for and nothing that is open."""

    def __init__(self, options: ReadOptions, columns: tuple[Column, ...]) -> None:
        self._options = options
        self._columns = columns
        self._narrowing = Narrowing(options.table)

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self._options)
        topics = {name: known for name, known in planner.topics().items() if self._narrowing.wants_topic(name)}
        start = planner.places(topics, self._options.starting)
        end = planner.places(topics, self._options.ending)
        if self._options.path is not None:
            _tell_lag(planner, topics)
        narrowed = [self._narrowing.apply(one, planner.origin) for one in planner.ranges(start, end)]
        # Without a partition Spark would ask for rows with None in its place.
        return split([one for one in narrowed if one is not None], self._options.min_partitions) or [Split(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        return read_split(self._options, self._columns, partition)


class FilteredBatchReader(BatchReader):
    """Only for who asks for it, for two reasons: Spark refuses such a reader unless a setting allows it; and it plans the next
    query of the same DataFrame with the filters of the last one, so that a frame may be used once."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        for one in filters:
            if not self._narrowing.take(one):
                yield one


def _tell_lag(planner: Planner, topics: Iterable[str]) -> None:
    what = "records of its history" if planner.options.table == "history" else "messages"
    for topic in topics:
        behind = sum(planner.origin.whole_end(topic)) - sum(planner.origin.end(topic))
        if behind > 0:
            log.warning("the files of topic %r end %d %s before the queue does: no checkpoint yet", topic, behind, what)
