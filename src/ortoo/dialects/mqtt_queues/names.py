"""Queues of MQTT, and the topics that they are.

    $queue/tasks/image       topic tasks/image
    $queue/dlq/tasks/image   its dead letters: topic tasks/image.dlq

In a path, a name is percent-encoded, or has `$` in the place of `/`, as the document writes it: `$queue$tasks$image`.
"""

from __future__ import annotations

from ortoo.model.access import DLQ_SUFFIX
from ortoo.model.errors import InvalidError
from ortoo.model.names import check_name

PREFIX = "$queue/"
_IN_PATHS = "$queue$"
_DLQ = "dlq/"


def topic_of(queue: str) -> str:
    """Of a name in a body, which has its prefix."""
    if not queue.startswith(PREFIX):
        raise InvalidError(
            f"the name of a queue begins with {PREFIX}, as in $queue/tasks/image; this is {queue[:40]!r}"
        )
    return _topic(queue.removeprefix(PREFIX))


def topic_in_path(segment: str) -> str:
    """The prefix may be left out."""
    if segment.startswith(_IN_PATHS):
        return _topic(segment.removeprefix(_IN_PATHS).replace("$", "/"))
    return _topic(segment.removeprefix(PREFIX))


def _topic(rest: str) -> str:
    name = rest.removeprefix(_DLQ) + DLQ_SUFFIX if rest.startswith(_DLQ) and rest != _DLQ else rest
    return check_name("the name of a queue", name)


def queue_of(topic: str) -> str:
    if topic.endswith(DLQ_SUFFIX) and topic != DLQ_SUFFIX:
        return f"{PREFIX}{_DLQ}{topic.removesuffix(DLQ_SUFFIX)}"
    return PREFIX + topic
