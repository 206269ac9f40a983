"""The port for a worker's metrics and for the probes of Kubernetes.

The worker's event loop serves it, on purpose: while that hangs, so does `/health`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.process_collector import ProcessCollector

from .worker_metrics import WorkerMetrics

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_SECONDS = 10.0
_HEAD_BYTES_MAX = 16 * 1024
_CONNECTIONS_MAX = 64
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

Answer = tuple[int, str, bytes]


class WorkerHttp:
    def __init__(self, metrics: WorkerMetrics, ready: Callable[[], str | None]) -> None:
        """`ready`: why the worker takes no messages; None when it does."""
        self._registry = CollectorRegistry()
        self._registry.register(metrics)
        self._registry.register(ProcessCollector(registry=None))
        self._ready = ready
        self._connections = 0

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[int]:
        """Listens meanwhile; gives the port."""
        server = await asyncio.start_server(self._serve, host, port, limit=_HEAD_BYTES_MAX)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _CONNECTIONS_MAX:
                async with asyncio.timeout(_REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(_response(head, self._answer(head)))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()  # nobody is there to be told, and what was not read would stay
        finally:
            self._connections -= 1
            writer.close()

    def _answer(self, head: bytes) -> Answer:
        method, _, rest = head.partition(b" ")
        if method not in (b"GET", b"HEAD"):
            return 405, "text/plain", b"only GET is served here\n"
        match rest.split(b" ", 1)[0].split(b"?", 1)[0]:
            case b"/metrics":
                return 200, _METRICS_TYPE, generate_latest(self._registry)
            case b"/health":
                return 200, "text/plain", b"ok\n"
            case b"/ready":
                reason = self._ready()
                return (
                    (200, "text/plain", b"ready\n") if reason is None else (503, "text/plain", f"{reason}\n".encode())
                )
            case _:
                return 404, "text/plain", b"there are /metrics, /health and /ready\n"


def _response(head: bytes, answer: Answer) -> bytes:
    status, kind, body = answer
    lines = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return lines.encode() + (b"" if head.startswith(b"HEAD ") else body)
