"""What a topic name or filter that begins with `$queue/` means.

$queue/tasks/image               the queue tasks/image: publish and subscribe
$queue/dlq/tasks/image           its dead letters
$queue/tasks/image/$ack          settles messages; $nack and $reject, too
$queue/NAME/FILTER               subscribe only, with wildcards in FILTER: the queue NAME, which captures what is published to
                                 ordinary topics that FILTER matches
$share/GROUP/$queue/tasks/image  subscribe only: the queue, with GROUP for a group
$admin/queue/create              makes a queue; $admin/queue/NAME/config changes it, $admin/queue/NAME/stats tells of it
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, get_args

import msgspec

from ortoo.doors.mqtt.wire.topics import Filter
from ortoo.model.access import DLQ_SUFFIX
from ortoo.model.errors import InvalidError
from ortoo.model.names import check_name

PREFIX: Final = "$queue/"
ADMIN_PREFIX: Final = "$admin/queue/"
_DLQ: Final = "dlq/"
_NAMES_MAX: Final = 2_048  # that are remembered

Control = Literal["$ack", "$nack", "$reject"]
_CONTROLS: Final = frozenset(get_args(Control))


class QueueTopic(msgspec.Struct, frozen=True):
    """Where a PUBLISH to a queue goes. With a control it settles messages there."""

    name: str  # of our topic
    control: Control | None = None


class QueueFilter(msgspec.Struct, frozen=True):
    """What a subscription to a queue is to."""

    name: str  # of our topic
    shown: str  # the topic name that deliveries carry; empty: that which was published to
    group: str | None = None  # of $share
    captured: Filter | None = None


@lru_cache(_NAMES_MAX)
def parse_topic(topic: str) -> QueueTopic:
    """Of a PUBLISH that begins with PREFIX."""
    name, _, last = topic.removeprefix(PREFIX).rpartition("/")
    if last in _CONTROLS and name:
        return QueueTopic(to_name(name), last)  # type: ignore[arg-type]
    whole = topic.removeprefix(PREFIX)
    if not _CONTROLS.isdisjoint(whole.split("/")):
        raise InvalidError(f"$ack, $nack and $reject are the last level of a topic, unlike in {topic[:100]!r}")
    return QueueTopic(to_name(whole))


def parse_queue_filter(filter: Filter) -> QueueFilter | None:
    """None where it is not to a queue."""
    if filter.levels[0] != "$queue":
        return None
    text = filter.text
    if len(filter.levels) < 2 or filter.levels[1] in ("", "+", "#"):
        raise InvalidError("a subscription to a queue names it: $queue/NAME")
    if "+" in filter.levels or "#" in filter.levels:
        if len(filter.levels) < 3:
            raise InvalidError("a subscription to a queue names it: $queue/NAME")
        if filter.levels[2].startswith("$"):
            raise InvalidError("a queue captures ordinary topics, and none that begin with $")
        return QueueFilter(filter.levels[1], "", filter.group, Filter(filter.levels[2:]))
    parsed = parse_topic(text)
    if parsed.control is not None:
        raise InvalidError(f"{parsed.control} is for publishing")
    return QueueFilter(parsed.name, text, filter.group)


def to_name(rest: str) -> str:
    """The topic that a queue is, of what stands behind its prefix."""
    name = rest.removeprefix(_DLQ) + DLQ_SUFFIX if rest.startswith(_DLQ) and rest != _DLQ else rest
    return check_name("the name of a queue", name)


def default_group(client_id: str) -> str:
    """The client identifier up to its first dash."""
    return client_id.partition("-")[0] or client_id or "default"
