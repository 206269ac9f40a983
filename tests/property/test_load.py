"""Is what the sampler looks at, cheaply, what a closer look finds?"""

from __future__ import annotations

from random import Random

import pytest

import ortoo
from ortoo.broker import Broker
from ortoo.client import Queue
from ortoo.engine.timeline import Timeline
from ortoo.engine.view import group_info, group_load, log_load, oldest_pending
from ortoo.stores.memory import MemoryStore
from ortoo.testing import ManualClock

MINUTE_MS = 65_536


@pytest.mark.parametrize("seed", range(8))
async def test_a_load_is_what_a_closer_look_finds(seed: int) -> None:
    random, clock = Random(seed), ManualClock()
    broker = Broker(MemoryStore(), clock)
    async with Queue(broker) as queue:
        await queue.create_topic("jobs", partitions=3, ordering=random.choice(("key", "none", "partition")))
        for number in range(60):
            await clock.advance(random.choice((0.001, 1, 20)))
            match random.randrange(8):
                case 0 | 1 | 2:
                    count = random.randrange(1, 9)
                    messages = [
                        ortoo.Message(b"x", key=str(random.randrange(3)), ttl=random.choice((None, 5)))
                        for _ in range(count)
                    ]
                    await queue.publish_many("jobs", messages)
                case 3 | 4:
                    for message in await queue.lease("jobs", group=random.choice("ab"), max_messages=4):
                        if random.random() < 0.6:
                            await queue.ack(message)
                case 5:
                    found = [message async for message in queue.read("jobs")]
                    if found:
                        await queue.delete_message(random.choice(found).id)
                case 6:
                    await queue.create_group("jobs", f"g{number}", random.choice(("all", "new")))
                case _:
                    if groups := await queue.groups("jobs"):
                        await queue.seek("jobs", random.choice(groups).name, random.choice(("start", "end")))
            [topic] = [one for one in broker.state.topics.values() if one.name.name == "jobs"]
            for group in topic.groups.values():
                info = group_info(group)
                assert group_load(group) == (info.backlog, info.leased, oldest_pending(group))
            assert log_load(topic).backlog == topic.messages()


def test_about_when_a_message_was_published_is_never_off_by_more_than_a_minute() -> None:
    random, timeline, now, times = Random(1), Timeline(), 1_700_000_000_000, []
    for offset in range(20_000):
        now += random.choice((1, 1, 3, 500, 500_000)) if offset % 97 == 0 else 1
        timeline.append(offset, now, 10 * offset)
        times.append(now)
    unpacked = [chunk for chunk in timeline.chunks if chunk.packed is None]
    told = [timeline.about(offset) for offset in range(20_000)]
    assert [chunk for chunk in timeline.chunks if chunk.packed is None] == unpacked
    assert all(not chunk.times for chunk in timeline.chunks if chunk.packed is not None), "nothing is unpacked for it"
    assert len(timeline.chunks) > 10
    assert told == sorted(told)
    assert max(abs(about - time) for about, time in zip(told, times, strict=True)) <= MINUTE_MS
    assert told[-5:] == times[-5:]
