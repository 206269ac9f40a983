"""A seeded simulation of the whole broker on a faulty store or disk: everything random comes from one number.

    python -m ortoo.testing.simulator --seed 42                    a store that fails
    python -m ortoo.testing.simulator --seed 42 --on disk          the disk store, on a disk that fails
    python -m ortoo.testing.simulator --seed 42 --crash "7 after"  the process dies after its 7th append (or write), then goes on

Producers, consumers, time and faults are steps drawn from the seed. At the end nothing fails any more, every group drains,
and the recorded history is judged (history.py). On disk there is more: an encrypted topic, one that is purged, deleted and
trimmed, one that is damaged; and whatever is recovered is compared with what was confirmed (folded.py).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import product
from random import Random
from typing import Any

from ortoo.broker import Broker
from ortoo.client import Messages, Queue
from ortoo.model.errors import (
    ConfigError,
    ExistsError,
    FullError,
    LeaseLostError,
    OrtooError,
    StoreFailedError,
    UnavailableError,
)
from ortoo.model.message import Message, Received

from .clock import ManualClock, settle
from .crash import kill
from .history import Delivered, Drained, Event, Finished, Outcome, Sent, Verdict, judge, outcome_of
from .scratch import scratch
from .simulated_disk import SimulatedCrash
from .states import States
from .worlds import On, World, world_on

FRAIL, SCRATCH, SECRET = "frail", "scratch", "secret"  # damaged; purged, deleted and trimmed; encrypted
STATE = "state"  # keeps the latest message of each key
TOPIC, GROUPS, KEYS = "sim", ["g1", "g2"], ["a", "b", "c", None]
_NEVER_GIVE_UP = 1_000_000
_BOOTS_MAX = 200  # one after the other, whatever fails
_STEPS = ("publish", "lease", "finish", "transact", "commit", "pass_time", "again", "scratch")


class Simulation:
    def __init__(
        self,
        seed: int,
        steps: int = 120,
        crash: tuple[int, str] | None = None,
        ordering: str | None = None,
        on: On = "store",
        make_world: Callable[[Random, ManualClock], World] | None = None,  # as durable as a disk
    ) -> None:
        self.seed = seed
        self.steps = steps
        self.random = Random(seed)  # noqa: S311  the same seed has to give the same run
        self.states = States(Random(seed + 1))  # noqa: S311
        self.ordering = ordering or self.random.choice(["none", "key", "key", "partition", "strict"])
        self.clock = ManualClock()
        self.is_on_disk = on == "disk" or make_world is not None
        self.world = (make_world or partial(world_on, on, crash))(self.random, self.clock)
        self.topics = [TOPIC]  # those that messages are sent to now
        self.history: list[Event] = []
        self.number = 0
        self.held: dict[str, list[Received]] = {group: [] for group in GROUPS}
        self.delayed: set[bytes] = set()
        self.sent_to: dict[object, str] = {}  # topic by value: what is sent again must go to the same
        self.unsure: list[Message] = []  # published with a dedup id, outcome unknown: to be sent again
        self.broken: list[str] = []
        self.broker: Broker
        self.queue: Queue
        self.tasks: dict[asyncio.Task[None], None] = {}  # a set would have another order in each run

    async def run(self) -> Verdict:
        await self._boot()
        for _ in range(self.steps):
            await self._step()
            if self.world.crashed.is_set():
                await self._reboot()
            elif self.is_on_disk and self.random.random() < 0.02:
                await self._restart()
        await self._drain()
        verdict = judge(self.history, GROUPS)
        verdict.broken = self.broken
        return verdict

    async def _boot(self) -> None:
        """A new process on the same store. Booting itself may fail or crash, too."""
        for _ in range(_BOOTS_MAX):
            self.world.crashed.clear()
            self.broker = Broker(self.world.boot(), self.clock)
            self.queue = Queue(self.broker, consumer="sim")
            try:
                opening = asyncio.create_task(self._open())
                crash = asyncio.create_task(self.world.crashed.wait())
                await asyncio.wait([opening, crash], return_when=asyncio.FIRST_COMPLETED)
                crash.cancel()
                if opening.done():
                    return opening.result()
                opening.cancel()
                await asyncio.gather(opening, return_exceptions=True)
            except (OSError, OrtooError, SimulatedCrash):
                pass
            await kill(self.broker)
            self.world.power_off()
        raise AssertionError(f"seed {self.seed}: it does not open any more")

    async def _open(self) -> None:
        await self.queue.open()
        if self.is_on_disk:
            with suppress(UnavailableError):  # quarantined
                await self.queue.create_topic(FRAIL, partitions=1, ordering="none", retention_seconds=None)
        await self._create(TOPIC)
        await self.queue.create_topic(STATE, partitions=2, keep="latest", lease=20.0, retention_seconds=None)
        if self.is_on_disk:
            await self._open_more()

    async def _create(self, topic: str, encrypted: bool = False) -> None:
        await self.queue.create_topic(
            topic,
            partitions=1 if self.ordering == "strict" else 3,
            ordering=self.ordering,
            lease=20.0,
            max_attempts=_NEVER_GIVE_UP,
            total_timeout=1e9,  # the clock jumps by days, and nothing may end but by the consumers' doing
            dedup_window=1e9,
            retention_seconds=None,
            encrypted=encrypted,
        )

    async def _open_more(self) -> None:
        with suppress(ExistsError):  # by publishing, after it was deleted
            await self.queue.create_topic(SCRATCH, ordering="none", retention_seconds=60.0, dedup_window=1e9)
        self.topics = [TOPIC]
        try:
            await self._create(SECRET, encrypted=True)
        except (ConfigError, UnavailableError) as error:  # this life has no key
            if isinstance(error, StoreFailedError):
                raise
        else:
            self.topics.append(SECRET)

    async def _restart(self) -> None:
        """Closes the queue properly; then the power goes all the same."""
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        closing = asyncio.create_task(self.broker.close(checkpoint=self.random.random() < 0.5))
        crash = asyncio.create_task(self.world.crashed.wait())
        await asyncio.wait([closing, crash], return_when=asyncio.FIRST_COMPLETED)
        crash.cancel()
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await self._reboot()

    async def _reboot(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()
        await kill(self.broker)
        self.world.power_off()
        self.held = {group: [] for group in GROUPS}
        await self._boot()

    async def _step(self) -> None:
        scratch = 25 if self.is_on_disk else 0
        act = self.random.choices(_STEPS, [30, 30, 30, 8, 8, 15, 10, scratch])[0]
        if self.states.is_next():
            self._begin(self.states.step(self.queue, STATE))
        task = self._begin(getattr(self, f"_{act}")())
        if self.random.random() < 0.7:  # sometimes several at a time, so that they share a commit
            await settle(12)
            if task.done() and not self.world.crashed.is_set():
                task.result()

    def _begin(self, step: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(step)
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done, None))
        return task

    # -- steps

    def _topic(self) -> str:
        return self.topics[0] if len(self.topics) == 1 else self.random.choice(self.topics)

    async def _scratch(self) -> None:
        """What comes of these is judged by what is recovered."""
        try:
            await scratch(self.queue, self.random, SCRATCH, FRAIL)
        except OrtooError as error:
            outcome_of(error)

    def _message(self, key: str | None = None, delay: float | None = None) -> Message:
        self.number += 1
        value = b"m%d" % self.number
        dedup_id = f"d{self.number}" if self.random.random() < 0.3 else None
        if delay:
            self.delayed.add(value)
        return Message(value, key=key, priority=self.random.choice([5, 5, 0, 9]), delay=delay, dedup_id=dedup_id)

    async def _publish(self) -> None:
        delay = self.random.choice([None, None, None, 0.5, 40.0])
        messages = [self._message(self.random.choice(KEYS), delay) for _ in range(self.random.randint(1, 4))]
        await self._send(messages)

    async def _again(self) -> None:
        if self.unsure:
            await self._send([self.unsure.pop(0)])

    async def _send(self, messages: list[Message]) -> None:
        outcome: Outcome = "unknown"
        topic = self.sent_to.get(messages[0].value) or self._topic()
        self.sent_to.update((message.value, topic) for message in messages)
        try:
            await self.queue.publish_many(topic, messages)
            outcome = "ok"
        except OrtooError as error:
            outcome = outcome_of(error)
        finally:
            self._sent(messages, outcome)
            self.unsure += [one for one in messages if outcome != "ok" and one.dedup_id is not None]

    def _sent(self, messages: list[Message], outcome: Outcome) -> None:
        for message in messages:
            assert isinstance(message.value, bytes)
            self.history.append(Sent(message.value, outcome, message.dedup_id))

    async def _lease(self) -> None:
        group = self.random.choice(GROUPS)
        topic, count, wait = self._topic(), self.random.randint(1, 5), self.random.choice([0, 0, 5.0])
        try:
            messages = await self.queue.lease(topic, group=group, max_messages=count, wait=wait)
        except OrtooError:
            return
        self._took(group, messages)

    def _took(self, group: str, messages: Messages) -> None:
        for message in messages:
            place, late = (message.partition, message.offset), message.value in self.delayed
            line = {"none": None, "key": message.key}.get(self.ordering, "")
            line = f"{message.topic} {line}" if line is not None else None
            self.history.append(Delivered(group, message.value, message.id, line, place, message.attempt, late))
            self.held[group].append(message)

    async def _finish(self) -> None:
        group = self.random.choice(GROUPS)
        if not (held := self.held[group]):
            return
        count = self.random.randint(1, len(held))
        chosen, self.held[group] = held[:count], held[count:]
        how = self.random.choice(["ack", "ack", "ack", "nack", "release", "reject"])
        outcome: Outcome = "unknown"
        lost: set[str] = set()
        try:
            await getattr(self.queue, how)(chosen)
            outcome = "ok"
        except LeaseLostError as error:
            lost, outcome = set(error.lost), "ok"
        except OrtooError as error:
            outcome = outcome_of(error)
        finally:
            for message in chosen:
                self._finished(group, message, how, "failed" if message.receipt in lost else outcome)

    def _finished(self, group: str, message: Received, how: str, outcome: Outcome) -> None:
        # A nack of a later message of a key is a revocation, which counts no attempt; only the first can be judged.
        counted = how != "nack" or self.ordering == "none"
        self.history.append(Finished(group, message.value, how if counted else "release", outcome))  # type: ignore[arg-type]

    async def _transact(self) -> None:
        group = self.random.choice(GROUPS)
        if not self.held[group]:
            return
        message, new = self.held[group].pop(0), self._message()
        outcome: Outcome = "unknown"
        try:
            async with self.queue.transaction() as tx:
                tx.ack(message)
                tx.publish_many(self._topic(), [new])
            outcome = "ok"
        except OrtooError as error:
            outcome = outcome_of(error)
        finally:
            self._finished(group, message, "ack", outcome)
            self._sent([new], outcome)

    async def _commit(self) -> None:
        """A named transaction over all topics. What is not committed is never seen."""
        batches = [(self._topic(), [self._message(self.random.choice(KEYS)) for _ in range(3)]) for _ in range(4)]
        outcome: Outcome = "failed"
        try:
            tx = await self.queue.begin(f"tx{self.number}")
            for topic, messages in batches:
                await tx.publish_many(topic, messages)
            outcome = "unknown"
            await tx.commit()
            outcome = "ok"
        except OrtooError as error:
            outcome = outcome_of(error) if outcome == "unknown" else "failed"
        finally:
            self._sent([message for _, messages in batches for message in messages], outcome)

    async def _pass_time(self) -> None:
        if self.random.random() < 0.15:
            self.clock.jump(self.random.choice([-3600.0, -5.0, 5.0, 86_400.0]))
        else:
            await self.clock.advance(self.random.choice([0.001, 0.4, 3.0, 25.0, 90.0]))

    # -- the end

    async def _drain(self) -> None:
        self.world.calm()
        await self.clock.advance(60.0)
        await settle(2_000)  # a recovery that began then takes a few turns for each of the many small segments
        if (refusal := self.broker.refusal) is not None and not self.world.crashed.is_set():
            self.broken.append(f"it does not come back: {refusal}")
        await self._reboot()
        await self._settle_store()
        unsure, self.unsure = self.unsure, []
        for one in unsure:
            await self._send([one])
        self.broken += [f"{one.value!r} is refused, though nothing fails any more" for one in self.unsure]
        self.history.append(Drained())
        # However far the clock was set back: what waits must come due.
        behind = self.broker.now() - self.clock.now_ms()
        self.clock.jump(behind / 1000 + 86_400.0)
        for group, topic in product(GROUPS, self.topics):
            empty = 0
            while empty < 5:
                await self.clock.advance(400.0)
                messages = await self.queue.lease(topic, group=group, max_messages=1000)
                self._took(group, messages)
                await self.queue.ack(messages)
                for message in messages:
                    self._finished(group, message, "ack", "ok")
                empty = 0 if messages else empty + 1
        self.broken += await self.states.judge(self.queue, STATE)
        await self.queue.close()
        await self._boot()  # and once more, to see what is left
        self.broken += await self.states.judge(self.queue, STATE)
        await self._settle_store()
        self.broken += self.world.complaints()
        await self.queue.close()

    async def _settle_store(self) -> None:
        """The disk is filled up, room is made, and what is due gets the time it needs."""
        if not self.is_on_disk:
            return
        with suppress(FullError):
            for _ in range(100):
                await self.queue.publish(SCRATCH, self.random.randbytes(8_000))
        await self.queue.delete_topic(SCRATCH)
        for _ in range(4):
            await self.clock.advance(100.0)
            while self.world.is_busy:
                await settle()


def simulate(
    seed: int, steps: int = 120, crash: tuple[int, str] | None = None, ordering: str | None = None, on: On = "store"
) -> Verdict:
    """Runs one simulation; AssertionError with the seed and the line that repeats it when the verdict is not clean."""
    simulation = Simulation(seed, steps, crash, ordering, on)
    verdict = asyncio.run(simulation.run())
    if not verdict.is_valid:
        again = f"python -m ortoo.testing.simulator --on {on} --seed {seed} --steps {steps}"
        again += f' --crash "{crash[0]} {crash[1]}"' if crash else ""
        again += f" --ordering {ordering}" if ordering else ""
        raise AssertionError(f"seed {seed} ({simulation.ordering} order): {verdict.faults()}\nrepeat it with: {again}")
    return verdict


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m ortoo.testing.simulator", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--on", choices=["store", "disk"], default="store", help="what fails: the store, or its disk")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds, from --seed on")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--ordering", choices=["none", "key", "partition", "strict"])
    parser.add_argument("--crash", help='the append or operation to die at: "7 before", "7 after"; on disk "7 full"')
    options = parser.parse_args(arguments)
    number, when = options.crash.split() if options.crash else ("0", "")
    for seed in range(options.seed, options.seed + options.runs):
        verdict = simulate(seed, options.steps, (int(number), when) if when else None, options.ordering, options.on)
        sys.stdout.write(f"seed {seed}: {verdict.published} published, {verdict.delivered} delivered, 0 lost\n")


if __name__ == "__main__":
    main()
