"""Queues of MQTT, and the topics that they are.

    $queue/tasks/image       topic tasks/image
    $queue/dlq/tasks/image   its dead letters: topic tasks/image.dlq

In a path, a name is percent-encoded, or has `$` in the place of `/`, as the document writes it: `$queue$tasks$image`.
"""

from __future__ import annotations

from ortoo.doors.mqtt.queues.names import PREFIX, to_name
from ortoo.model.access import DLQ_SUFFIX
from ortoo.model.errors import InvalidError

_IN_PATHS = "$queue$"
_DLQ = "dlq/"


def topic_of(queue: str) -> str:
    """Of a name in a body, which has its prefix."""
    if not queue.startswith(PREFIX):
        raise InvalidError(
            f"the name of a queue begins with {PREFIX}, as in $queue/tasks/image; this is {queue[:40]!r}"
        )
    return to_name(queue.removeprefix(PREFIX))


def topic_in_path(segment: str) -> str:
    """The prefix may be left out."""
    if segment.startswith(_IN_PATHS):
        return to_name(segment.removeprefix(_IN_PATHS).replace("$", "/"))
    return to_name(segment.removeprefix(PREFIX))


def queue_of(topic: str) -> str:
    if topic.endswith(DLQ_SUFFIX) and topic != DLQ_SUFFIX:
        return f"{PREFIX}{_DLQ}{topic.removesuffix(DLQ_SUFFIX)}"
    return PREFIX + topic
