"""A store on PostgreSQL with a spill, whose database is away when a test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from ortoo.model.records import Record
from ortoo.stores.disk import KeyRing
from ortoo.stores.postgres import PostgresStore, parse_address
from ortoo.stores.postgres.errors import DatabaseError
from ortoo.stores.postgres.spill import Spill
from ortoo.stores.postgres.writing import Commit


class UnsteadyStore(PostgresStore):
    """`is_away` is asked before each commit, and before each try to connect again; not while it recovers. What the database has
    can be read."""

    def __init__(
        self, url: str, folder: Path, ring: KeyRing | None = None, limit: int = 1 << 30, **options: Any
    ) -> None:
        address = parse_address(url)
        super().__init__(address, ring, Spill(folder, address, limit_bytes=limit, file_bytes=1 << 14), **options)
        self.is_away: Callable[[], bool] = lambda: False
        self._is_recovering = False
        send, come_back = self.shard.send, self.shard.come_back

        async def unsteady_send(commit: Commit) -> None:
            self._check()
            await send(commit)

        async def unsteady_come_back() -> None:
            self._check()
            await come_back()

        self.shard.send, self.shard.come_back = unsteady_send, unsteady_come_back  # type: ignore[method-assign]

    def _check(self) -> None:
        if not self._is_recovering and self.is_away():
            raise DatabaseError("the database is away, says the test")

    async def recover(self) -> AsyncIterator[list[Record]]:
        self._is_recovering = True
        try:
            async for records in super().recover():
                yield records
        finally:
            self._is_recovering = False
