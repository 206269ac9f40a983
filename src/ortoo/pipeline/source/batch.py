"""Batch reads: a stretch of each topic, fixed when it is planned."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from .options import ReadOptions
from .plan import Planner
from .reading import read_split
from .schema import Column
from .splits import Split, split

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("ortoo.pipeline")


class BatchReader(DataSourceReader):
    """Travels to the executors, so it holds what was asked for and nothing that is open.

    It takes no filters: Spark 4.3 keeps one plan for each DataFrame, with the filters that were handed down last, and reads by
    it whatever else is asked of that DataFrame, in the same query, too.
    """

    def __init__(self, options: ReadOptions, columns: tuple[Column, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self._options)
        topics = planner.topics()
        start = planner.places(topics, self._options.starting)
        end = planner.places(topics, self._options.ending)
        if self._options.path is not None:
            _tell_lag(planner, topics)
        # Without a partition Spark would ask for rows with None in its place.
        return split(planner.ranges(start, end), self._options.min_partitions) or [Split(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        return read_split(self._options, self._columns, partition)


def _tell_lag(planner: Planner, topics: Iterable[str]) -> None:
    what = "records of its history" if planner.options.table == "history" else "messages"
    for topic in topics:
        behind = sum(planner.origin.whole_end(topic)) - sum(planner.origin.end(topic))
        if behind > 0:
            log.warning("the files of topic %r end %d %s before the queue does: no checkpoint yet", topic, behind, what)
