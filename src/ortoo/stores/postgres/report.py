"""Tells which commits, and which messages in them, are not in the database though they were confirmed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from ortoo.model.names import TopicId

from .catalog import Catalog, Place
from .commit_log import CommitLog, unpack
from .writing import Commit

NOT_SYNCHRONOUS = (
    "synchronous_commit is off for this role or database: what is confirmed may be lost in a crash of the server, also in topics "
    "with durability commit; set it with: alter role … set synchronous_commit = on"
)
_PLACES_MAX = 50
_READ_BYTES = 4 << 20


async def report(log: CommitLog, what: str, names: Mapping[int, str]) -> str:
    """Of all that the log has, in one line."""
    spans: dict[Place, tuple[int, int]] = {}
    at = log.first
    while at <= log.last:
        for data in await log.read(range(at, min(at + 255, log.last) + 1), _READ_BYTES):
            note_spans(spans, unpack(data))
            at += 1
    return f"{commits_from(log.first, log.last)} {what}; {told(spans, names)}"


def note_spans(spans: dict[Place, tuple[int, int]], commit: Commit) -> None:
    for row in commit.rows:
        place = (TopicId(row.topic), row.partition)
        first, _ = spans.get(place, (row.base, 0))
        spans[place] = first, row.until - 1


def commits_from(first: int, last: int) -> str:
    return f"commits {first} to {last}, which were confirmed,"


def told(spans: Mapping[Place, tuple[int, int]], names: Mapping[int, str]) -> str:
    places = [
        f"topic {names.get(topic, topic)!r}, partition {partition}: offsets {first} to {last}"
        for (topic, partition), (first, last) in sorted(spans.items())
    ]
    more = f", and {len(places) - _PLACES_MAX} more partitions" if len(places) > _PLACES_MAX else ""
    return "messages in them: " + ("; ".join(places[:_PLACES_MAX]) + more if places else "none")


def lost(found: int, confirmed: int, before: Catalog, after: Catalog, is_hard: bool) -> str:
    """The database has less than it had: which messages are gone can be told from what is known of the logs. `is_hard`: also
    some that were durable."""
    ends = {place: log.end for place, log in after.logs.items()}
    spans = {
        place: (ends.get(place, 0), log.end - 1) for place, log in before.logs.items() if log.end > ends.get(place, 0)
    }
    names: dict[int, str] = {topic: str(name) for topic, name in before.names.items()}
    what = f"{commits_from(found + 1, confirmed)} are lost; {told(spans, names)}"
    if is_hard:
        return f"the database went back: {what}; was a backup restored, or a standby behind?"
    return (
        f"the database lost what it had not synced: {what}; it may do so in a crash with durability interval and none"
    )


def away(reason: str | None, since: float | None, commits: int, size: int, where: str) -> str:
    began = datetime.fromtimestamp(since or 0, UTC)
    return (
        f"the database is away since {began:%Y-%m-%d %H:%M:%S} UTC ({reason}); {commits} commits ({size >> 10} KiB) wait in "
        f"{where}"
    )
