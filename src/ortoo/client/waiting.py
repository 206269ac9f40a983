"""What was leased for a handler and has not begun: in order, each message behind the earlier ones of its line.

A line is what the topic keeps in order: a key, a partition or the whole topic. The queue sees to order between leases; within
one, and against a handler whose lease was lost and which still runs, it is seen to here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ortoo.model.message import Received
from ortoo.model.names import LeaseId, TopicId
from ortoo.model.topic import Ordering

from .prefetched import Deliveries, forget

Line = tuple[TopicId, str | int | None]


class Waiting:
    def __init__(self) -> None:
        self._messages: list[Received] = []  # the last is the next
        self._orderings: dict[TopicId, Ordering] = {}
        self._busy: set[Line] = set()
        self.may_begin = True  # False when every message was seen to wait for its line
        self.blocked: set[Line] = set()  # of the busy ones: by what is lost or overdue, and may never end

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Received]:
        return iter(self._messages)

    def know(self, topic: TopicId, ordering: Ordering) -> None:
        """Before the first message of that topic is added."""
        self._orderings[topic] = ordering

    def add(self, messages: Iterable[Received]) -> None:
        self._messages[:0] = reversed(list(messages))
        self.may_begin = True

    # -- taking out

    def next(self) -> tuple[Received, Line | None] | None:
        """The first whose line is free, and that line, which is busy from now on."""
        messages = self._messages
        if not self.may_begin:
            return None
        for at in range(len(messages) - 1, -1, -1):
            line = self._line(messages[at])
            if line is None:
                return messages.pop(at), None
            if line not in self._busy:
                self._busy.add(line)
                return messages.pop(at), line
        self.may_begin = False
        return None

    def take_all(self) -> list[Received]:
        taken, self._messages[:] = self._messages[::-1], []
        return taken

    def take_leased(self, leases: set[LeaseId]) -> list[Received]:
        """Those that came with these leases."""
        return self._take(lambda message: message.delivery.lease in leases)

    def take_blocked(self) -> list[Received]:
        return self._take(lambda message: self._line(message) in self.blocked) if self.blocked else []

    def _take(self, is_wanted: Callable[[Received], bool]) -> list[Received]:
        taken = [message for message in reversed(self._messages) if is_wanted(message)]
        self._messages[:] = [message for message in self._messages if not is_wanted(message)]
        return taken

    def forget(self, gone: Deliveries) -> None:
        """Revoked: to begin them would break the order of their key."""
        forget(self._messages, gone)

    def lose(self, receipts: set[str]) -> None:
        self._messages[:] = [message for message in self._messages if message.receipt not in receipts]

    # -- lines

    def _line(self, message: Received) -> Line | None:
        """What the message has to wait its turn in; None when it may overtake others."""
        topic = message.delivery.topic_id
        ordering = self._orderings[topic]
        if ordering == "key":
            return None if message.key is None else (topic, message.key)
        if ordering == "none":
            return None
        return (topic, message.partition if ordering == "partition" else None)

    def lines_of(self, messages: Iterable[Received]) -> set[Line]:
        return {line for message in messages if (line := self._line(message)) is not None}

    def block(self, line: Line) -> None:
        self.blocked.add(line)

    def free(self, line: Line) -> None:
        self._busy.discard(line)
        self.may_begin = True
        self.blocked.discard(line)
