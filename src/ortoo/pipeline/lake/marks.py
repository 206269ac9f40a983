"""Tells the queue what is archived, for topics whose retention waits for that. What cannot be told now is told later."""

from __future__ import annotations

from ortoo.model.errors import NotFoundError, OrtooError, UnavailableError
from ortoo.pipeline.connection import Address, queue_at
from ortoo.pipeline.durable.publishing import Offsets

from .manifest import Manifest
from .report import Report

ServerMessage = tuple[int, dict[int, int]]  # a topic's incarnation, and where each partition's archive ends


class Marks:
    """Without an address there is nobody to tell."""

    def __init__(self, address: Address | None, report: Report) -> None:
        self._address = address
        self._report = report
        self._told: dict[str, ServerMessage] = {}
        self._waiting: dict[str, ServerMessage] = {}
        self._is_away = False

    def tell_known(self, manifest: Manifest) -> None:
        """The job before may have ended before it could."""
        if self._address is None or not manifest.messages:
            return
        for topic in queue_at(self._address).topics():
            known = manifest.messages.get(topic.name, {}).get(topic.id, {})
            told = {part.partition: part.archived for part in topic.partitions}
            if any(end > told.get(partition, end) for partition, end in known.items()):
                self._waiting[topic.name] = (topic.id, known)
        self.tell_rest()

    def tell(self, offsets: Offsets) -> None:
        """All below is archived. Retention may remove it now."""
        if self._address is None:
            return
        for topic, places in offsets.items():
            ends = {int(partition): end for partition, end in places.items() if partition != "id"}
            if self._told.get(topic) != (places["id"], ends):
                self._waiting[topic] = (places["id"], ends)
        self.tell_rest()

    def tell_rest(self) -> None:
        """Also from another thread: a mark that is told twice does no harm."""
        for topic, place in list(self._waiting.items()):
            try:
                self._mark(topic, *place)
                self._is_away = False
            except UnavailableError as error:
                if not self._is_away:
                    self._report(f"the queue could not be told yet what is archived: {error}")
                self._is_away = True
                return  # the others can wait, too
            except OrtooError as error:
                self._report(f"the queue was not told what is archived of topic {topic!r}: {error}")
            self._told[topic] = place
            if self._waiting.get(topic) == place:
                self._waiting.pop(topic, None)

    def _mark(self, topic: str, incarnation: int, ends: dict[int, int]) -> None:
        assert self._address is not None
        queue = queue_at(self._address)
        try:
            if queue.topic(topic).id == incarnation:
                queue.mark_archived(topic, ends)
        except NotFoundError:
            pass  # deleted meanwhile
