"""The door of GoMQ's line protocol: listens, keeps its sessions, closes them gracefully."""

from __future__ import annotations

import asyncio
from collections import Counter

from ortoo.broker.gate import Gate
from ortoo.doors.listening import Listening, ServerTls, listen
from ortoo.model.errors import ConfigError
from ortoo.model.settings import GomqSettings

from .session import Session

_SWEEP_SECONDS = 5.0


class GomqDoor:
    def __init__(self, gate: Gate, settings: GomqSettings, *, tls: ServerTls | None = None) -> None:
        self.gate = gate
        self.address: tuple[str, int] = (settings.host, settings.port)
        self._tls = tls
        self._listener: Listening | None = None
        self.present: Counter[str] = Counter()  # clients, by namespace
        self._sessions: set[Session] = set()
        self._emptied = asyncio.Event()
        self._sweeper: asyncio.Task[None] | None = None

    async def open(self) -> None:
        host, port = self.address
        try:
            self._listener = await listen("gomq", lambda: Session(self), self.address, self._tls, _answer_plain, 1024)
        except OSError as error:
            raise ConfigError(
                f"GoMQ's protocol cannot listen on {host}:{port}: {error.strerror or error}; choose another gomq.port"
            ) from error
        bound = self._listener.sockets[0].getsockname()
        self.address = (bound[0], bound[1])
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep(), name="ortoo-gomq-sweeper")

    async def close(self, grace: float = 0.0) -> None:
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        if self._sweeper is not None:
            self._sweeper.cancel()
        sessions = list(self._sessions)
        try:
            async with asyncio.timeout(grace):
                await asyncio.gather(*(session.drain() for session in sessions))
                await self._until_empty()
        except TimeoutError:
            for session in list(self._sessions):
                session.abort()
            await self._until_empty()

    async def _until_empty(self) -> None:
        while self._sessions:
            self._emptied.clear()
            await self._emptied.wait()

    # -- what sessions tell

    def begun(self, session: Session) -> None:
        self._sessions.add(session)

    def ended(self, session: Session) -> None:
        self._sessions.discard(session)
        self._emptied.set()

    async def _sweep(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + _SWEEP_SECONDS
            await asyncio.sleep(_SWEEP_SECONDS)
            now = clock()
            for session in list(self._sessions):
                if session.is_silent(now, late=now - due):
                    session.abort()


def _answer_plain(first: bytes) -> bytes:
    """To a client that does not speak TLS."""
    return b"ERROR this port speaks TLS\n"
