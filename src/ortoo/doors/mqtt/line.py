"""What a client's turns have to make durable, one commit after the other.

A turn of a session is one `Job`: its publishes, its acks and its record, which are committed together. What gathers while a
commit is under way goes into the next one, all of it at once; if that is refused, each publish is tried by itself, so that one
full queue refuses what was meant for it and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Final

from ortoo.model.batch import build_outgoing, to_outgoing
from ortoo.model.commands import Publish, Run
from ortoo.model.errors import LeaseLostError, OrtooError, OutcomeUnknownError, UnavailableError
from ortoo.model.names import TopicName
from ortoo.model.runs import merge_runs

from .parts import Item, Job, Part, QueuePart
from .storage import Storage

_log = logging.getLogger("ortoo.mqtt")

_AT_ONCE: Final = 2_000  # messages in one commit: a few milliseconds of the event loop
_BYTES_AT_ONCE: Final = 8 * 1024 * 1024  # the same in bytes: each is written by itself, however many share them
_JOBS_AT_ONCE: Final = 1_000
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.05, 1.0  # before a session that could not be saved is tried again

Prepare = Callable[[list[Publish], list[Publish]], Awaitable[list[Publish]]]


class Line:
    def __init__(
        self,
        storage: Storage,
        prepare: Prepare,
        missed: Callable[[Exception], None],
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """`prepare` gives publishes, and those that are captured, as they are allowed, and makes the topics that they need; it
        may refuse them. `missed` is told what could not be captured. `after` is called when what was committed was told."""
        self._storage = storage
        self._missed = missed
        self._prepare = prepare
        self._after = after
        self._jobs: list[Job] = []
        self._task: asyncio.Task[None] | None = None
        self.bytes = 0  # of what waits

    def add(self, job: Job) -> None:
        self._jobs.append(job)
        self.bytes += sum(part.size for part in job.parts)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="ortoo-mqtt-commits")

    @property
    def is_idle(self) -> bool:
        return self._task is None

    async def wait_idle(self) -> None:
        while self._task is not None:
            await asyncio.wait((self._task,))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._jobs:
                jobs = self._next_jobs()
                await self._commit(jobs)
                self._after()
                self.bytes -= sum(part.size for job in jobs for part in job.parts)
        finally:
            self._task = None

    def _next_jobs(self) -> list[Job]:
        """As many as one commit takes; at least one."""
        taken = messages = size = 0
        for job in self._jobs[:_JOBS_AT_ONCE]:
            messages += sum(map(len, job.parts))
            size += sum(part.size for part in job.parts)
            if taken and (messages > _AT_ONCE or size > _BYTES_AT_ONCE):
                break
            taken += 1
        jobs, self._jobs = self._jobs[:taken], self._jobs[taken:]
        return jobs

    async def _commit(self, jobs: list[Job]) -> None:
        parts = [part for job in jobs for part in job.parts]
        record = next((job.record for job in reversed(jobs) if job.record is not None), None)
        acks = merge_runs([run for job in jobs for run in job.acks])
        if sum(map(len, parts)) > _AT_ONCE or sum(part.size for part in parts) > _BYTES_AT_ONCE:
            await self._one_by_one(jobs)
            return
        try:
            await self._write(parts, acks, record.publish(frozenset()) if record is not None else None)
        except (UnavailableError, OutcomeUnknownError) as error:  # nobody knows; to write again might double it
            for part in parts:
                part.done(error)
            if record is not None:
                await self._save(record.publish(frozenset(part.packet_id for part in parts)), acks)
        except OrtooError:
            await self._one_by_one(jobs)
            return
        else:
            for part in parts:
                part.done(None)
        if record is not None:
            record.done()
        for job in jobs:
            _tell_saved(job)

    async def _one_by_one(self, jobs: list[Job]) -> None:
        for job in jobs:
            await self._one(job)

    async def _one(self, job: Job) -> None:
        """What is not taken yet, or was refused, does not count as received in the record that goes with what is."""
        acks = merge_runs(job.acks)
        if job.record is None:
            await self._storage.ack(acks)
        missing = {part.packet_id for part in job.parts if part.packet_id}
        for part in chain.from_iterable(some.singly() for some in job.parts):
            missing.discard(part.packet_id)
            record = None
            if part.packet_id and job.record is not None:
                record = job.record.publish(frozenset(missing))
            try:
                await self._capture(part)
                *pieces, last = _pieces(part)
                for piece in pieces:
                    await self._write([piece], [], None)
                await self._write([last], [], record)
            except OrtooError as error:
                missing.add(part.packet_id)
                part.done(error)
            else:
                part.done(None)
        if job.record is not None:
            await self._save(job.record.publish(frozenset(missing)), acks)
            job.record.done()
        _tell_saved(job)

    async def _capture(self, part: Part) -> None:
        """What queues capture, one by one."""
        captured, part.captured = part.captured, ()
        for item in captured:
            alone = Part()
            alone.capture(item)
            try:
                await self._write([alone], [], None)
            except OrtooError as error:
                self._missed(error)

    async def _save(self, record: Publish, acks: list[Run]) -> None:
        """Nothing of the session is promised before it is saved, so this is tried until it succeeds. With what the client has
        received: what the record does not know any more must not come again."""
        pause = _PAUSE_SECONDS
        while True:
            try:
                await self._commit_lasting(acks, [record])
                return
            except OrtooError as error:
                _log.warning("a session cannot be saved, trying again", extra={"error": str(error)})
                await asyncio.sleep(pause)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    async def _write(self, parts: list[Part], acks: list[Run], record: Publish | None) -> None:
        _drop_unwanted(parts)
        publishes = _to_publishes(parts)
        captured = to_publishes([item for part in parts for item in part.captured])
        if publishes or captured:
            publishes = await self._prepare(publishes, captured)
        if _drop_unwanted(parts):  # which may have taken its time, the first time
            publishes = await self._prepare(_to_publishes(parts), captured)
        publishes += [part.retained for part in parts if part.retained is not None]
        if record is not None:
            publishes.append(record)
        await self._commit_lasting(acks, publishes)

    async def _commit_lasting(self, acks: list[Run], publishes: list[Publish]) -> None:
        try:
            await self._storage.commit(acks, publishes)
        except LeaseLostError:  # what was lost comes again, and the session knows it by its reference
            await self._storage.ack(acks, is_tried=False)
            await self._storage.commit([], publishes)


def _drop_unwanted(parts: list[Part]) -> int:
    unwanted = [part for part in parts if part.is_wanted is not None and not part.is_wanted()]
    for part in unwanted:
        part.drop()
    return len(unwanted)


def _tell_saved(job: Job) -> None:
    if job.saved is not None:
        job.saved()


def _pieces(part: Part) -> list[Part]:
    """What is too much for one commit, and itself at last with what is left."""
    pieces: list[Part] = []
    piece, size = Part(), 0
    for item in part.items:
        if len(piece.items) >= _AT_ONCE or (piece.items and size + len(item.value) > _BYTES_AT_ONCE):
            pieces.append(piece)
            piece, size = Part(), 0
        piece.items.append(item)
        size += len(item.value)
    part.items = piece.items
    return [*pieces, part]


def _to_publishes(parts: list[Part]) -> list[Publish]:
    plain = [part for part in parts if isinstance(part, QueuePart) and part.is_plain]
    if len(plain) < len(parts):
        return to_publishes([item for part in parts for item in part.all_items()])
    values: dict[TopicName, list[bytes]] = {}
    for part in plain:
        values.setdefault(part.topic, []).extend(part.payloads)
    return [Publish(topic, to_outgoing(some)) for topic, some in values.items()]


def to_publishes(items: list[Item]) -> list[Publish]:
    """One for each topic, in the order of the messages."""
    by_topic: dict[TopicName, list[Item]] = {}
    for item in items:
        found = by_topic.get(item.topic)
        if found is None:
            by_topic[item.topic] = [item]
        else:
            found.append(item)
    return [publish_of(topic, some) for topic, some in by_topic.items()]


def publish_of(topic: TopicName, items: list[Item]) -> Publish:
    """InvalidError where no topic would take one of them."""
    values = [item.value for item in items]
    flags = [item.json for item in items]
    return Publish(topic, build_outgoing(items, values, flags if any(flags) else None))
