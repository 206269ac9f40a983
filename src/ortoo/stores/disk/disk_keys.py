"""The keys of a directory, for whoever looks after them: what needs which, a new one, and away with the old ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ortoo.model.errors import ConfigError, ExistsError
from ortoo.model.keys import KeyInfo, KeysInfo, RotatedKey
from ortoo.model.names import TopicId

from .catalog import Catalog
from .crypto import KeyRing
from .files import Disk
from .key_file import add_key
from .key_use import count_uses
from .reencryption import Reencryptor, Run
from .wal import Wal


class DiskKeys:
    """`run` does work in the thread that also removes files, so that none vanishes that is being read."""

    def __init__(self, disk: Disk, ring: KeyRing, run: Run, reserve_bytes: int) -> None:
        self._disk, self._ring, self._run = disk, ring, run
        self._reserve_bytes = reserve_bytes
        self._reencryptor: Reencryptor | None = None
        self._rotated: RotatedKey | None = None  # the last one

    def attach(self, catalog: Catalog, wal: Wal, lock: asyncio.Lock, is_settled: Callable[[], bool]) -> None:
        """What there is since the store was opened, or recovered."""
        self._catalog, self._wal, self._lock, self._is_settled = catalog, wal, lock, is_settled

    async def info(self, with_uses: bool) -> KeysInfo:
        uses = await self._run(count_uses, self._disk, self._catalog, self._wal.files) if with_uses else None
        known, current = self._ring.names, self._ring.current
        needed = dict.fromkeys([*known, *(use.key for use in uses or ())])
        return KeysInfo(
            self._ring.kind,
            self._ring.advice,
            [KeyInfo(name, name in known, name == current) for name in needed],
            uses,
            None if self._reencryptor is None else self._reencryptor.info(),
        )

    async def rotate(self, name: str) -> RotatedKey:
        if self._rotated is not None and self._rotated.current == name:
            return self._rotated  # asked for again, for the answer was lost
        ring, previous = self._ring, self._ring.current
        is_made = ring.kind == "file" and name != previous
        if is_made:
            if ring.is_taken(name):
                raise ExistsError(f"there is, or was, an encryption key called {name!r}; give the new one another name")
            await self._run(add_key, ring.file, name)
        await self._run(ring.refresh)
        self._rotated = RotatedKey(ring.current, previous, is_made, ring.advice)
        return self._rotated

    def reencrypt(
        self, topics: Sequence[TopicId] | None, bytes_per_second: int | None, wake: Callable[[], None]
    ) -> None:
        if self._ring.current is None:
            raise ConfigError(f"nothing can be re-encrypted: {self._ring.quarantine_reason}")
        if self._reencryptor is None or not self._reencryptor.is_running:
            self._start(
                Reencryptor(self._disk, self._ring, self._run, topics, bytes_per_second, self._reserve_bytes, wake)
            )

    def _start(self, reencryptor: Reencryptor) -> None:
        self._reencryptor = reencryptor
        reencryptor.attach(self._catalog, self._wal, self._lock, self._is_settled)
        reencryptor.start()

    # -- for the store

    @property
    def is_reencrypting(self) -> bool:
        return self._reencryptor is not None and self._reencryptor.is_running

    @property
    def wants_checkpoint(self) -> bool:
        return self.is_reencrypting and self._reencryptor is not None and self._reencryptor.wants_checkpoint

    def begin_checkpoint(self) -> Reencryptor | None:
        """Who waits for the one that begins now."""
        if self._reencryptor is None or not self.wants_checkpoint:
            return None
        self._reencryptor.checkpoint_begins()
        return self._reencryptor

    async def stop(self) -> Reencryptor | None:
        """What has to go on when the store is opened again."""
        stopped = self._reencryptor if self.is_reencrypting else None
        if stopped is not None:
            await stopped.stop()
        return stopped

    def go_on(self, stopped: Reencryptor | None) -> None:
        if stopped is not None and self._ring.current is not None:
            self._start(stopped.again())
