"""The memory of the delivery state: what the engine keeps for messages that are pending. Values are not part of it.

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
from ortoo.model.commands import Command, Lease, Publish
from ortoo.model.names import TopicName

from .figures import Figure
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


def is_measurable() -> bool:
    return _STATM.exists()


def state_memory(kind: str, count: int) -> list[Figure]:
    count = int(count * KINDS[kind].share)
    command = [sys.executable, "-m", "bench.memory", kind, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [Figure(f"state, {kind}", "memory", float(done.stdout) / count, "bytes/message")]


def measure(kind: str, count: int) -> int:
    """How many bytes the process grows by when an engine has `count` messages pending, a few of them leased."""
    engine, filling = Engine(), KINDS[kind]
    _submit(engine, Publish(_TOPIC, Outgoing([b"x"])), 0)  # the topic itself is not the messages' cost
    before = _resident_bytes()
    for now, start in enumerate(range(0, count, filling.batch)):
        _submit(engine, Publish(_TOPIC, filling.make(start)), now)
    _submit(engine, Lease(topic=_TOPIC.name, group="bench", consumer="bench", max_messages=1000), count)
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
    print(measure(sys.argv[1], int(sys.argv[2])))
