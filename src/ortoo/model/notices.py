"""What a queue tells by itself, as plain values."""

from __future__ import annotations

import msgspec

from .names import MessageRef
from .records import Origin


class DeadLetterNotice(msgspec.Struct, frozen=True):
    """A dead letter is durable, and its topic has a webhook."""

    webhook: str
    topic: str  # whose message failed
    namespace: str
    dlq_topic: str
    id: MessageRef  # of the dead letter
    origin: Origin
    at: int  # ms since the epoch
