"""Reading through a server: every answer brings up to ten thousand messages, and the next is asked for meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from ortoo.client import SyncQueue
from ortoo.model import limits
from ortoo.model.errors import NotFoundError
from ortoo.model.names import is_inbox
from ortoo.model.records import decode_history
from ortoo.model.replies import Columns
from ortoo.pipeline.connection import Address, queue_at

from .origin import Known, Range, StoredHistory, no_such_topic

_PAGE = limits.BATCH_MESSAGES_MAX
_BEYOND = (1 << 62) - 1  # beyond every position there is: asks only where a history begins and ends


class Served:
    def __init__(self, address: Address, table: str) -> None:
        self._address = address
        self._is_history = table == "history"

    @property
    def _queue(self) -> SyncQueue:
        return queue_at(self._address)

    def topics(self) -> dict[str, Known]:
        found = [info for info in self._queue.topics() if not is_inbox(info.config.labels)]
        return {info.name: Known(info.id, info.dlq, info.config.encrypted) for info in found}

    def topic(self, name: str) -> Known:
        try:
            info = self._queue.topic(name)
        except NotFoundError:
            raise no_such_topic(name, list(self.topics())) from None
        return Known(info.id, info.dlq, info.config.encrypted)

    def first(self, topic: str) -> list[int]:
        return self._edges(topic, 0) if self._is_history else self._queue.offsets(topic, at="start")

    def end(self, topic: str) -> list[int]:
        return self._edges(topic, 1) if self._is_history else self._queue.offsets(topic, at="end")

    whole_end = end

    def at(self, topic: str, time: float) -> list[int]:
        return self._queue.offsets(topic, time=time)

    def _edges(self, topic: str, which: int) -> list[int]:
        count = len(self._queue.offsets(topic, at="end"))
        pages = [self._queue.history_page(topic, partition=index, start=_BEYOND, count=1) for index in range(count)]
        return [(page.first, page.end)[which] for page in pages]

    def messages(self, wanted: Range) -> Iterator[Columns]:
        pages = self._queue.read_pages(
            wanted.topic, partition=wanted.partition, from_offset=wanted.start, to_offset=wanted.end, batch=_PAGE
        )
        for page in pages:
            if page.topic_id != wanted.topic_id:
                return  # deleted, and made again since
            if len(page.columns):
                yield page.columns

    def history(self, wanted: Range) -> Iterator[StoredHistory]:
        at = wanted.start
        while at < wanted.end:
            count = min(_PAGE, wanted.end - at)
            page = self._queue.history_page(wanted.topic, partition=wanted.partition, start=at, count=count)
            if page.topic_id != wanted.topic_id or page.start >= wanted.end:
                return
            records = decode_history(page.records)[: wanted.end - page.start]
            if not records:
                return
            yield StoredHistory(page.start, records, page.groups)
            at = page.next
