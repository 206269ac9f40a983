"""Topics that keep the latest message of each key, beside ones that keep all: `python -m bench.latest`.

Both are published to in turns, in one process, so that what disturbs one disturbs the other. The memory is that of the index of
latest messages alone, with 100,000 keys.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from random import Random

import ortoo
from ortoo.engine import Engine
from ortoo.engine.latest import rebuild
from ortoo.engine.topic import Latest
from ortoo.model.batch import Outgoing
from ortoo.model.commands import CreateTopic, Publish
from ortoo.model.names import TopicName
from ortoo.model.topic import Keep, TopicConfig

KEYS = 100_000
ROUNDS = 40
_TOPIC = TopicName("default", "state")
_VALUE = b"v" * 100


async def rates(queue: ortoo.Queue, batch: int, count: int) -> dict[Keep, float]:
    """Messages a second, published in batches of that size, to random ones of 100,000 keys."""
    random, seconds = Random(1), dict[Keep, float](all=0.0, latest=0.0)
    kinds: tuple[Keep, Keep] = ("all", "latest")
    for keep in kinds:
        await queue.create_topic(f"{keep} {batch}", keep=keep, durability="none")
    for turn in range(ROUNDS):
        for keep in kinds if turn % 2 else reversed(kinds):
            batches = [
                [ortoo.Message(_VALUE, key=f"u{random.randrange(KEYS)}") for _ in range(batch)]
                for _ in range(count // batch // ROUNDS)
            ]
            began = time.perf_counter()
            for messages in batches:
                await queue.publish_many(f"{keep} {batch}", messages)
            seconds[keep] += time.perf_counter() - began
    return {"all": count / seconds["all"], "latest": count / seconds["latest"]}


def index_bytes() -> float:
    """Of memory a key."""
    engine = Engine()
    for record in engine.decide(CreateTopic(_TOPIC, TopicConfig(keep="latest")), 0).records:
        engine.apply(record)
    for start in range(0, KEYS, 1000):
        keys: list[str | None] = [f"u{number}" for number in range(start, start + 1000)]
        for record in engine.decide(Publish(_TOPIC, Outgoing([b"x"] * 1000, keys)), start).records:
            engine.apply(record)
            engine.confirm(record)
    topic = engine.state.names[_TOPIC]
    topic.latest = Latest()
    tracemalloc.start()
    rebuild(topic)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(topic.latest.places) == KEYS
    return taken / KEYS


async def main() -> None:
    out = sys.stdout.write
    out(f"index: {index_bytes():.0f} bytes a key\n")
    with tempfile.TemporaryDirectory() as folder:
        for name, queue in (("memory", ortoo.open()), ("disk", ortoo.open(Path(folder) / "data"))):
            async with queue:
                for batch, count in ((1, 40_000), (100, 400_000)):
                    found = await rates(queue, batch, count)
                    ratio = found["latest"] / found["all"]
                    out(
                        f"{name}, in {batch}s: all {found['all']:,.0f}/s, latest {found['latest']:,.0f}/s: {ratio:.2f}\n"
                    )


if __name__ == "__main__":
    asyncio.run(main())
