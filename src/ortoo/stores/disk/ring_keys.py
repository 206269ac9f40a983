"""What can be asked about the keys of a store, whatever it keeps them for: which there are, and a new one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ortoo.model.errors import ExistsError
from ortoo.model.keys import KeyInfo, KeysInfo, KeyUse, Reencryption, RotatedKey

from .crypto import KeyRing
from .key_file import add_key

Run = Callable[..., Awaitable[Any]]


class RingKeys:
    """`run` does work in a thread."""

    def __init__(self, ring: KeyRing, run: Run) -> None:
        self._ring, self._run = ring, run
        self._rotated: RotatedKey | None = None  # the last one

    def _told(self, uses: list[KeyUse] | None, reencryption: Reencryption | None) -> KeysInfo:
        known, current = self._ring.names, self._ring.current
        needed = dict.fromkeys([*known, *(use.key for use in uses or ())])
        keys = [KeyInfo(name, name in known, name == current) for name in needed]
        return KeysInfo(self._ring.kind, self._ring.advice, keys, uses, reencryption)

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
