"""What a write is called: the same name however often it is tried, so that the queue knows whether it was committed."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple


class Job(NamedTuple):
    name: str
    # Whoever names a write may give the same name to writes of several topics. Then a topic is part of what is named, and
    # each is committed by itself: which topics the rows will name is not known before the last of them.
    by_topic: bool = False

    def named(self, topic: str) -> str:
        """A digest, because a topic's name may be as long as that of a transaction."""
        return f"{self.name}-{sha256(topic.encode()).hexdigest()[:32]}" if self.by_topic else self.name
