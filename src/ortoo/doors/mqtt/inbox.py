"""Where messages wait for a session that is kept: a topic of its own, made with the first of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from ortoo.model import limits
from ortoo.model.commands import Lease, Run
from ortoo.model.names import TopicName
from ortoo.model.replies import LeasedRun

from .rules.messages import Delivery
from .rules.state import Ref
from .services import Services
from .source import Source
from .storage import INBOX_GROUP, from_inbox_value

_COUNT_SECONDS: Final = 1.0
_LEASE_MS: Final = limits.LEASE_MS_MAX


class Inbox:
    def __init__(self, services: Services, topic: TopicName, backlog: int = 0, *, is_made: bool = False) -> None:
        self.topic = topic
        self.backlog = backlog  # messages that wait, or were not answered yet
        self.is_made = is_made
        self._services = services
        self._counted = -_COUNT_SECONDS
        self._source: Source | None = None
        self._start: Callable[[Sequence[Ref]], None] | None = None  # while somebody is connected

    def is_full(self) -> bool:
        """Some of them may have expired meanwhile, of which nobody tells: before it is full, they are counted anew."""
        most = self._services.settings.max_queued
        if self.backlog < most or monotonic() < self._counted + _COUNT_SECONDS:
            return self.backlog >= most
        self._counted = monotonic()
        self.backlog = self._services.host.backlog_of(self.topic, INBOX_GROUP)
        return self.backlog >= most

    def open(
        self,
        again: Sequence[Ref],
        *,
        credit: Callable[[], int],
        deliver: Callable[[list[Delivery]], None],
        forget: Callable[[Ref], None],
    ) -> None:
        """Somebody is connected. `again`: what was under way when the last connection ended."""

        def start(again: Sequence[Ref]) -> None:
            lease = Lease(
                topic=self.topic.name,
                namespace=self.topic.namespace,
                group=INBOX_GROUP,
                consumer=INBOX_GROUP,
                lease_ms=_LEASE_MS,
            )
            self._source = Source(
                self._services.host,
                lease,
                credit=credit,
                give=lambda given: deliver([each for run, refs in given for each in _to_deliveries(run, refs)]),
                to_refs=_to_refs,
                lease_seconds=_LEASE_MS / 1000,
                is_told=True,
            )
            self._source.start(again, forget)

        self._start = start
        if self.is_made:
            start(again)
        else:
            for ref in again:
                forget(ref)

    def wake(self) -> None:
        """There is something new in it, or room for more with the client."""
        if self._source is not None:
            self._source.wake()
        elif self._start is not None and self.is_made:
            self._start(())

    def wake_for_room(self) -> None:
        """The client may take more, if there is more."""
        if self._source is not None and self.backlog > len(self._source.held):
            self._source.wake()

    def ack(self, ref: Ref) -> Run | None:
        """What settles it; None where that was done, or is not known here."""
        run = None if self._source is None else self._source.take(ref)
        if run is not None:
            self.backlog -= 1
        return run

    async def close(self) -> None:
        """Nobody is connected any more."""
        self._start = None
        source, self._source = self._source, None
        if source is not None:
            await source.stop()


def _to_refs(run: LeasedRun) -> list[Ref]:
    return list(run.columns.offsets)


def _to_deliveries(run: LeasedRun, refs: list[Ref]) -> list[Delivery]:
    found = []
    for ref, value in zip(refs, run.columns.values, strict=True):
        message, ids = from_inbox_value(value)
        found.append(Delivery(message, message.qos, ref, message.retain, ids))
    return found
