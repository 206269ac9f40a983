"""What a handler was called with, and how many messages went which way."""

from __future__ import annotations

import asyncio

import msgspec

from ortoo.model.message import Received
from ortoo.model.names import TopicId
from ortoo.model.topic import Ordering

Line = tuple[TopicId, str | int | None]  # what a topic keeps in order: a key, a partition, or all of it


def line_of(message: Received, ordering: Ordering) -> Line | None:
    """What the message has to wait its turn in; None when it may overtake others."""
    topic = message.delivery.topic_id
    match ordering:
        case "none":
            return None
        case "key":
            return None if message.key is None else (topic, message.key)
        case "partition":
            return (topic, message.partition)
        case "strict":
            return (topic, None)


class Counts(msgspec.Struct):
    """Messages, since the worker was made."""

    handled: int = 0
    failed: int = 0
    rejected: int = 0
    lost: int = 0  # their lease was gone before they could be settled


class Job:
    """Messages that a handler was called with."""

    __slots__ = (
        "alarm",
        "has_place",
        "is_abandoned",
        "is_in_loop",
        "is_lost",
        "is_overdue",
        "is_settling",
        "line",
        "messages",
        "task",
    )

    def __init__(self, messages: list[Received], line: Line | None) -> None:
        self.messages = messages
        self.line = line
        self.has_place = True
        self.is_lost = False
        self.is_abandoned = False  # the worker stops and cannot wait for it
        self.is_overdue = False  # it took too long; its messages are given up, though the handler may still run
        self.is_settling = False
        self.is_in_loop = False  # the handler, or what it handed on, is awaited, so that it can be cancelled
        self.alarm: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None

    def enter_loop(self) -> None:
        """From now on it can be cancelled. CancelledError when it would have been by now."""
        self.is_in_loop = True
        if self.is_overdue or self.is_lost or self.is_abandoned:
            raise asyncio.CancelledError

    def __str__(self) -> str:
        return to_text(self.messages)


def to_text(messages: list[Received]) -> str:
    first = messages[0]
    if len(messages) > 1:
        return f"{len(messages)} messages of topic {first.topic!r}, the first of them {first.id}"
    return f"message {first.id} of topic {first.topic!r}, attempt {first.attempt}"
