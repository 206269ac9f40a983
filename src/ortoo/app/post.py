"""One HTTP POST: enough to hand a small JSON document to a webhook. No redirects, no proxies, no kept connections.

A name is resolved once, and what it leads to is connected to if it is allowed: see destinations.py.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from functools import cache
from urllib.parse import SplitResult, unquote, urlsplit

from ortoo.model.names import DEFAULT_NAMESPACE

from .destinations import Destinations, anywhere

SIGNATURE_HEADER = "Ortoo-Signature"
_LINE_BYTES_MAX = 8 * 1024
_INFORMATION_MAX = 10  # interim answers (1xx) before the real one
_HEADERS_MAX = 100  # of an interim answer


class PostError(Exception):
    """The receiver did not take it; the message says why."""


class SilentError(PostError):
    """It did not answer in time."""


async def post_json(
    url: str,
    body: bytes,
    seconds: float,
    destinations: Destinations | None = None,
    signature: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> None:
    """Returns when the receiver answered with a status of 2xx. DestinationError when it may not be asked."""
    try:
        async with asyncio.timeout(seconds):
            status = await _exchange(urlsplit(url), body, destinations or anywhere(), signature, namespace)
    except TimeoutError:
        raise SilentError(f"no answer within {seconds:g} s") from None
    except (OSError, ValueError, EOFError) as error:  # also certificates, names that cannot be resolved, cut answers
        raise PostError(str(error) or type(error).__name__) from None
    if not 200 <= status < 300:
        raise PostError(f"it answered {status}")


async def _exchange(
    url: SplitResult, body: bytes, destinations: Destinations, signature: str | None, namespace: str
) -> int:
    assert url.hostname is not None, "a webhook without a host is refused by its topic"
    port = url.port or (443 if url.scheme == "https" else 80)
    addresses = await destinations.addresses(namespace, url.hostname, port)
    reader, writer = await _connect(addresses, port, url.hostname if url.scheme == "https" else None)
    try:
        writer.write(_head(url, len(body), signature) + body)
        await writer.drain()
        return await _status(reader)
    finally:
        writer.transport.abort()  # nothing more is of interest, and nobody should wait for a proper end


async def _connect(
    addresses: list[str], port: int, tls_name: str | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To the first that takes it. They are addresses: nothing is looked up again."""
    tls = _tls() if tls_name is not None else None
    for number, address in enumerate(addresses, start=1):
        try:
            return await asyncio.open_connection(
                address, port, ssl=tls, server_hostname=tls_name, limit=_LINE_BYTES_MAX
            )
        except OSError:
            if number == len(addresses):
                raise
    raise OSError("its name leads nowhere")


def _head(url: SplitResult, size: int, signature: str | None) -> bytes:
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
    if signature is not None:
        lines.append(f"{SIGNATURE_HEADER}: {signature}")
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
