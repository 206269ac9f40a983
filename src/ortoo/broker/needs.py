"""What of a queue needs somebody: looked for every few seconds while anybody looks, in turns, with a bounded look at each topic.

What is found is told in one sentence that says what to do. Each finding names the topics that somebody must be allowed to read to
be told of it; what names none is about the server, and only for those who may see everything.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import NamedTuple, Protocol

from ortoo.engine.group import Group
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model import limits
from ortoo.model.errors import OrtooError
from ortoo.model.live import Need, NeedKind, Severity
from ortoo.model.names import TopicName
from ortoo.model.pausing import Pause
from ortoo.model.pipelines import PipelineInfo, RunState
from ortoo.ports import Store

from .pipelines import Pipelines
from .rings import OF_TOPIC, Rings
from .rows import Board, Row
from .sampler import Sampler
from .turns import Turns

LAG_SECONDS = 120  # that a backlog has to grow
LAG_MIN = 100  # messages that it has to grow by
BLOCKED_MIN = 100  # messages behind one key
UNCONSUMED_SECONDS = 60  # that messages wait without any consumer
STALLED_SHARE = 0.8  # of a lease's time that passed, with nothing settled
STALLED_LEASE_MS = 5_000  # a lease for a shorter time is soon over
ARCHIVE_MS = 24 * 3_600_000  # that retention waits for an archive
PAUSED_MS = 24 * 3_600_000  # a pause that lasts longer may be forgotten
ROOM_BYTES = 512 * 1024 * 1024
FULL_WITHIN_SECONDS = 3_600

_POINTS = 5  # of the time in which a backlog grows: each is higher than the one before
_LEASES_LOOKED, _KEYS_LOOKED, _FEEDS_LOOKED = 200, 1_000, 10
_ERROR_CHARS = 300  # of why a job failed
_NAMES_READ = 20  # keys whose names are read, in one search
_PARTITION_UNITS, _GROUP_UNITS, _RECENT_UNITS = 0.1, 12, 4
_BYTES, _DEAD = OF_TOPIC.names.index("bytes"), OF_TOPIC.names.index("dead_lettered")
_ORDER: tuple[NeedKind, ...] = (
    "disk",
    "quarantined",
    "problem",
    "pipeline",
    "archive",
    "stalled_consumer",
    "paused",
    "lag_growing",
    "blocked_key",
    "dead_letters",
)

_BROKEN: dict[RunState, str] = {
    "failed": "failed: {error}. Fix the cause and run it again, or forget it",
    "stalled": "has not reported for a minute: check whether it, or its machine, hangs",
    "gone": "has not reported for an hour, nor that it ended: start it again, or forget it",
}

_Known = tuple[NeedKind, TopicName | None, str | None, str | None]


class Found(NamedTuple):
    need: Need
    topics: tuple[TopicName, ...]  # all have to be visible; none: the server
    run: tuple[str, str | None] | None = None  # of a job: its namespace, and who reported it


class Shell(Protocol):
    """What is needed of the broker."""

    store: Store

    @property
    def state(self) -> State: ...

    def now(self) -> int: ...

    def problems(self) -> list[str]: ...


class NeedsFinder:
    def __init__(self, broker: Shell, sampler: Sampler, pipelines: Pipelines) -> None:
        self._broker = broker
        self._pipelines = pipelines
        self._sampler = sampler
        self._known: dict[_Known, float] = {}  # what was found last, and since when
        self._names_left = 0

    async def find(self, board: Board, turns: Turns) -> list[Found]:
        """The most severe first."""
        self._names_left = _NAMES_READ
        found = self._disk() + [_of_server("problem", problem) for problem in self._broker.problems()]
        found += await self._dead_letters(board, turns)
        found += [_of_run(info) for info in await self._pipelines.current() if info.state in _BROKEN]
        for row in board.rows:
            topic = self._broker.state.topics.get(row.id)
            if topic is None:
                continue
            found += await self._partitions(topic, turns)
            if row.topic not in board.letters:
                found += await self._groups(topic, row, turns)
        return self._dated(sorted(found, key=_urgency))

    def _dated(self, found: list[Found]) -> list[Found]:
        """Each keeps the time at which it was found first."""
        now, before, self._known = self._broker.now() / 1000, self._known, {}
        dated = []
        for one in found:
            need, topic = one.need, one.topics[0] if one.topics else None
            key = (need.kind, topic, need.group, need.key if one.topics else need.text)
            since = min(need.since or now, before.get(key, now))
            self._known[key] = since
            dated.append(one._replace(need=_since(need, since)))
        return dated

    # -- the server

    def _disk(self) -> list[Found]:
        status = self._broker.store.status()
        if status.full is not None:
            return [_of_server("disk", f"Nothing can be published: {status.full}.")]
        room = status.room_bytes
        if room is None:
            return []
        total, newest = self._sampler.total.seconds, self._sampler.newest
        written = sum(total.read(newest - 59, 60)[_BYTES])
        if room >= ROOM_BYTES and room * 60 >= written * FULL_WITHIN_SECONDS:
            return []
        text = f"The disk has {room >> 20} MiB left: free space, or shorten the retention of large topics."
        return [_of_server("disk", text, is_error=False)]

    async def _dead_letters(self, board: Board, turns: Turns) -> list[Found]:
        """Once for each topic that has them, whoever they are of."""
        sources: dict[TopicName, list[Row]] = {}
        for row in board.rows:
            if row.shown.dead and row.dlq in board.letters:
                sources.setdefault(row.dlq, []).append(row)
        found = []
        for dlq, rows in sources.items():
            topic = rows[0].topic if len(rows) == 1 else dlq
            count = rows[0].shown.dead
            new = 0
            for row in rows:
                new += self._recent(row, _DEAD)
                await turns.worked(_RECENT_UNITS)
            more = f", {new} of them from the last minute" if new else ""
            text = f"{_count(count, 'dead letter')} of {str(topic)!r}{more}: read why they failed, then redrive or delete them."
            need = _need("dead_letters", topic, text, count=count, is_error=new > 0)
            found.append(Found(need, (topic, dlq)))
        return found

    def _recent(self, row: Row, place: int) -> int:
        series, newest = self._sampler.topics.get(row.id), self._sampler.newest
        return 0 if series is None else sum(series.rings.seconds.read(newest - 59, 60)[place])

    # -- topics

    async def _partitions(self, topic: Topic, turns: Turns) -> list[Found]:
        name, bad = topic.name, [log for log in topic.partitions if log.quarantine_reason is not None]
        await turns.worked(1 + _PARTITION_UNITS * len(topic.partitions))
        found = []
        if bad:
            text = (
                f"{_count(len(bad), 'partition')} of {str(name)!r} cannot be read ({bad[0].quarantine_reason}): stop the server, "
                "run `ortoo check`, then `ortoo repair`, or restore a backup."
            )
            found.append(_of(_need("quarantined", name, text, count=len(bad), is_error=True), name))
        if topic.config.retention_waits_for_archive:
            oldest = None
            for log in list(topic.partitions):
                if max(log.start, log.archived) < log.settled_end:
                    published = log.timeline.about(max(log.start, log.archived))
                    oldest = published if oldest is None else min(oldest, published)
                await turns.worked(1)
            if oldest is not None and self._broker.now() - oldest > ARCHIVE_MS:
                text = (
                    f"{str(name)!r} keeps messages until they are archived, but none was archived for more than a day: run "
                    "`ortoo pipeline archive`, and find out why it did not run."
                )
                found.append(_of(_need("archive", name, text, since=oldest / 1000, is_error=True), name))
        return found

    async def _groups(self, topic: Topic, row: Row, turns: Turns) -> list[Found]:
        series = self._sampler.topics.get(topic.id)
        found: list[Found] = []
        durable = (group for group in list(topic.groups.values()) if not group.ephemeral)
        for group in islice(durable, limits.SERIES_TOPIC_GROUPS_MAX):
            rings = None if series is None else series.groups.get(group.id)
            needs = [self._stalled(topic, group), await self._blocked(topic, group, turns)]
            if group.paused is not None:  # it falls behind, and nobody consumes it, because somebody wants that
                needs.append(self._paused(topic, group, group.paused))
            elif rings is not None:
                needs += [self._lag(topic, group, rings), self._unconsumed(topic, group, rings, row.shown.delayed)]
            found += [_of(need, topic.name) for need in needs if need is not None]
            await turns.worked(_GROUP_UNITS)
        return found

    def _lag(self, topic: Topic, group: Group, rings: Rings) -> Need | None:
        sampler, backlog = self._sampler, rings.stands[0]
        if backlog < LAG_MIN or sampler.first is None or sampler.newest - sampler.first < LAG_SECONDS:
            return None
        backlogs = rings.seconds.read(sampler.newest - LAG_SECONDS, LAG_SECONDS + 1)[0]
        points = backlogs[:: LAG_SECONDS // (_POINTS - 1)]
        if backlog - points[0] < LAG_MIN or any(later <= sooner for sooner, later in pairwise(points)):
            return None
        text = (
            f"Group {group.name!r} of {str(topic.name)!r} falls behind, by {_count(backlog - points[0], 'message')} in two "
            "minutes: add consumers, or publish more slowly."
        )
        since = self._broker.now() / 1000 - LAG_SECONDS
        return _need("lag_growing", topic.name, text, group=group.name, count=backlog, since=since)

    def _stalled(self, topic: Topic, group: Group) -> Need | None:
        now = self._broker.now()
        late = [
            lease
            for lease in islice(group.leases.values(), _LEASES_LOOKED)
            if not lease.acked
            and lease.until - lease.at >= STALLED_LEASE_MS
            and now - lease.at >= STALLED_SHARE * (lease.until - lease.at)
        ]
        if not late:
            return None
        text = (
            f"Consumer {late[0].consumer!r} of group {group.name!r} of {str(topic.name)!r} has settled nothing of "
            f"{_count(len(late), 'lease')} that soon expire: check whether it hangs, or give it a longer lease."
        )
        since = min(lease.at for lease in late) / 1000
        return _need("stalled_consumer", topic.name, text, group=group.name, count=len(late), since=since)

    def _unconsumed(self, topic: Topic, group: Group, rings: Rings, delayed: int) -> Need | None:
        backlog, leased, oldest = rings.stands
        waited = self._sampler.newest + 1 - oldest
        if not oldest or waited < UNCONSUMED_SECONDS or backlog - leased <= delayed:
            return None
        if group.leases or group.look_at_members().alive_until:
            return None
        text = (
            f"{_count(backlog, 'message')} of {str(topic.name)!r} and no consumer in group {group.name!r}: start one, or delete "
            "the group if it is not needed."
        )
        since = self._broker.now() / 1000 - waited
        return _need("stalled_consumer", topic.name, text, group=group.name, count=backlog, since=since)

    def _paused(self, topic: Topic, group: Group, pause: Pause) -> Need | None:
        if self._broker.now() - pause.since <= PAUSED_MS:
            return None
        why = "" if pause.reason is None else f" ({pause.reason})"
        text = (
            f"Group {group.name!r} of {str(topic.name)!r} has been paused for more than a day{why}, and gets nothing: resume it "
            "if that is no longer needed."
        )
        return _need("paused", topic.name, text, group=group.name, since=pause.since / 1000)

    # -- keys

    async def _blocked(self, topic: Topic, group: Group, turns: Turns) -> Need | None:
        """The key with the most messages behind it, of some."""
        if group.ordering != "key":
            return None
        longest: tuple[int, int, int] | None = None  # how many wait, in which partition, the first of them
        looked = 0
        for index in range(len(group.feeds)):
            await turns.worked(_PARTITION_UNITS)
            keys = None if group.feeds.is_untouched(index) else group.feeds[index].keys
            if keys is None or keys.blocked < BLOCKED_MIN:
                continue
            for key, line in islice(keys.waiting.items(), _KEYS_LOOKED):
                if keys.held(key) and len(line) >= BLOCKED_MIN and (longest is None or len(line) > longest[0]):
                    longest = (len(line), index, line[0])
            looked += 1
            if looked == _FEEDS_LOOKED:
                break
            await turns.worked(_KEYS_LOOKED / 10)
        if longest is None:
            return None
        count, partition, offset = longest
        name = await self._name(topic, partition, offset)
        text = (
            f"{_count(count, 'message')} of {str(topic.name)!r} wait behind one key in group {group.name!r}"
            f"{'' if name is None else f', {name!r}'}: settle the message that holds it, or dead-letter it."
        )
        return _need("blocked_key", topic.name, text, group=group.name, key=name, count=count)

    async def _name(self, topic: Topic, partition: int, offset: int) -> str | None:
        """The engine knows hashes of keys only."""
        if self._names_left <= 0:
            return None
        self._names_left -= 1
        try:
            columns = await self._broker.store.read(topic.id, partition, [offset])
        except (OrtooError, OSError):
            return None  # whoever leases it is told
        return columns.keys[0] if columns.keys else None


def _need(
    kind: NeedKind,
    topic: TopicName,
    text: str,
    *,
    group: str | None = None,
    key: str | None = None,
    count: int | None = None,
    since: float | None = None,
    is_error: bool = False,
) -> Need:
    severity: Severity = "error" if is_error else "warning"
    return Need(kind, severity, text, topic.namespace, topic.name, group, key, count, since)


def _of(need: Need, topic: TopicName) -> Found:
    return Found(need, (topic,))


def _of_run(info: PipelineInfo) -> Found:
    error = (info.error or "it does not say why").rstrip(".")[:_ERROR_CHARS]
    by = "" if info.reporter is None else f", reported by {info.reporter!r},"
    text = f"The job {info.job!r} of namespace {info.namespace!r}{by} {_BROKEN[info.state].format(error=error)}."
    severity: Severity = "error" if info.state == "failed" else "warning"
    need = Need("pipeline", severity, text, info.namespace, key=info.job, since=info.ended or info.reported)
    return Found(need, (), (info.namespace, info.reporter))


def _of_server(kind: NeedKind, text: str, is_error: bool = True) -> Found:
    return Found(Need(kind, "error" if is_error else "warning", text), ())


def _since(need: Need, since: float) -> Need:
    return Need(
        need.kind, need.severity, need.text, need.namespace, need.topic, need.group, need.key, need.count, since
    )


def _urgency(found: Found) -> tuple[bool, int, int]:
    need = found.need
    return need.severity != "error", _ORDER.index(need.kind), -(need.count or 0)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
