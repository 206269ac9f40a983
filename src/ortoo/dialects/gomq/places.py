"""Which of our topics a queue or a topic of GoMQ is, and what it is made with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ortoo.broker.authorized import AuthorizedLink
from ortoo.dialects.callers import namespace_of
from ortoo.model.names import TopicName, check_name, is_inbox
from ortoo.model.replies import TopicInfo
from ortoo.model.topic import TopicConfig

from .lines import PAYLOAD_BYTES_MAX

Kind = Literal["queue", "topic"]
DEAD = "-dlq"
_LABEL = {"gomq": "topic"}

QUEUE = TopicConfig(
    partitions=1,
    ordering="none",
    lease=30.0,
    max_attempts=3,
    ttl=86_400.0,
    max_depth=100_000,
    max_message_bytes=PAYLOAD_BYTES_MAX,
)
# Whoever is not subscribed has missed it, so there is nothing to wait for.
TOPIC = TopicConfig(
    partitions=1,
    ordering="none",
    ttl=86_400.0,
    max_message_bytes=PAYLOAD_BYTES_MAX,
    retention_seconds=86_400.0,
    dlq=False,
    labels=dict(_LABEL),
)
CONFIGS: dict[Kind, TopicConfig] = {"queue": QUEUE, "topic": TOPIC}


def find_place(link: AuthorizedLink, name: str) -> TopicName:
    """`NAME-dlq` is where the dead letters of NAME go, unless there is a topic of that very name and none that it could mean."""
    check_name("a name", name)
    place = TopicName(namespace_of(link), name)
    if not name.endswith(DEAD) or name == DEAD:
        return place
    origin = place._replace(name=name.removesuffix(DEAD))
    if link.may_see(origin) and (found := link.find_topic(origin)) is not None:
        return found.dlq
    if link.may_see(place) and link.find_topic(place) is not None:
        return place
    return place._replace(name=f"{origin.name}.dlq")


def is_topic(link: AuthorizedLink, place: TopicName) -> bool:
    """Whether it was made as a topic of GoMQ, whose deliveries need no ack."""
    found = link.find_topic(place)
    return found is not None and found.config.labels.items() >= _LABEL.items()


def names_of(kind: Kind, infos: Iterable[TopicInfo]) -> list[str]:
    """As GoMQ calls them."""
    infos = list(infos)
    dead = {info.dlq: f"{info.name}{DEAD}" for info in infos}
    return sorted(
        dead.get(info.name, info.name)
        for info in infos
        if not is_inbox(info.config.labels) and (info.config.labels.items() >= _LABEL.items()) == (kind == "topic")
    )
