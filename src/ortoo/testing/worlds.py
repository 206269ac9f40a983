"""What a simulation runs on: something that fails, crashes, and is started again."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Literal, Protocol

from ortoo.ports import Clock, Store
from ortoo.stores.disk import KeyRing

from .faulty_store import Fault, FaultyStore
from .folded import FoldedStore, Journal
from .simulated_disk import DiskFault, SimulatedCrash, SimulatedDisk

On = Literal["store", "disk"]
KEY = {"key": bytes(32)}
CAPACITY, RESERVE, FILES = 300_000, 20_000, 10
FRAIL_ID, HEAD_AT = 1, 26  # a byte of the checksum of a frame's head
Crash = tuple[int, str] | None


class World(Protocol):
    crashed: asyncio.Event

    def boot(self) -> Store:
        """What a new process opens."""
        ...

    def power_off(self) -> None:
        """The process is gone; what was not durable may be gone, too."""
        ...

    def calm(self) -> None:
        """Nothing fails any more."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether something goes on beside the broker."""
        ...

    def complaints(self) -> list[str]:
        """What is wrong in the end, when nothing fails and nobody does anything."""
        ...


class FaultyWorld:
    def __init__(self, random: Random, crash: Crash) -> None:
        self._random = random
        self._crash = crash
        self._is_calm = False
        self._store = FaultyStore(self._plan)
        self.crashed = self._store.crashed

    def _plan(self, append: int) -> Fault:
        if self._is_calm:
            return "none"
        if self._crash is not None:
            when: Fault = "crash before" if self._crash[1] == "before" else "crash after"
            return when if append == self._crash[0] else "none"
        roll = self._random.random()
        if roll < 0.90:
            return "slow" if roll < 0.15 else "none"
        return self._random.choice(["fail before", "fail after", "crash before", "crash after"])

    def boot(self) -> Store:
        return self._store

    def power_off(self) -> None:
        pass  # the journal is what is durable

    def calm(self) -> None:
        self._is_calm = True

    @property
    def is_busy(self) -> bool:
        return False

    def complaints(self) -> list[str]:
        return []


_DISK_FAULTS: dict[str, DiskFault] = {"before": "crash before", "after": "crash after", "full": "no space"}


class DiskWorld:
    """Crashes at every kind of write, sync and rename; runs out of space and of files for a while; fails to sync; loses the keys
    for a while, gets new ones and re-encrypts; damages what is in the folder of the topic FRAIL. Checkpoints run beside the
    commits."""

    def __init__(self, random: Random, crash: Crash, clock: Clock) -> None:
        self._random = random
        self._crash = crash
        self._clock = clock
        self._is_calm = False
        self._full_until = 0
        self._has_damage = False
        self._store: FoldedStore | None = None
        self._keys = dict(KEY)
        seed = random.getstate()[1][0]
        self._key_random = Random(seed)  # noqa: S311  # of its own, so that the rest of a run is as it was without it
        self.journal = Journal()
        self.crashed = asyncio.Event()
        self.disk = SimulatedDisk(random, self._plan)
        self.operations = 0  # of the disk, while it might have failed

    def _plan(self, operation: int, kind: str) -> DiskFault:
        if self._is_calm:
            return "none"
        if self._crash is not None:
            when: DiskFault = _DISK_FAULTS[self._crash[1]]
            return when if operation == self._crash[0] and (when != "no space" or kind == "append") else "none"
        if operation < self._full_until:
            return "no space" if kind == "append" else "none"
        roll = self._random.random()
        if roll < 0.005:
            return self._random.choice(["crash before", "crash after"])
        if roll < 0.007 and kind == "append":
            self._full_until = operation + self._random.randint(1, 30)
            return "no space"
        if roll < 0.05 and kind == "create":
            return "no file"
        if roll < 0.010 and kind == "sync":
            return "sync fails"
        return "none"

    def boot(self) -> Store:
        self.disk.on_crash = self.crashed.set
        self.disk.capacity, self.disk.files_max = CAPACITY, FILES
        if not self._is_calm and self._crash is None and self._key_random.random() < 0.4:
            self._keys[f"key {len(self._keys)}"] = self._key_random.randbytes(32)
        is_locked = not self._is_calm and self._crash is None and self._random.random() < 0.15
        self._store = FoldedStore(
            self.journal,
            self._random,
            self.disk,
            KeyRing({} if is_locked else self._keys),
            reencrypts_at=self._key_random.choice([1, 5, 20, None]) if self._crash is None else None,
            checkpoint_bytes=self._random.choice([300, 2_000, 100_000]),
            flush_bytes=self._random.choice([0, 1_000, 10_000, 1 << 40]),
            reserve_bytes=RESERVE,
            on_sync_failure=self._sync_failed,
            files_max=3,
            now=lambda: self._clock.now_ms() / 1000,
        )
        return self._store

    def _sync_failed(self, _: OSError) -> None:
        self.crashed.set()
        self.disk.is_off = True
        raise SimulatedCrash

    def power_off(self) -> None:
        if self._store is not None:
            self._store.kill()
        self.disk.power_off()
        if not self._is_calm and self._crash is None and not self._has_damage and self._random.random() < 0.2:
            self._damage()

    def _damage(self) -> None:
        """The head of a segment of the topic that is there for that: it is the first that was made."""
        paths = [
            path for path in sorted(self.disk.names) if path.startswith(f"logs/{FRAIL_ID}/") and path.endswith("g")
        ]
        for path in [path for path in paths if len(self.disk.names[path].now) > HEAD_AT]:
            content = self.disk.names[path]
            content.now[HEAD_AT] ^= 0xFF
            content.durable = bytes(content.now)
            self._has_damage = True

    def calm(self) -> None:
        self._is_calm = True
        self.operations = self.disk.operations

    @property
    def is_busy(self) -> bool:
        return self._store is not None and self._store.is_checkpointing

    def complaints(self) -> list[str]:
        return self._store.complaints() if self._store is not None else []


def world_on(on: On, crash: Crash, random: Random, clock: Clock) -> World:
    return DiskWorld(random, crash, clock) if on == "disk" else FaultyWorld(random, crash)
