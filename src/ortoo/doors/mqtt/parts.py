"""What a turn of a session has to make durable: parts of a job, one for each PUBLISH, or for several to one queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from ortoo.model.commands import Publish, Run
from ortoo.model.names import TopicName
from ortoo.model.topic import DEFAULT_PRIORITY

from .rules.messages import Delivery, Message
from .storage import to_inbox_value

Done = Callable[[Exception | None], None]
TellAll = Callable[[list[int], Exception | None], None]  # the same, with the tickets of those that it is about


class Item(NamedTuple):
    """A message for a topic, with the fields that a publish may have."""

    topic: TopicName
    value: bytes
    key: str | None = None
    headers: dict[str, str] | None = None
    priority: int = DEFAULT_PRIORITY
    delay: float | None = None
    deliver_at: float | None = None
    ttl: float | None = None
    dedup_id: str | None = None
    partition: int | None = None
    json: bool = False


class Record(Protocol):
    """What to keep of a session, or that nothing is to be kept."""

    def publish(self, missing: frozenset[int]) -> Publish:
        """Without the QoS 2 messages of these identifiers, which were not taken."""
        ...

    def done(self) -> None:
        """It is durable."""


class Waiting(Protocol):
    """An inbox, as far as it matters here."""

    topic: TopicName
    backlog: int

    def wake(self) -> None: ...


class Part:
    """What one PUBLISH puts into topics; `told` is called when that is durable, or with why it was refused.

    What queues capture of it is nobody's request: if that cannot be stored, it is counted, and the publisher is told nothing.
    """

    __slots__ = (
        "captured",
        "inboxes",
        "is_wanted",
        "items",
        "packet_id",
        "retained",
        "size",
        "stored",
        "told",
        "values",
    )

    def __init__(self) -> None:
        self.told: Done | None = None
        self.stored: Done | None = None  # the same, for what is retained
        self.is_wanted: Callable[[], bool] | None = (
            None  # asked when it is about to be stored; always, where there is none
        )
        self.packet_id = 0  # of QoS 2: to be kept with it
        self.items: list[Item] = []
        self.captured: Sequence[Item] = ()
        self.inboxes: Sequence[Waiting] = ()  # that something was put into
        self.values: dict[tuple[int, bool, tuple[int, ...]], bytes] | None = None  # for inboxes: many get the same
        self.retained: Publish | None = None
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self.items or self.captured) or self.retained is not None

    def __len__(self) -> int:
        """Messages that one commit has to take."""
        return len(self.items)

    def all_items(self) -> list[Item]:
        return self.items

    def put(self, item: Item) -> None:
        self.items.append(item)
        self.size += len(item.value)

    def capture(self, item: Item) -> None:
        self.captured = [*self.captured, item]
        self.size += len(item.value)

    def put_in(self, inbox: Waiting, message: Message, delivery: Delivery, now: int) -> None:
        place = (delivery.qos, delivery.retain, delivery.ids)
        if self.values is None:
            self.values, self.inboxes = {}, []
        value = self.values.get(place)
        if value is None:
            value = self.values[place] = to_inbox_value(message, *place)
        ttl = None if message.expires_at is None else max(0.001, (message.expires_at - now) / 1000)
        self.put(Item(inbox.topic, value, ttl=ttl))
        inbox.backlog += 1
        self.inboxes.append(inbox)  # type: ignore[attr-defined]  # a list since the first one

    def done(self, error: Exception | None) -> None:
        for inbox in self.inboxes:
            if error is not None:
                inbox.backlog -= 1
            else:
                inbox.wake()
        if self.stored is not None:
            self.stored(error)
        if self.told is not None:
            self.told(error)

    def drop(self) -> None:
        """It is not wanted any more; it still counts as done."""
        for inbox in self.inboxes:
            inbox.backlog -= 1
        self.inboxes, self.items, self.retained, self.is_wanted = (), [], None, None

    def singly(self) -> list[Part]:
        """One for each PUBLISH."""
        return [self]


class QueuePart(Part):
    """PUBLISHes to one queue that came one after the other."""

    __slots__ = ("_tell", "_tickets", "payloads", "shown", "topic")

    def __init__(self, topic: TopicName, shown: str, tell: TellAll) -> None:
        """`shown`: the name that they were published to."""
        super().__init__()
        self.topic = topic
        self.shown = shown
        self.payloads: list[bytes] = []
        self._tickets: list[int] = []
        self._tell = tell

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def is_plain(self) -> bool:
        """They have nothing but payloads."""
        return not self.items

    def add(self, value: bytes, ticket: int) -> None:
        if self.items:
            self.items.append(Item(self.topic, value))
        self.payloads.append(value)
        self._tickets.append(ticket)
        self.size += len(value)

    def add_item(self, item: Item, ticket: int) -> None:
        """One that has more than that."""
        if not self.items:
            self.items = self._to_items()
        self.items.append(item)
        self.payloads.append(item.value)
        self._tickets.append(ticket)
        self.size += len(item.value)

    def all_items(self) -> list[Item]:
        return self.items or self._to_items()

    def _to_items(self) -> list[Item]:
        return [Item(self.topic, value) for value in self.payloads]

    def done(self, error: Exception | None) -> None:
        self._tell(self._tickets, error)

    def singly(self) -> list[Part]:
        parts: list[Part] = []
        for item, ticket in zip(self.all_items(), self._tickets, strict=True):
            part = Part()
            part.put(item)
            part.told = partial(self._tell, [ticket])
            parts.append(part)
        return parts


class Job:
    __slots__ = ("acks", "parts", "record", "saved")

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.acks: list[Run] = []
        self.record: Record | None = None
        self.saved: Callable[[], None] | None = None

    def __bool__(self) -> bool:
        return bool(self.parts or self.acks or self.record)
