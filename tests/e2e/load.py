"""A mixed load on a queue, everything of it written down, and the calm end in which every group takes all there is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from ortoo import ExistsError, LeaseLostError, Message, Queue, Received
from ortoo.broker import Broker
from ortoo.stores.disk import DiskStore, RealDisk
from ortoo.stores.disk.lock import DirectoryLock
from ortoo.testing import ManualClock

from .journal import (
    GROUPS,
    ORDERINGS,
    AllCalm,
    Committing,
    Ended,
    Journal,
    Row,
    Sending,
    Settling,
    Staging,
    Took,
    Transacting,
)

KEYS = ["a", "b", "c", "d", None]
_FOREVER = 1e9


async def make_topics(queue: Queue) -> None:
    for topic, ordering in ORDERINGS.items():
        await queue.create_topic(
            topic,
            partitions=3 if ordering == "key" else 2,
            ordering=ordering,
            lease=0.3,
            max_attempts=1_000_000,
            backoff_initial=0.05,
            backoff_max=0.1,
            total_timeout=_FOREVER,
            dedup_window=_FOREVER,
            retention_seconds=None,
        )
        known = [group.name for group in await queue.groups(topic)]
        for group in GROUPS:
            if group not in known:
                await queue.create_group(topic, group)


class Load:
    """Producers and consumers that never stop by themselves. `name` keeps the values of two runs apart."""

    def __init__(self, queue: Queue, journal: Journal, random: Random, name: str, pause: float = 0.0) -> None:
        self.queue = queue
        self.journal = journal
        self.random = random
        self.name = name
        self.pause = pause
        self._values = 0

    async def run(self) -> None:
        await make_topics(self.queue)
        await make_sure(self.queue, self.journal)
        async with asyncio.TaskGroup() as tasks:
            for topic in ORDERINGS:
                tasks.create_task(self._produce(topic))
                for group in GROUPS:
                    tasks.create_task(self._consume(topic, group))

    # -- producing

    def _row(self, topic: str, dedup: bool) -> Row:
        self._values += 1
        value = f"{self.name}-{self._values}"
        return Row(
            topic,
            value,
            self.random.choice(KEYS),
            self.random.choice([5, 5, 5, 0, 9]),
            self.random.choice([None, None, None, None, 0.02, 0.2]),
            f"id-{value}" if dedup else None,
        )

    def _rows(self, topic: str, count: int) -> list[Row]:
        dedup = self.random.random() < 0.4
        return [self._row(topic, dedup) for _ in range(count)]

    async def _produce(self, topic: str) -> None:
        while True:
            roll = self.random.random()
            if roll < 0.3:
                await asyncio.gather(*(send(self.queue, self.journal, self._rows(topic, 1)) for _ in range(4)))
            elif roll < 0.85:
                await send(self.queue, self.journal, self._rows(topic, self.random.randint(1, 12)))
            else:
                await self._stage()
            await asyncio.sleep(self.pause)

    async def _stage(self) -> None:
        rows = [row for topic in ORDERINGS for row in self._rows(topic, 2)]
        number = self.journal.next_number()
        staging = Staging(number, f"{self.name}-tx-{number}", rows)
        self.journal.write(staging)
        transaction = await self.queue.begin(staging.name)
        for row in rows:
            await transaction.publish_many(row.topic, [_message(row)])
        if self.random.random() < 0.2:
            await transaction.abort()
            self.journal.write(Ended(number, "failed"))
        elif self.random.random() < 0.9:  # else it stays open, and nothing of it is ever seen
            self.journal.write(Committing(number))
            await transaction.commit()
            self.journal.write(Ended(number, "ok"))

    # -- consuming

    async def _consume(self, topic: str, group: str) -> None:
        while True:
            count = self.random.randint(1, 20)
            messages: Sequence[Received] = await self.queue.lease(topic, group=group, max_messages=count, wait=0.1)
            took(self.journal, messages)
            while messages:
                count = self.random.randint(1, len(messages))
                chosen, messages = messages[:count], messages[count:]
                await self._finish(topic, group, chosen)
            await asyncio.sleep(self.pause)

    async def _finish(self, topic: str, group: str, messages: Sequence[Received]) -> None:
        roll = self.random.random()
        if roll < 0.70:
            await settle(self.queue, self.journal, "ack", messages)
        elif roll < 0.80:
            await settle(self.queue, self.journal, "nack", messages[:1])  # of several of a key only the first counts
            await settle(self.queue, self.journal, "ack", messages[1:])
        elif roll < 0.84:
            await settle(self.queue, self.journal, "release", messages)
        elif roll < 0.87:
            await settle(self.queue, self.journal, "reject", messages[:1])
        elif roll < 0.97:
            await self._transact(topic, group, messages)
        # else they are left to run out

    async def _transact(self, topic: str, group: str, messages: Sequence[Received]) -> None:
        number = self.journal.next_number()
        rows = self._rows(self.random.choice(list(ORDERINGS)), 2) + self._rows(topic, 1)
        self.journal.write(Transacting(number, topic, group, [m.value.decode() for m in messages], rows))
        try:
            async with self.queue.transaction() as tx:
                tx.ack(messages)
                for row in rows:
                    tx.publish_many(row.topic, [_message(row)])
        except LeaseLostError:
            self.journal.write(Ended(number, "failed"))
        else:
            self.journal.write(Ended(number, "ok"))


def _message(row: Row) -> Message:
    return Message(
        row.value.encode(),
        key=row.key,
        priority=row.priority,
        delay=row.delay,
        dedup_id=row.dedup_id,
        headers={"h": "1"},
    )


async def send(queue: Queue, journal: Journal, rows: list[Row], number: int | None = None) -> None:
    if number is None:
        number = journal.next_number()
        journal.write(Sending(number, rows))
    if len(rows) == 1:
        row = rows[0]
        await queue.publish(
            row.topic, row.value, key=row.key, priority=row.priority, delay=row.delay, dedup_id=row.dedup_id
        )
    else:
        await queue.publish_many(rows[0].topic, [_message(row) for row in rows])
    journal.write(Ended(number, "ok"))


async def make_sure(queue: Queue, journal: Journal) -> None:
    """What a producer does that starts again: what it is not sure of is sent and committed once more."""
    for sending in journal.unsure_sendings():
        await send(queue, journal, sending.rows, sending.number)
    sure = journal.sure_sendings()
    for sending in sure[:5] + sure[-5:]:  # and one that was told of its success may have forgotten it
        await queue.publish_many(sending.rows[0].topic, [_message(row) for row in sending.rows])
    for staging in journal.unsure_commits():
        try:
            await (await queue.begin(staging.name)).commit()
        except ExistsError as error:
            if "committed already" not in str(error):
                raise
        journal.write(Ended(staging.number, "ok"))


async def settle(queue: Queue, journal: Journal, how: str, messages: Sequence[Received]) -> None:
    if not messages:
        return
    first, number = messages[0], journal.next_number()
    assert first.group is not None
    journal.write(Settling(number, how, first.topic, first.group, [message.value.decode() for message in messages]))
    lost: list[str] = []
    try:
        await getattr(queue, how)(messages)
    except LeaseLostError as error:
        lost = [message.value.decode() for message in messages if message.receipt in error.lost]
    journal.write(Ended(number, "ok", lost))


def took(journal: Journal, messages: Sequence[Received]) -> None:
    for message in messages:
        assert message.group is not None
        place = (message.partition, message.offset)
        value = message.value.decode()
        journal.write(Took(message.topic, message.group, value, message.id, message.key, place, message.attempt))


# -- the end


async def drain(root: Path, journal: Journal) -> dict[str, object]:
    """Opens the directory, takes all there is, opens it once more, and tells everything that is wrong."""
    clock = ManualClock(time.time())
    async with open_calm(root, clock) as queue:
        problems = [problem for problem in (await queue.stats()).problems if "were never confirmed" not in problem]
        if problems:
            return {"problems": problems}
        await make_topics(queue)
        await make_sure(queue, journal)
        journal.write(AllCalm())
        clock.jump(86_400.0)  # every lease has run out, every delay is over
        for topic in ORDERINGS:
            for group in GROUPS:
                await _drain_group(queue, clock, journal, topic, group)
    async with open_calm(root, clock) as queue:
        clock.jump(86_400.0)
        letters: dict[str, list[tuple[str, str]]] = {}
        for topic in ORDERINGS:
            for group in GROUPS:
                took(journal, await queue.lease(topic, group=group, max_messages=1000))  # nothing, or it is judged
            dead = await queue.dead_letters(topic, limit=1_000_000)
            letters[topic] = [(letter.headers["ortoo-group"], letter.value.decode()) for letter in dead]
    return journal.faults(letters)


async def _drain_group(queue: Queue, clock: ManualClock, journal: Journal, topic: str, group: str) -> None:
    for _ in range(1000):
        messages = await queue.lease(topic, group=group, max_messages=1000)
        took(journal, messages)
        await settle(queue, journal, "ack", messages)
        if not messages:
            info = await queue.group(topic, group)
            if info.backlog == 0:
                return
            await clock.advance(60.0)
    raise AssertionError(f"{topic}, {group}: never empty: {info}")


def open_calm(root: Path, clock: ManualClock) -> Queue:
    store = DiskStore(RealDisk(root), checkpoint_bytes=50_000, in_threads=False, lock=DirectoryLock(root))
    return Queue(Broker(store, clock))
