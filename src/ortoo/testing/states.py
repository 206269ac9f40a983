"""A topic that keeps the latest message of each key, in a simulation: what is published, and what must be left in the end."""

from __future__ import annotations

from random import Random

import msgspec

from ortoo.client import Queue
from ortoo.model.errors import OrtooError
from ortoo.model.message import Message, Received

from .history import Outcome, outcome_of

_HOT, _KEYS = 4, 40  # keys that are published again and again, and all


class Attempt(msgspec.Struct):
    """To publish a value of a key: between which two moments it happened, if it did."""

    key: str
    began: int
    ended: int | None = None
    outcome: Outcome = "unknown"


class States:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._moment = 0
        self._attempts: dict[bytes, Attempt] = {}

    def is_next(self) -> bool:
        return self._random.random() < 0.4

    def _now(self) -> int:
        self._moment += 1
        return self._moment

    async def step(self, queue: Queue, topic: str) -> None:
        try:
            if self._random.random() < 0.7:
                await self._publish(queue, topic)
            else:
                await self._consume(queue, topic)
        except OrtooError as error:
            outcome_of(error)

    async def _publish(self, queue: Queue, topic: str) -> None:
        keys = self._random.sample(range(_HOT), self._random.randint(1, _HOT))
        keys += [self._random.randrange(_HOT, _KEYS)] * (self._random.random() < 0.3)
        began = self._now()
        values = [b"s%d-%d" % (began, key) + b"." * self._random.choice([0, 0, 200]) for key in keys]
        attempts = [Attempt(f"k{key}", began) for key in keys]
        self._attempts.update(zip(values, attempts, strict=True))
        outcome: Outcome = "unknown"
        try:
            await queue.publish_many(topic, [Message(v, key=f"k{key}") for v, key in zip(values, keys, strict=True)])
            outcome = "ok"
        except OrtooError as error:
            outcome = outcome_of(error)
        finally:
            ended = self._now()
            for attempt in attempts:
                attempt.outcome, attempt.ended = outcome, ended

    async def _consume(self, queue: Queue, topic: str) -> None:
        """Some are held while they are superseded."""
        messages = await queue.lease(topic, max_messages=self._random.randint(1, 6))
        await getattr(queue, self._random.choice(["ack", "nack", "release", "reject", "extend"]))(messages)

    async def judge(self, queue: Queue, topic: str) -> list[str]:
        """What is wrong. Of each key there is one message, and none that ended before a later one began that was confirmed."""
        found: dict[str | None, list[Received]] = {}
        async for message in queue.read(topic):
            found.setdefault(message.key, []).append(message)
        wrong = [f"{topic}: {key} has {len(same)} messages" for key, same in found.items() if len(same) > 1]
        for key in {attempt.key for attempt in self._attempts.values()}:
            confirmed = [one for one in self._attempts.values() if one.key == key and one.outcome == "ok"]
            latest = found.get(key)
            if latest is None:
                wrong += [f"{topic}: {key} is lost"] if confirmed else []
                continue
            attempt = self._attempts[latest[-1].value]
            later = [one for one in confirmed if attempt.ended is not None and one.began > attempt.ended]
            if later or attempt.outcome == "failed":
                wrong.append(f"{topic}: {key} has {latest[-1].value!r}, which is not the latest")
        return wrong
