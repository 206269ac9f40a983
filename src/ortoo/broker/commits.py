"""Group commit: what happens while one append is under way goes into the next, whoever asked for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from ortoo.model.errors import OrtooError
from ortoo.model.names import TopicName
from ortoo.model.records import Record

Observer = Callable[[list[Record]], None]


class PendingCommit:
    """Records on their way to the store, the callers whose replies wait for them, and the topics they stir."""

    __slots__ = ("parked", "records", "stirred")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.stirred: dict[TopicName, set[int] | None] = {}  # in which partitions; None: in any
        self.parked: list[asyncio.Future[None]] = []

    def stir(self, topic: TopicName, partition: int | None) -> None:
        """Something of the topic may be deliverable once this is durable."""
        if partition is None:
            self.stirred[topic] = None
        elif (partitions := self.stirred.setdefault(topic, set())) is not None:
            partitions.add(partition)

    def park(self) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self.parked.append(future)
        return future

    def succeed(self) -> None:
        for future in self.parked:
            if not future.done():
                future.set_result(None)

    def fail(self, error: OrtooError) -> None:
        for future in self.parked:
            if not future.done():
                future.set_exception(error)


def tell(observers: Iterable[Observer], records: list[Record]) -> None:
    """What is durable, to whoever looks on. A mistake of theirs is theirs alone."""
    for observer in observers:
        try:
            observer(records)
        except Exception:
            logging.getLogger("ortoo.broker").exception("an observer of commits failed")
