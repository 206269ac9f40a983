"""The longest turn of the event loop: nothing else runs meanwhile, so one caller's large queue would be everybody's pause.

What is measured is processor time of the loop's thread, so that other programs on the machine do not count.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import ortoo
from ortoo.app.garbage import freeze_survivors
from ortoo.testing import ManualClock, open_manual

from .figures import Figure
from .large_turns import LARGE
from .settings import Settings
from .turning import BATCH, LATER, TOGETHER, Case, TimedLoop, Turns, end, hold, snapshot

NAME = "turns"


async def _due(turns: Turns, count: int) -> None:
    queue, at = turns.queue, turns.clock.time() + LATER
    await queue.create_group("t", "default")
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", key=f"k{n}", deliver_at=at))
    await turns.watch()
    await turns.clock.advance(LATER)
    await turns.rest()
    assert len(await queue.lease("t", max_messages=100)) == 100


async def _expiring(turns: Turns, count: int) -> None:
    queue = turns.queue
    await queue.create_group("t", "default")
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", key=f"k{n}", ttl=LATER))
    await turns.watch()
    await turns.clock.advance(LATER)
    await turns.rest()
    assert not await queue.lease("t")


async def _polls(turns: Turns, count: int) -> None:
    polls = await turns.crowd(count, "t")
    await turns.watch()
    await turns.queue.publish("t", b"v")
    await turns.rest()
    await turns.stop()
    await end(polls, 1)


async def _labels(turns: Turns, count: int) -> None:
    for number in range(count):
        await turns.queue.create_topic(f"t{number}", labels={"task": "t"})
    await turns.queue.create_topic("other")
    polls = await turns.crowd(20, None, labels={"task": "t"})
    await turns.watch()
    await turns.queue.publish("other", b"v")
    await turns.queue.publish("t0", b"v")
    await turns.rest()
    await turns.stop()
    await end(polls, 1)


async def _topics(turns: Turns, count: int) -> None:
    queue = turns.queue
    for number in range(count):
        await queue.create_topic(f"t{number}", retention_done_seconds=3600)
    await queue.publish("t0", b"v")
    messages = await queue.lease("t0")
    await turns.watch()
    await queue.reject(messages)
    await turns.clock.advance(30)
    await queue.leave("nobody")


async def _partitions(turns: Turns, count: int) -> None:
    queue = turns.queue
    await queue.create_topic("p", partitions=count, retention_bytes=1 << 30, retention_done_seconds=3600)
    await turns.fill("p", 50_000, lambda n: ortoo.Message(b"v" * 100, key=f"k{n}"))
    await turns.watch()
    for _ in range(3):
        await queue.ack(await queue.lease("p", max_messages=100))
    await turns.clock.advance(30)


async def _open_leases(turns: Turns, count: int) -> None:
    queue = turns.queue
    await turns.fill("t", count + 1, lambda n: ortoo.Message(b"v"))
    leased = [await queue.lease("t", lease=3600) for _ in range(count)]
    await turns.watch()
    await queue.reject(leased[count // 2])


async def _message(turns: Turns, count: int) -> None:
    queue = turns.queue
    await queue.create_group("t", "default")
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", key=f"k{n}"))
    sent = await queue.publish("t", b"v", key="last")
    await turns.watch()
    await queue.message(sent.id)


async def _by_key(turns: Turns, count: int) -> None:
    queue = turns.queue
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", key=f"k{n}"))
    await turns.watch()
    for key in (f"k{count - 1}", f"k{count // 2}", "k0"):
        assert len(await queue.lease("t", key=key)) == 1


async def _trace(turns: Turns, count: int) -> None:
    queue = turns.queue
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", delay=LATER + n, ttl=3600.0))
    sent = await queue.publish("t", b"v", delay=LATER)
    await turns.watch()
    await queue.trace(sent.id)


async def _commit(turns: Turns, count: int) -> None:
    queue = turns.queue
    await queue.create_topic("p", partitions=6)
    await queue.begin("tx", timeout=3600)
    named = queue.named("tx", part="a")
    for start in range(0, count, BATCH):
        await named.publish_many("p", [ortoo.Message(b"v", key=f"k{n}") for n in range(start, start + BATCH)])
    await turns.watch()
    await named.commit()


def _settling(outcome: str, together: int = TOGETHER) -> Case:
    async def case(turns: Turns, count: int) -> None:
        held = await hold(turns, count, together)
        await turns.watch()
        await getattr(turns.queue, outcome)(held)
        await turns.rest()

    return case


async def _leaving(turns: Turns, count: int) -> None:
    await hold(turns, count)
    await turns.watch()
    await turns.queue.leave("me")
    await turns.stop()
    assert (await turns.queue.group("t")).ready == count


async def _trim(turns: Turns, count: int) -> None:
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", key=f"k{n}"))
    await turns.queue.lease("t", key="none")  # looks at all of them
    await turns.watch()
    await turns.clock.advance(LATER)
    await turns.rest()
    await turns.stop()
    assert (await turns.queue.topic("t")).messages == 0


async def _ids(turns: Turns, count: int) -> None:
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", dedup_id=f"id{n}"))
    await turns.watch()
    await turns.clock.advance(LATER)
    await turns.rest()


async def _deleted(turns: Turns, count: int) -> None:
    await turns.fill("t", count, lambda n: ortoo.Message(b"v", dedup_id=f"id{n}"))
    await turns.watch()
    await turns.queue.delete_topic("t")
    await turns.rest()


async def _everywhere(turns: Turns, count: int) -> None:
    for number in range(count):
        await turns.queue.create_topic(f"t{number}")
    await turns.watch()
    assert not await turns.queue.lease(labels={})


async def _transactions(turns: Turns, count: int) -> None:
    for number in range(count):
        await turns.queue.begin(f"tx{number}", timeout=LATER)
    await turns.watch()
    await turns.clock.advance(LATER)
    await turns.rest()


async def _failed(turns: Turns, count: int) -> None:
    await turns.queue.nack(await hold(turns, count), delay=3600)
    await snapshot(turns)


async def _many_topics(turns: Turns, count: int) -> None:
    for number in range(count):
        await turns.queue.publish(f"t{number}", b"v")
    await snapshot(turns)


async def _much_of_each(turns: Turns, count: int) -> None:
    await turns.queue.create_topic("p", partitions=count)
    await turns.fill("p", 50_000, lambda n: ortoo.Message(b"v" * 100, key=f"k{n}"))
    await turns.watch()
    for _ in range(3):
        await turns.queue.ack(await turns.queue.lease("p", max_messages=10_000))


async def _seek(turns: Turns, count: int) -> None:
    await turns.queue.ack(await hold(turns, count))
    await turns.watch()
    await turns.queue.seek("t", "default", offset=0, to_offset=count)


CASES: dict[str, tuple[Case, int, dict[str, Any]]] = {
    "100,000 due at one instant": (_due, 100_000, {}),
    "100,000 expire at one instant": (_expiring, 100_000, {}),
    "1,000 long polls, key order": (_polls, 1_000, {"ordering": "key"}),
    "1,000 long polls, partition order": (_polls, 1_000, {"ordering": "partition"}),
    "20 polls by label, 1,000 topics": (_labels, 1_000, {}),
    "5,000 topics": (_topics, 5_000, {}),
    "1,000 partitions": (_partitions, 1_000, {}),
    "4,000 open leases": (_open_leases, 4_000, {}),
    "200,000 keys, one message": (_message, 200_000, {}),
    "200,000 keys, lease by key": (_by_key, 200_000, {}),
    "200,000 delayed, trace": (_trace, 200_000, {}),
    "200,000 staged, commit": (_commit, 200_000, {}),
    "200,000 leased, leave": (_leaving, 200_000, {}),
    "100,000 leased, ack": (_settling("ack"), 100_000, {}),
    "10,000 leased, nack": (_settling("nack"), 10_000, {}),
    "10,000 leased, reject": (_settling("reject"), 10_000, {}),
    "100,000 leased, release": (_settling("release"), 100_000, {}),
    "10,000 leases, ack": (_settling("ack", 1), 10_000, {}),
    "10,000 leases, nack": (_settling("nack", 1), 10_000, {}),
    "200,000 keys, retention": (_trim, 200_000, {"retention_seconds": 30}),
    "200,000 dedup ids, too old": (_ids, 200_000, {"dedup_window": 30}),
    "300,000 dedup ids, delete": (_deleted, 300_000, {"dedup_scope": "namespace"}),
    "3,000 topics, first lease": (_everywhere, 3_000, {}),
    "10,000 transactions time out": (_transactions, 10_000, {}),
    "200,000 failed, snapshot": (_failed, 200_000, {}),
    "5,000 topics, snapshot": (_many_topics, 5_000, {}),
    "200,000 done, some again": (_seek, 200_000, {}),
    "1,000 partitions, 10,000 each time": (_much_of_each, 1_000, {}),
    **LARGE,
}


def _measure(case: Case, count: int, config: dict[str, Any]) -> float:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TimedLoop)
        clock = ManualClock()
        async with open_manual(clock) as queue:
            await queue.create_topic("t", partitions=1, **config)
            turns = Turns(loop, queue, clock)
            await case(turns, count)
            if turns.longest is None:
                await turns.stop()
            assert turns.longest is not None
            return turns.longest

    gc.callbacks.append(freeze_survivors)  # as in a server
    try:
        with asyncio.Runner(loop_factory=TimedLoop) as runner:
            return runner.run(run())
    finally:
        gc.callbacks.remove(freeze_survivors)
        gc.unfreeze()


def scenario(settings: Settings) -> list[Figure]:
    """Of each case the shortest of the repetitions' longest turns."""
    return [
        Figure(NAME, what, min(_measure(*case) for _ in range(settings.repetitions)) * 1000, "ms")
        for what, case in CASES.items()
    ]
