"""Reading the files of a data directory, no server asked: what is in segments, as of the last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ortoo.engine.snapshot import TopicDump, peek
from ortoo.model.errors import InvalidError
from ortoo.model.history import expand
from ortoo.model.names import TopicId, TopicName
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Columns, filter_columns
from ortoo.model.topic import TopicConfig, dlq_name
from ortoo.stores.disk.outside import Outside

from .origin import Happened, Known, Range, no_such_topic


class Files:
    def __init__(self, path: str, namespace: str, table: str, keys: str | None) -> None:
        self._outside = Outside(Path(path.removeprefix("file://")), keys)
        self._namespace = namespace
        self._is_history = table == "history"
        self._number = -1  # of the checkpoint that was looked at last
        self._configs: dict[str, tuple[TopicId, TopicConfig]] = {}
        self._dumps: dict[str, TopicDump] = {}
        self._beyond: dict[tuple[int, int], int] = {}

    def _look(self) -> None:
        self._outside.refresh()
        checkpoint = self._outside.checkpoint
        if checkpoint is None or checkpoint.number == self._number:
            return
        self._number = checkpoint.number
        here = [topic for topic in checkpoint.manifest.topics if topic.namespace == self._namespace]
        self._configs = {topic.name: (TopicId(topic.id), topic.config) for topic in here}
        state = peek(checkpoint.snapshot)
        self._dumps = {topic.name: topic for topic in state.topics if topic.namespace == self._namespace}

    def topics(self) -> dict[str, Known]:
        self._look()
        return {name: self._known(name) for name in self._configs}

    def _known(self, name: str) -> Known:
        topic, config = self._configs[name]
        return Known(topic, dlq_name(TopicName(self._namespace, name), config).name)

    def topic(self, name: str) -> Known:
        self._look()
        if name not in self._configs:
            raise no_such_topic(name, list(self._configs))
        return self._known(name)

    def _bounds(self, topic: str) -> list[tuple[int, int]]:
        known = self.topic(topic)
        bounds = self._outside.history_bounds if self._is_history else self._outside.bounds
        return [bounds(known.id, index) for index in range(self._configs[topic][1].partitions)]

    def first(self, topic: str) -> list[int]:
        return [first for first, _ in self._bounds(topic)]

    def end(self, topic: str) -> list[int]:
        return [end for _, end in self._bounds(topic)]

    def whole_end(self, topic: str) -> list[int]:
        ends = self.end(topic)
        if self._is_history:
            return ends
        beyond = self._outside.ends_with_wal()
        return [max(end, beyond.get((self.topic(topic).id, index), 0)) for index, end in enumerate(ends)]

    def at(self, topic: str, time: float) -> list[int]:
        if self._is_history:
            raise InvalidError("the history is read from a position; filter on its column timestamp instead")
        known = self.topic(topic)
        return [
            self._outside.first_at(known.id, index, round(time * 1000)) for index in range(len(self._bounds(topic)))
        ]

    def messages(self, wanted: Range) -> Iterator[Columns]:
        if self.topic(wanted.topic).id != wanted.topic_id:
            return
        deleted = self._deleted(wanted)
        for columns in self._outside.scan(wanted.topic_id, wanted.partition, wanted.start, wanted.end):
            yield filter_columns(columns, deleted) if deleted else columns

    def _deleted(self, wanted: Range) -> OffsetSet:
        dump = self._dumps.get(wanted.topic)
        if dump is None or wanted.partition >= len(dump.partitions):
            return OffsetSet()
        return OffsetSet.from_bytes(dump.partitions[wanted.partition].deleted)

    def history(self, wanted: Range) -> Iterator[Happened]:
        if self.topic(wanted.topic).id != wanted.topic_id:
            return
        dump = self._dumps.get(wanted.topic)
        groups = {group.id: group.name for group in dump.groups} if dump is not None else {}
        for start, records in self._outside.happenings(wanted.topic_id, wanted.partition, wanted.start, wanted.end):
            yield Happened(expand(records, start), groups)
