"""Answers `ExplainMessage`: why a group gets a message, or does not get it, and what can be done about it.

What is pending is told from the engine's state. What is settled or gone left no trace there, so the message's history is read.
"""

from __future__ import annotations

from ortoo.engine.strip import pending_in
from ortoo.engine.topic import Topic
from ortoo.engine.view import state_of
from ortoo.model import records as r
from ortoo.model.errors import NotFoundError
from ortoo.model.inspection import Behind, Explanation, Reason
from ortoo.model.offsets import OffsetSet
from ortoo.model.pausing import Pause
from ortoo.model.queries import ExplainMessage

from .due_times import due_times
from .holding import Shell, holder_of, lease_of, read_keys
from .turns import Turns

_AT_ONCE = 10_000  # messages whose keys are compared in a row
_LOOKED_AT = 100  # that take as long as a unit of work
_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))


async def explain(broker: Shell, query: ExplainMessage) -> Explanation:
    topic = broker.state.topic_by_id(query.message.topic)
    return await _Explaining(broker, topic, query).explain()


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def span(ms: int) -> str:
    """How long that is, roughly."""
    for noun, length in _UNITS:
        if ms >= 2 * length:
            return count(round(ms / length), noun)
    return count(max(1, round(ms / 1000)), "second")


class _Past:
    """What a message's history tells of it in one group: the last that happened, and how often it failed."""

    def __init__(self) -> None:
        self.last: r.HistoryRecord | None = None
        self.failed = 0
        self.is_known = False

    def add(self, record: r.HistoryRecord, group: int) -> None:
        self.is_known = True
        if not isinstance(record, r.Deleted | r.Superseded) and record.group != group:
            return
        self.last = record
        if isinstance(record, r.Retried):
            self.failed += 1
        elif isinstance(record, r.Redriven):
            self.failed = 0

    @property
    def since(self) -> int | None:
        return None if self.last is None else self.last.at


class _Explaining:
    """One answer, while it is found."""

    def __init__(self, broker: Shell, topic: Topic, query: ExplainMessage) -> None:
        self._broker = broker
        self._topic = topic
        self._ref = ref = query.message
        self._group = broker.state.group(topic, query.group)
        if ref.partition >= len(topic.partitions) or ref.offset >= topic.partitions[ref.partition].end:
            raise NotFoundError(f"there is no message {ref}; it never was")
        self._log = topic.partitions[ref.partition]
        self._feed = self._group.feeds.look(ref.partition)
        self._state = state_of(self._feed, ref.offset)
        self._now = broker.now()
        self._turns = Turns()

    async def explain(self) -> Explanation:
        if (why := self._log.quarantine_reason) is not None:
            advice = "stop the server, and run `ortoo check` and `ortoo repair` on its data directory"
            return self._say("quarantined", f"Its partition is quarantined: {why}; {advice}.", since=None)
        match self._state:
            case "leased":
                return self._leased()
            case "delayed" if self._ref.offset in self._feed.retrying:
                return await self._retrying()
            case "delayed":
                return await self._delayed()
            case "blocked":
                return await self._blocked()
            case "ready":
                return self._ready()
            case "dead" | "done":
                return await self._settled()
            case None if self._feed.unsettled(OffsetSet([self._ref.offset])):
                return self._unseen()
            case None:
                return await self._gone()

    def _say(
        self,
        reason: Reason,
        text: str,
        *,
        since: int | None,
        until: int | None = None,
        attempt: int | None = None,
        behind: Behind | None = None,
    ) -> Explanation:
        failure = self._feed.failures.get(self._ref.offset)
        return Explanation(
            str(self._ref),
            self._group.name,
            self._state,
            reason,
            text,
            None if since is None else since / 1000,
            None if until is None else until / 1000,
            attempt or (1 if failure is None else failure.attempts + 1),
            behind,
            len(self._group.look_at_members().alive_until),
        )

    @property
    def _published(self) -> int:
        return self._log.timeline.time_of(self._ref.offset)

    def _left(self, until: int) -> str:
        return f"in {span(until - self._now)}" if until > self._now else "at any moment"

    # -- pending

    def _leased(self) -> Explanation:
        lease = lease_of(self._group, self._ref.partition, self._ref.offset)
        assert lease is not None, "what is leased has a lease"
        text = (
            f"Consumer {lease.consumer!r} has leased it; it comes back {self._left(lease.until)}, unless it is settled or "
            f"extended before, or at once if the consumer leaves."
        )
        return self._say("leased", text, since=lease.at, until=lease.until)

    async def _retrying(self) -> Explanation:
        failure = self._feed.failures[self._ref.offset]
        text = (
            f"It failed {count(failure.attempts, 'time')}, and is tried again {self._left(failure.due)}; to try it now, use "
            f"`ortoo messages retry {self._ref}`."
        )
        since = (await self._read_past()).since
        return self._say("retrying", text, since=since, until=failure.due, attempt=failure.attempts + 1)

    async def _delayed(self) -> Explanation:
        dues = await due_times(self._log, OffsetSet([self._ref.offset]), self._turns)
        due = dues.get(self._ref.offset)
        when = "soon" if due is None else self._left(due)
        text = f"It is delayed, and comes due {when}; to deliver it now, use `ortoo messages retry {self._ref}`."
        return self._say("delayed", text, since=self._published, until=due)

    def _unseen(self) -> Explanation:
        topic, log = self._topic, self._log
        if self._ref.offset >= log.durable:
            if self._ref.offset >= log.settled_end:
                text = "It is part of a transaction that is not committed as a whole yet; it comes once that is done."
            else:
                text = "It is not on disk yet; it comes once it is, which takes a moment, or longer on a slow disk."
            return self._say("not_durable", text, since=self._published)
        until = None
        if topic.window_since is not None:
            until = topic.window_since + round(topic.config.window_seconds * 1000)
        when = "soon" if until is None else self._left(until)
        text = f"It waits with others until the topic's window closes, {when}; `window_seconds` and `window_count` say when."
        return self._say("window", text, since=self._published, until=until)

    def _ready(self) -> Explanation:
        group, index = self._group, self._ref.partition
        members = group.look_at_members()
        if group.paused is not None:
            return self._paused(group.paused)
        if not members.alive_until:
            command = f"ortoo consume {self._topic.name.name} --group {group.name}"
            text = f"It is ready, but group {group.name!r} has no consumers: start one, such as `{command}`."
            return self._say("no_consumer", text, since=self._published)
        if index in members.moving:
            text = "Its partition is moving to another consumer, and pauses until what was leased of it is settled."
            return self._say("partition_held", text, since=self._published, until=members.moving[index])
        before = pending_in(self._feed).count_within(0, self._ref.offset)
        line = f"; {count(before, 'earlier message')} of its partition may come first" if before else ""
        text = (
            f"It is ready, and {count(len(members.alive_until), 'consumer')} may lease it as soon as one asks for more{line}; "
            f"if that takes long, they are too slow or hang: add consumers."
        )
        return self._say("ready", text, since=self._published)

    def _paused(self, pause: Pause) -> Explanation:
        when = "until it is resumed" if pause.until is None else f"and resumes {self._left(pause.until)}"
        why = "" if pause.reason is None else f" ({pause.reason})"
        command = f"ortoo groups resume {self._topic.name.name} {self._group.name}"
        text = f"It is ready, but group {self._group.name!r} is paused{why}, {when}; to end that now, use `{command}`."
        return self._say("paused", text, since=pause.since, until=pause.until)

    async def _blocked(self) -> Explanation:
        reason: Reason = "partition_held" if self._feed.fifo else "behind_key"
        what = "partition" if self._feed.fifo else "key"
        holder = None
        if (offset := await self._holding()) is not None:
            holder = holder_of(self._topic, self._group, self._ref.partition, offset)
        if holder is None:
            text = f"It waits for an earlier message of its {what}, which is about to be settled."
            return self._say(reason, text, since=self._published)
        until = None if holder.until is None else round(holder.until * 1000)
        if holder.consumer is None:
            text = f"It waits for message {holder.id} of the same {what}, which failed, and is tried again"
        else:
            text = f"It waits for message {holder.id} of the same {what}, which consumer {holder.consumer!r} has leased"
        when = "" if until is None else f" {self._left(until)}"
        text += (
            f"{when}; it can come once that one is done."
            if holder.consumer is None
            else f"; it can come once that one is settled, and its lease ends{when} at the latest."
        )
        place = (self._ref.partition, self._ref.offset)
        key = (await read_keys(self._broker, self._topic, [place], self._turns)).get(place)
        behind = Behind(holder.id, None if self._feed.fifo else key, holder.consumer, holder.until)
        return self._say(reason, text, since=self._published, until=until, behind=behind)

    async def _holding(self) -> int | None:
        """The first message that holds its key, or its partition."""
        held = self._feed.leased | self._feed.retrying
        if self._feed.fifo:
            return held.first() if held else None
        keys, offsets = self._log.keys, held.to_array()
        key = keys.at(self._ref.offset)
        for at in range(0, len(offsets), _AT_ONCE):
            some = offsets[at : at + _AT_ONCE]
            found = keys.of(some)
            if key in found:
                return int(some[found.index(key)])
            await self._turns.worked(len(some) / _LOOKED_AT)
        return None

    # -- settled or gone

    async def _read_past(self) -> _Past:
        await self._broker.flush()
        past = _Past()
        ref = self._ref
        async for records in self._broker.store.history(ref.topic, ref.partition, ref.offset):
            for record in records:
                past.add(record, self._group.id)
            await self._turns.worked(len(records))
        return past

    async def _settled(self) -> Explanation:
        return self._told(await self._read_past(), is_dead=self._state == "dead")

    async def _gone(self) -> Explanation:
        log, offset = self._log, self._ref.offset
        past = await self._read_past()
        if offset < log.start and not past.is_known:
            raise NotFoundError(f"nothing is known of message {self._ref}; retention removed it and its history")
        if offset in log.private:
            owner = self._topic.groups.get(log.private[offset])
            text = (
                f"It was delivered again for group {owner.name if owner else 'another'!r} alone, and concerns no other."
            )
            return self._say("skipped", text, since=self._published)
        if offset in log.expired:
            text = (
                "It outlived its time to live before it was done; publish it again, with a longer `ttl` or with none."
            )
            return self._say("expired", text, since=None)
        if offset in log.evicted:
            text = (
                "It waited for its first delivery for longer than the topic's `max_wait`; add consumers, or allow more."
            )
            return self._say("expired", text, since=None)
        return self._told(past)

    def _told(self, past: _Past, *, is_dead: bool = False) -> Explanation:
        since, attempt, dlq = past.since, past.failed + 1, self._topic.dlq_name().name
        match past.last:
            case r.Superseded() as record:
                later = record.ref_for(self._ref.offset)
                text = f"A later message of its key, {later}, took its place: the topic keeps the latest of each key."
                return self._say("superseded", text, since=since)
            case r.Deleted():
                return self._say("deleted", "Somebody deleted it, for every group; publish it again.", since=since)
            case r.DeadLettered() as record:
                why = f" ({record.error})" if record.error else ""
                text = (
                    f"The group gave it up{why}; its dead letter is in topic {dlq!r}: mend the cause, then "
                    f"`ortoo dlq redrive {self._topic.name.name} --all`."
                )
                return self._say("dead", text, since=since, attempt=attempt)
            case r.Dropped() as record:
                text = f"The group gave it up ({record.reason}), and dead letters are not wanted: publish it again, if need be."
                return self._say("done", text, since=since, attempt=attempt)
            case r.Acked():
                return self._say("done", "The group is done with it.", since=since, attempt=attempt)
            case r.Skipped():
                text = (
                    "Retention removed it before the group had settled it; consume faster, or keep messages for longer."
                )
                return self._say("skipped", text, since=since)
            case _ if is_dead:
                text = f"The group gave it up; its dead letter is in topic {dlq!r}, unless that was deleted."
                return self._say("dead", text, since=None)
            case _ if self._ref.offset < self._log.start:
                return self._say("skipped", "Retention, or a purge of the topic, removed it.", since=None)
            case _:
                text = (
                    f"The group is past it and, as far as is remembered, never settled it: it began later, or was moved; "
                    f"`ortoo groups seek` brings it back, and `ortoo messages retry {self._ref}` brings this one alone."
                )
                return self._say("skipped", text, since=None)
