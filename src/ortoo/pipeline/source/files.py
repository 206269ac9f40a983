"""Reading the files of a data directory, no server asked: what is in segments, as of the last checkpoint."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from ortoo.engine.dumps import TopicDump, peek
from ortoo.model.errors import NotFoundError, UnavailableError
from ortoo.model.names import TopicId, TopicName, is_inbox
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Columns, filter_columns
from ortoo.model.topic import TopicConfig, dlq_name
from ortoo.stores.disk.outside import Outside
from ortoo.stores.disk.unwritten import Unwritten

from .origin import Known, Range, StoredHistory, no_key, no_such_topic

T = TypeVar("T")

log = logging.getLogger("ortoo.pipeline")


class Files:
    def __init__(self, path: str, namespace: str, table: str, keys: str | None) -> None:
        self._path = re.sub(r"^file:(//)?(?=/)", "", path)
        self._outside = Outside(Path(self._path), keys)
        self._unwritten = Unwritten(self._outside.disk, self._outside.ring)
        self._namespace = namespace
        self._is_history = table == "history"
        self._number = -1  # of the checkpoint that was looked at last
        self._configs: dict[str, tuple[TopicId, TopicConfig]] = {}
        self._dumps: dict[str, TopicDump] = {}
        self._held: dict[
            tuple[TopicId, int], int
        ] = {}  # where a transaction begins that had not ended: nobody sees it yet

    def _look(self) -> None:
        self._outside.refresh()
        checkpoint = self._outside.checkpoint
        if checkpoint is None:
            raise NotFoundError(
                f"{self._path} has no checkpoint yet: all there is, is in the write-ahead log, which only its owner reads. One "
                "is written for every 32 MiB of log, when a server stops, and when an embedded queue is closed; until then, "
                "read from the server (option 'url')"
            )
        if checkpoint.number == self._number:
            return
        self._number = checkpoint.number
        here = [topic for topic in checkpoint.manifest.topics if topic.namespace == self._namespace]
        self._configs = {topic.name: (TopicId(topic.id), topic.config) for topic in here}
        state = peek(checkpoint.snapshot)
        self._dumps = {topic.name: topic for topic in state.topics if topic.namespace == self._namespace}
        self._held = {}
        for topic, partition, first in [held for commit in state.commits for held in commit.firsts]:
            place = (TopicId(topic), partition)
            self._held[place] = min(first, self._held.get(place, first))

    def topics(self) -> dict[str, Known]:
        self._look()
        return {name: self._known(name) for name, (_, config) in self._configs.items() if not is_inbox(config.labels)}

    def _known(self, name: str) -> Known:
        topic, config = self._configs[name]
        return Known(topic, dlq_name(TopicName(self._namespace, name), config).name, config.encrypted)

    def topic(self, name: str) -> Known:
        self._look()
        if name not in self._configs:
            error = no_such_topic(name, list(self._configs))
            raise NotFoundError(f"{error} (as of the last checkpoint; what is newer is in the write-ahead log only)")
        return self._known(name)

    def _places(self, topic: str) -> list[tuple[TopicId, int]]:
        known = self.topic(topic)
        return [(known.id, index) for index in range(self._configs[topic][1].partitions)]

    def _bounds(self, topic: str) -> list[tuple[int, int]]:
        if self._is_history:
            return [self._outside.history_bounds(*place) for place in self._places(topic)]
        bounds = [(place, *self._outside.bounds(*place)) for place in self._places(topic)]
        return [(first, min(end, self._held.get(place, end))) for place, first, end in bounds]

    def first(self, topic: str) -> list[int]:
        return [first for first, _ in self._bounds(topic)]

    def end(self, topic: str) -> list[int]:
        return [end for _, end in self._bounds(topic)]

    def whole_end(self, topic: str) -> list[int]:
        self._unwritten.refresh()
        known = list(zip(self._places(topic), self.end(topic), strict=True))
        if self._is_history:
            return [end + self._unwritten.read_history(place, self._number) for place, end in known]
        return [max(end, self._unwritten.end(place)) for place, end in known]

    def at(self, topic: str, time: float) -> list[int]:
        ends = self.end(topic)
        firsts = [self._outside.first_at(*place, round(time * 1000)) for place in self._places(topic)]
        return [min(first, end) for first, end in zip(firsts, ends, strict=True)]

    def messages(self, wanted: Range) -> Iterator[Columns]:
        if self.topic(wanted.topic).id != wanted.topic_id:
            return
        deleted = self._deleted(wanted)
        found = self._outside.scan(wanted.topic_id, wanted.partition, wanted.start, wanted.end)
        for columns in _with_keys(wanted.topic, found):
            left = filter_columns(columns, deleted) if deleted else columns
            if len(left):
                yield left

    def _deleted(self, wanted: Range) -> OffsetSet:
        dump = self._dumps.get(wanted.topic)
        if dump is None or wanted.partition >= len(dump.partitions):
            return OffsetSet()
        return OffsetSet.from_bytes(dump.partitions[wanted.partition].deleted)

    def history(self, wanted: Range) -> Iterator[StoredHistory]:
        if self.topic(wanted.topic).id != wanted.topic_id:
            return
        dump = self._dumps.get(wanted.topic)
        groups = {group.id: group.name for group in dump.groups} if dump is not None else {}
        found = self._outside.read_history(wanted.topic_id, wanted.partition, wanted.start, wanted.end, log.warning)
        for start, records in _with_keys(wanted.topic, found):
            yield StoredHistory(start, records, groups)


def _with_keys(topic: str, found: Iterator[T]) -> Iterator[T]:
    try:
        yield from found
    except UnavailableError as error:
        raise no_key(topic, error) from error
