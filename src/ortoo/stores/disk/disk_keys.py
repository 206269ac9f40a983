"""The keys of a directory, for whoever looks after them: what needs which, a new one, and away with the old ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ortoo.model.errors import ConfigError
from ortoo.model.keys import KeysInfo
from ortoo.model.names import TopicId

from .catalog import Catalog
from .crypto import KeyRing
from .files import Disk
from .key_use import count_uses
from .reencryption import Reencryptor, Run
from .ring_keys import RingKeys
from .wal import Wal


class DiskKeys(RingKeys):
    """`run` does work in the thread that also removes files, so that none vanishes that is being read."""

    def __init__(self, disk: Disk, ring: KeyRing, run: Run, reserve_bytes: int) -> None:
        super().__init__(ring, run)
        self._disk = disk
        self._reserve_bytes = reserve_bytes
        self._reencryptor: Reencryptor | None = None

    def attach(self, catalog: Catalog, wal: Wal, lock: asyncio.Lock, is_settled: Callable[[], bool]) -> None:
        """What there is since the store was opened, or recovered."""
        self._catalog, self._wal, self._lock, self._is_settled = catalog, wal, lock, is_settled

    async def info(self, with_uses: bool) -> KeysInfo:
        uses = await self._run(count_uses, self._disk, self._catalog, self._wal.files) if with_uses else None
        return self._told(uses, None if self._reencryptor is None else self._reencryptor.info())

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
