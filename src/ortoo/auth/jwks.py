"""The keys of an identity provider, from a URL: fetched now and then, and when a token names a key that is not among them.

Anybody can name unknown keys, so that at most one fetch a pause comes of it, however many do. While the URL is away, the last
set is good.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from ortoo.model.errors import ConfigError
from ortoo.model.masking import mask_url

from .fetch import FetchError, check_url, fetch
from .keys import Key, KeySet, parse_jwks

_log = logging.getLogger("ortoo.auth")

FETCH_SECONDS = 5.0
SET_BYTES_MAX = 256 * 1024
PAUSE_SECONDS = 30.0  # between two fetches for unknown keys, and between two tries
REFRESH_SECONDS = 300.0


class JwksUrl:
    def __init__(
        self,
        url: str,
        refresh_seconds: float = REFRESH_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
        fetch_seconds: float = FETCH_SECONDS,
    ) -> None:
        check_url(url)
        self.fetches = 0
        self._url = url
        self._shown = mask_url(url)
        self._refresh_seconds = refresh_seconds
        self._pause_seconds = pause_seconds
        self._fetch_seconds = fetch_seconds
        self._set = KeySet(())
        self._problem: str | None = f"the keys at {self._shown} were not fetched yet"
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def keys(self) -> tuple[Key, ...]:
        return self._set.keys

    def problems(self) -> list[str]:
        failed = [] if self._problem is None else [self._problem]
        return failed + [f"{self._shown}: {skipped}" for skipped in self._set.skipped]

    def want(self) -> None:
        """A token named a key that is not here."""
        self._wanted.set()

    async def start(self, changed: Callable[[], None]) -> None:
        """With the first set, if it can be had; a provider that is away must not keep the server from starting."""
        if self._task is None:
            await self._fetch(changed)
            self._task = asyncio.create_task(self._keep(changed), name="ortoo-jwks")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep(self, changed: Callable[[], None]) -> None:
        while True:
            pause = self._refresh_seconds if self._problem is None else min(self._pause_seconds, self._refresh_seconds)
            try:
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            is_wanted = self._wanted.is_set()
            await self._fetch(changed)
            if is_wanted:
                await asyncio.sleep(self._pause_seconds)

    async def _fetch(self, changed: Callable[[], None]) -> None:
        self._wanted.clear()  # before: a key may be asked for that the answer does not have yet
        self.fetches += 1
        get = partial(fetch, self._url, self._fetch_seconds, SET_BYTES_MAX)
        try:
            async with asyncio.timeout(2 * self._fetch_seconds):  # looking up a name cannot be ended from here
                found = parse_jwks(await asyncio.to_thread(get), with_secrets=False)
        except (FetchError, ConfigError, TimeoutError) as error:
            kept = "; the last ones are used" if self.keys else ""
            self._problem = f"the keys at {self._shown} cannot be had: {str(error) or 'no answer'}{kept}"
            return
        if self._problem is not None:
            _log.info("keys fetched", extra={"url": self._shown, "keys": len(found.keys)})
        self._set, self._problem = found, None
        changed()
