"""The memory of the engine's state: what it keeps for messages that are pending, and for topics, partitions and groups that
nobody uses now. Values are not part of it.

Each measurement has a process of its own, `python -m bench.memory KIND COUNT`, whose resident set is read before and after.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from ortoo.engine import Engine
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Command, CreateGroup, CreateTopic, Lease, Publish
from ortoo.model.limits import PARTITIONS_MAX
from ortoo.model.names import TopicName
from ortoo.model.topic import TopicConfig

from .figures import Figure, Unit
from .loads import KEYS

_STATM = Path("/proc/self/statm")
_TOPIC = TopicName("default", "bench")


class Kind(msgspec.Struct, frozen=True):
    """A way to fill an engine: a batch each millisecond. Time must pass, because the engine remembers instants."""

    batch: int
    make: Callable[[int], Outgoing]  # the batch that starts with this message
    share: float = 1.0  # of the messages asked for; where batches are small, fewer tell as much


_HUNDRED = [b"x"] * 100
KINDS = {
    "plain": Kind(100, lambda _: Outgoing(_HUNDRED)),
    "one message a ms": Kind(1, lambda _: Outgoing([b"x"]), share=0.05),
    "100,000 keys": Kind(100, lambda start: Outgoing(_HUNDRED, [f"u{n % KEYS}" for n in range(start, start + 100)])),
    "all keys distinct": Kind(100, lambda start: Outgoing(_HUNDRED, [f"u{n}" for n in range(start, start + 100)])),
}


def _make_topics(engine: Engine, count: int) -> None:
    for number in range(count):
        _submit(engine, CreateTopic(TopicName("default", f"t{number}"), TopicConfig()), 0)


def _make_partitions(engine: Engine, count: int) -> None:
    for number in range(count // PARTITIONS_MAX):
        _submit(engine, CreateTopic(TopicName("default", f"t{number}"), TopicConfig(partitions=PARTITIONS_MAX)), 0)


def _make_groups(engine: Engine, count: int) -> None:
    """Of topics with the usual partitions, whose own cost is spread over a thousand groups each."""
    for number in range(count):
        topic = TopicName("default", f"t{number // 1000}")
        if number % 1000 == 0:
            _submit(engine, CreateTopic(topic, TopicConfig()), 0)
        _submit(engine, CreateGroup(topic, f"g{number}"), 0)


THINGS: dict[str, Callable[[Engine, int], None]] = {
    "a topic": _make_topics,
    "a partition": _make_partitions,
    "an idle group": _make_groups,
}
_THINGS_COUNT = 10_000


def is_measurable() -> bool:
    return _STATM.exists()


def state_memory(kind: str, count: int) -> list[Figure]:
    count = int(count * KINDS[kind].share) if kind in KINDS else _THINGS_COUNT
    command = [sys.executable, "-m", "bench.memory", kind, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    unit: Unit = "bytes/message" if kind in KINDS else "bytes"
    return [Figure(f"state, {kind}", "memory", float(done.stdout) / count, unit)]


def measure(kind: str, count: int) -> int:
    """How many bytes the process grows by when an engine has `count` messages pending, a few of them leased."""
    engine, filling = Engine(), KINDS[kind]
    _submit(engine, Publish(_TOPIC, Outgoing([b"x"])), 0)  # the topic itself is not the messages' cost
    before = _resident_bytes()
    for now, start in enumerate(range(0, count, filling.batch)):
        _submit(engine, Publish(_TOPIC, filling.make(start)), now)
    _submit(engine, Lease(topic=_TOPIC.name, group="bench", consumer="bench", max_messages=1000), count)
    return _resident_bytes() - before


def measure_things(kind: str, count: int) -> int:
    engine = Engine()
    before = _resident_bytes()
    THINGS[kind](engine, count)
    return _resident_bytes() - before


def _submit(engine: Engine, command: Command, now: int) -> None:
    for record in engine.decide(command, now).records:
        engine.apply(record)
        engine.confirm(record)


def _resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed but kept for later is not in use
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print((measure_things if sys.argv[1] in THINGS else measure)(sys.argv[1], int(sys.argv[2])))
