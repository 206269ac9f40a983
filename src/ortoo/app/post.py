"""One HTTP POST: enough to hand a small JSON document to a webhook. No redirects, no proxies, no kept connections."""

from __future__ import annotations

import asyncio
import base64
import ssl
from functools import cache
from urllib.parse import SplitResult, unquote, urlsplit

_LINE_BYTES_MAX = 8 * 1024
_INFORMATION_MAX = 10  # interim answers (1xx) before the real one
_HEADERS_MAX = 100  # of an interim answer


class PostError(Exception):
    """The receiver did not take it; the message says why."""


async def post_json(url: str, body: bytes, seconds: float) -> None:
    """Returns when the receiver answered with a status of 2xx."""
    try:
        async with asyncio.timeout(seconds):
            status = await _exchange(urlsplit(url), body)
    except TimeoutError:
        raise PostError(f"no answer within {seconds:g} s") from None
    except (OSError, ValueError, EOFError) as error:  # also certificates, names that cannot be resolved, cut answers
        raise PostError(str(error) or type(error).__name__) from None
    if not 200 <= status < 300:
        raise PostError(f"it answered {status}")


async def _exchange(url: SplitResult, body: bytes) -> int:
    is_tls = url.scheme == "https"
    port = url.port or (443 if is_tls else 80)
    reader, writer = await asyncio.open_connection(
        url.hostname, port, ssl=_tls() if is_tls else None, limit=_LINE_BYTES_MAX
    )
    try:
        writer.write(_head(url, len(body)) + body)
        await writer.drain()
        return await _status(reader)
    finally:
        writer.transport.abort()  # nothing more is of interest, and nobody should wait for a proper end


def _head(url: SplitResult, size: int) -> bytes:
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    host = url.netloc.rpartition("@")[2]
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {host}",
        "User-Agent: ortoo",
        "Content-Type: application/json",
        f"Content-Length: {size}",
        "Connection: close",
    ]
    if url.username is not None:
        login = f"{unquote(url.username)}:{unquote(url.password or '')}"
        lines.append(f"Authorization: Basic {base64.b64encode(login.encode()).decode()}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


async def _status(reader: asyncio.StreamReader) -> int:
    for _ in range(_INFORMATION_MAX):
        words = (await reader.readline()).split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise PostError("it did not answer in HTTP")
        if (status := int(words[1])) >= 200:
            return status
        for _ in range(_HEADERS_MAX):
            if not (await reader.readline()).strip():
                break
        else:
            raise PostError("its interim answer has too many headers")
    raise PostError("it never answered")


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
