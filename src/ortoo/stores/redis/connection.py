"""A connection to Redis that never holds anybody up for long.

What is asked in one turn of the event loop, and while an answer is on its way, goes in one pipeline. When a call fails or takes
too long, everything that waits is told `AwayError`, and so is whoever asks from then on, at once: nobody but a task of its own
tries whether Redis is back. Each call is a script, which Redis runs as one step.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from redis.asyncio import Redis, Sentinel
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from .address import Address

CONNECT_S, CALL_S = 1.0, 0.5
PROBE_S = 1.0  # between attempts to reach one that is away
CALLS_MAX = 1_000  # in one pipeline
QUEUED_MAX = 20_000  # calls that wait; more are told that it is away
_log = logging.getLogger("ortoo.redis")


class AwayError(Exception):
    """Redis does not answer: do without it."""


class _Call(NamedTuple):
    script: str
    keys: Sequence[bytes | str]
    arguments: Sequence[bytes | str | int | float]
    answer: asyncio.Future[Any]


class RedisConnection:
    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_up = False
        self.failures = 0  # how often it went away
        self.calls = 0
        self._why = "it was not reached yet"
        self._client: Redis | None = None
        self._sentinels: list[Redis] = []
        self._queue: deque[_Call] = deque()
        self._work = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over = False

    async def start(self) -> None:
        """Tries it once. One that is not there does not keep a server from starting."""
        if not self._tasks:
            self._is_over = False
            self._client, self._sentinels = _connect(self.address)
            await self._probe()
            self._tasks = [asyncio.create_task(self._run(), name="ortoo-redis")]

    async def stop(self) -> None:
        self._is_over = True  # what its client raises when it is cancelled may be another error
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._drop(AwayError("closed"))
        self.is_up, self._why = False, "it is not in use any more"
        for client in [self._client, *self._sentinels]:
            with suppress(Exception):  # they are of no use any more
                if client is not None:
                    await client.aclose()

    def problem(self) -> str | None:
        return None if self.is_up else f"Redis at {self.address.shown} does not answer: {self._why}"

    async def call(self, script: str, keys: Sequence[bytes | str], *arguments: bytes | str | int | float) -> Any:
        """What the script returns; AwayError when Redis does not answer."""
        if not self.is_up or len(self._queue) >= QUEUED_MAX:
            raise AwayError
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append(_Call(script, keys, arguments, answer))
        self._work.set()
        return await answer

    async def _run(self) -> None:
        while not self._is_over:
            if not self.is_up:
                await self._probe()
                if not self.is_up:
                    await asyncio.sleep(PROBE_S)
                continue
            if not self._queue:
                await self._wait()
                continue
            calls = [self._queue.popleft() for _ in range(min(CALLS_MAX, len(self._queue)))]
            await self._send([call for call in calls if not call.answer.done()])  # whoever has gone asks nothing

    async def _wait(self) -> None:
        """For work. One that goes away meanwhile is noticed."""
        self._work.clear()
        try:
            async with asyncio.timeout(PROBE_S):
                await self._work.wait()
        except TimeoutError:
            await self._probe()

    async def _send(self, calls: list[_Call]) -> None:
        assert self._client is not None
        try:
            async with asyncio.timeout(_whole_s()):
                pipeline = self._client.pipeline(transaction=False)
                for call in calls:
                    pipeline.eval(call.script, len(call.keys), *call.keys, *call.arguments)
                answers = await pipeline.execute(raise_on_error=False)
        except asyncio.CancelledError:
            self._queue.extendleft(reversed(calls))  # whoever ends it tells them
            raise
        except Exception as error:  # whatever its client raises: this runs by itself
            self._queue.extendleft(reversed(calls))
            self._failed(error)
            return
        self.calls += len(calls)
        for call, answer in zip(calls, answers, strict=True):
            if call.answer.done():
                continue
            if isinstance(answer, Exception):  # it answers, but not with what is asked: read only, out of memory
                self._failed(answer)
                call.answer.set_exception(AwayError(str(answer)))
            else:
                call.answer.set_result(answer)

    def _failed(self, error: BaseException) -> None:
        if self.is_up:
            self.failures += 1
            _log.warning("Redis does not answer", extra={"redis": self.address.shown, "error": _words(error)})
        self.is_up, self._why = False, _words(error)
        self._drop(AwayError(self._why))

    def _drop(self, error: AwayError) -> None:
        while self._queue:
            answer = self._queue.popleft().answer
            if not answer.done():
                answer.set_exception(error)

    async def _probe(self) -> None:
        """A script that writes, for one that can only be read is of no use."""
        assert self._client is not None
        try:
            async with asyncio.timeout(_whole_s()):
                await self._client.eval(_PROBE, 1, "ortoo:probe")
        except Exception as error:  # the same
            self._failed(error)
            with suppress(Exception):
                await self._client.connection_pool.disconnect()
            return
        if self.failures and not self.is_up:
            _log.info("Redis answers again", extra={"redis": self.address.shown})
        self.is_up = True


_PROBE = "return redis.call('SET', KEYS[1], '1', 'PX', 1000)"


def _whole_s() -> float:
    """For all of a call, a Sentinel's answer included."""
    return CONNECT_S + 2 * CALL_S


def _words(error: BaseException) -> str:
    """Never with a password: what Redis says has none, and neither have errors of sockets."""
    return str(error) or type(error).__name__


def _connect(address: Address) -> tuple[Redis, list[Redis]]:
    """And the Sentinels that are asked for it."""
    common: dict[str, Any] = {
        "db": address.database,
        "username": address.username,
        "password": address.password,
        "socket_connect_timeout": CONNECT_S,
        "socket_timeout": CALL_S,
        "socket_keepalive": True,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "max_connections": 4,
    }
    if address.is_tls:
        common |= {"ssl": True, **{name: file for name, file in address.options.items() if name.startswith("ssl_")}}
    if address.service is None:
        [(host, port)] = address.hosts
        return Redis(host=host, port=port, **common), []
    names = {"sentinel_username": "username", "sentinel_password": "password"}
    asked = {
        name: value for name, value in common.items() if name not in ("db", "username", "password", "max_connections")
    }
    asked |= {names[name]: value for name, value in address.options.items() if name in names}
    sentinel = Sentinel(address.hosts, sentinel_kwargs=asked)  # type: ignore[no-untyped-call]
    return sentinel.master_for(address.service, **common), sentinel.sentinels
