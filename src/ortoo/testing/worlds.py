"""What a simulation runs on: something that fails, crashes, and is started again."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Literal, Protocol

from ortoo.ports import Store
from ortoo.stores.disk import DiskStore

from .faulty_store import Fault, FaultyStore
from .simulated_disk import DiskFault, SimulatedCrash, SimulatedDisk

On = Literal["store", "disk"]
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


_DISK_FAULTS: dict[str, DiskFault] = {"before": "crash before", "after": "crash after", "full": "no space"}


class DiskWorld:
    """Crashes at every kind of write, sync and rename; runs out of space for a while; fails to sync."""

    def __init__(self, random: Random, crash: Crash) -> None:
        self._random = random
        self._crash = crash
        self._is_calm = False
        self._full_until = 0
        self.crashed = asyncio.Event()
        self.disk = SimulatedDisk(random, self._plan)

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
        if roll < 0.010 and kind == "sync":
            return "sync fails"
        return "none"

    def boot(self) -> Store:
        self.disk.on_crash = self.crashed.set
        return DiskStore(
            self.disk,
            checkpoint_bytes=self._random.choice([300, 2_000, 100_000]),
            reserve_bytes=0,
            on_sync_failure=self._sync_failed,
            in_threads=False,
        )

    def _sync_failed(self, _: OSError) -> None:
        self.crashed.set()
        self.disk.is_off = True
        raise SimulatedCrash

    def power_off(self) -> None:
        self.disk.power_off()

    def calm(self) -> None:
        self._is_calm = True
