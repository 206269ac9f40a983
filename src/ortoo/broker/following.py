"""What one command asks for, and is more than one turn may do: the rest follows in later turns, before it is answered.

A message is retried or given up for each group by itself, so that a command for all groups of a topic is as good as one for each
of them. The first of them are one decision, and happen together or not at all; topics rarely have more. If one of the others
fails, or the caller goes away, what was done stays done, and the same command again does the rest.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import msgspec

from ortoo.engine.messages import not_pending, other_groups
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model import limits
from ortoo.model.commands import Command, DeadLetter, PlainCommand, RetryNow
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.names import MessageRef

from .heavy import GROUP_UNITS, Line

_PER_TURN = 50


class Shell(Protocol):
    line: Line

    @property
    def state(self) -> State: ...
    def submit(self, command: Command) -> Any: ...
    async def flush(self) -> None: ...


async def follow(shell: Shell, command: PlainCommand, reply: Any) -> Any:
    """The answer to a command that was decided just now, once all of it is done."""
    if not isinstance(command, RetryNow | DeadLetter) or command.group is not None:
        return reply
    ref: MessageRef = command.message
    topic = shell.state.topics.get(ref.topic)
    groups = [] if topic is None else other_groups(topic)
    if topic is None or not groups:
        return reply
    count, step = int(reply), _step(topic, ref)
    for start in range(0, len(groups), step):
        await shell.flush()  # what is copied is in memory until then
        await asyncio.sleep(0)
        await shell.line.turn(GROUP_UNITS * _PER_TURN)  # however many such commands there are
        for group in groups[start : start + step]:
            try:
                count += shell.submit(msgspec.structs.replace(command, group=group))
            except (InvalidError, NotFoundError):  # it has nothing of the message to give up, or is gone meanwhile
                continue
    if not count and isinstance(command, DeadLetter):
        raise not_pending(ref)
    return count


def _step(topic: Topic, ref: MessageRef) -> int:
    """Fewer of large messages: each dead letter is a copy."""
    first, end, held = topic.partitions[ref.partition].instant_of(ref.offset)
    return max(1, min(_PER_TURN, limits.COPIED_BYTES_MAX * max(1, end - first) // max(1, held)))
