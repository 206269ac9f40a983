"""Retained messages of a namespace: in memory to be found, and durable beside that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from .routing.retained import RetainedIndex
from .rules.messages import Message

_EXPIRED_AT_ONCE: Final = 500
_OVERHEAD: Final = 500  # bytes of one, beside what is in it


class Retained:
    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._index: RetainedIndex[Message] = RetainedIndex()
        self._count_max = count_max
        self._bytes_max = bytes_max
        self.bytes = 0
        self.serial = 0  # of the one that was retained last
        self._expiring: list[tuple[int, str]] = []  # when, the first first; of some there is another message by then

    def __len__(self) -> int:
        return len(self._index)

    def set(self, message: Message) -> bool:
        """False where there is no room for it. An empty payload removes what was retained."""
        if message.expires_at is not None:
            self._note_expiry(message.expires_at, message.topic)
        old = self._index.get(message.topic)
        freed = 0 if old is None else _size(old)
        if not message.payload:
            self.delete(message.topic)
            return True
        size = _size(message)
        if (old is None and len(self._index) >= self._count_max) or self.bytes + size - freed > self._bytes_max:
            return False
        self.bytes += size - freed
        self._index.set(message.topic, message)
        if not message.serial:  # it may be set again, when it has become durable
            self.serial += 1
            message.serial = self.serial
        return True

    def get(self, topic: str) -> Message | None:
        return self._index.get(topic)

    def delete(self, topic: str) -> None:
        old = self._index.delete(topic)
        if old is not None:
            self.bytes -= _size(old)

    def _note_expiry(self, at: int, topic: str) -> None:
        """Of topics that are published to again and again, only what is retained now counts."""
        heappush(self._expiring, (at, topic))
        if len(self._expiring) > 2 * len(self._index) + 1_000:
            kept = ((message.expires_at, name) for name, message in self._index.items())
            self._expiring = [(when, name) for when, name in kept if when is not None]
            heapify(self._expiring)

    def expire(self, now: int) -> list[str]:
        """Removes those whose time is over, some of them at a time; their topics."""
        found: list[str] = []
        while self._expiring and self._expiring[0][0] <= now and len(found) < _EXPIRED_AT_ONCE:
            at, topic = heappop(self._expiring)
            kept = self._index.get(topic)
            if kept is not None and kept.expires_at == at:
                self.delete(topic)
                found.append(topic)
        return found

    def matching(self, levels: Sequence[str], now: int, until: int) -> Iterator[Message | None]:
        """Those that a filter matches, that have not expired and have serials up to `until`; None where others may run."""
        for found in self._index.matching(levels):
            if found is None:
                yield None
                continue
            message = found[1]
            if (message.expires_at is None or message.expires_at > now) and message.serial <= until:
                yield message


def _size(message: Message) -> int:
    return _OVERHEAD + len(message.topic) + len(message.payload) + len(message.raw)
