"""The TCP door: listens, keeps its sessions, closes them gracefully."""

from __future__ import annotations

import asyncio

from ortoo.broker.gate import Gate
from ortoo.doors.listening import Listening, ServerTls, bound_address, listen, shown_address
from ortoo.model.errors import ConfigError, ProtocolError
from ortoo.model.settings import TcpSettings
from ortoo.wire import protocol as p
from ortoo.wire.frames import encode_frame

from .cutting import Cutter
from .errors import HTTP_METHODS, NOT_HTTP
from .session import Session

_SWEEP_SECONDS = 5.0
_NOT_PLAIN = encode_frame((p.ERROR, 0, p.to_problem(ProtocolError("this port speaks TLS: use an ortoos:// URL"))))


class TcpDoor:
    def __init__(
        self, gate: Gate, settings: TcpSettings, *, tls: ServerTls | None = None, server: str = "ortoo"
    ) -> None:
        self.gate = gate
        self.server = server
        self.presence = gate.presence
        self.cutter = Cutter()
        self.address: tuple[str, int] = (settings.host, settings.port)
        self._mode = settings.socket_mode
        self._tls = tls
        self._listener: Listening | None = None
        self.stalled: set[Session] = set()
        self._sessions: set[Session] = set()
        self._emptied = asyncio.Event()
        self._sweeper: asyncio.Task[None] | None = None

    async def open(self) -> None:
        host, port = self.address
        loop = asyncio.get_running_loop()
        try:
            self._listener = await listen(
                "tcp", lambda: Session(self), self.address, self._tls, _answer_plain, 1024, self._mode
            )
        except OSError as error:
            raise ConfigError(
                f"the TCP door cannot listen on {shown_address(host, port)}: {error.strerror or error}; "
                "choose another with tcp.host and tcp.port"
            ) from error
        self.address = bound_address(self._listener, host)
        self._sweeper = loop.create_task(self._sweep(), name="ortoo-tcp-sweeper")

    async def close(self, grace: float = 0.0) -> None:
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.presence.close()
        sessions = list(self._sessions)
        try:
            async with asyncio.timeout(grace):
                await asyncio.gather(*(session.drain() for session in sessions))
                while self._sessions:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            for session in list(self._sessions):
                session.abort()

    # -- what sessions tell

    def begun(self, session: Session) -> None:
        self._sessions.add(session)

    def ended(self, session: Session) -> None:
        self._sessions.discard(session)
        self.stalled.discard(session)
        self._emptied.set()

    async def _sweep(self) -> None:
        """Connections that say nothing any more are dropped: nobody is there."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + _SWEEP_SECONDS
            await asyncio.sleep(_SWEEP_SECONDS)
            now = clock()
            for session in list(self._sessions):
                if session.is_silent(now, late=now - due):
                    session.abort()
                else:
                    session.reassure()


def _answer_plain(first: bytes) -> bytes:
    """To a client that does not speak TLS."""
    return NOT_HTTP if first.startswith(HTTP_METHODS) else bytes(_NOT_PLAIN)
