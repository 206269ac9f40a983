"""One HTTP GET of a small document, blocking: bounded in time and size. No redirects, no proxies, no kept connections."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Event, Timer
from urllib.parse import SplitResult, urlsplit

from ortoo.model.errors import ConfigError


class FetchError(Exception):
    """There is no document; the message says why."""


def check_url(url: str) -> SplitResult:
    """What is fetched decides who gets in: nobody on the way may change it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise ConfigError("auth.jwks is not a URL; it looks like https://login.example/.well-known/jwks.json") from None
    if not host or parts.scheme not in ("http", "https") or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError("auth.jwks is not a URL; it looks like https://login.example/.well-known/jwks.json")
    if "@" in parts.netloc:
        raise ConfigError("auth.jwks must have no login before an @: keys that verify are public")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ConfigError("auth.jwks must begin with https://, because whoever can change what comes could make tokens")
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def fetch(url: str, seconds: float, bytes_max: int) -> bytes:
    """For a thread. `seconds` are for connecting, and again for the answer, however slowly the other side speaks."""
    parts = check_url(url)
    host, port = parts.hostname or "", parts.port
    connection: HTTPConnection
    if parts.scheme == "https":
        connection = HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())
    else:
        connection = HTTPConnection(host, port, timeout=seconds)
    is_late = Event()
    try:
        connection.connect()
        with _ending(connection.sock, seconds, is_late):
            body = _get(connection, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), bytes_max)
    except TimeoutError:
        is_late.set()
    except (OSError, HTTPException, ValueError) as error:
        if not is_late.is_set():
            raise FetchError(str(error) or type(error).__name__) from None
    finally:
        connection.close()
    if is_late.is_set():  # also when nothing was raised: what we cut off may look like a whole answer
        raise FetchError(f"no answer within {seconds:g} s")
    return body


@contextmanager
def _ending(sock: socket.socket, seconds: float, is_late: Event) -> Iterator[None]:
    """Hangs up when the time is over. The timeout of a socket is only one between two bytes."""

    def hang_up() -> None:
        is_late.set()
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    end = Timer(seconds, hang_up)
    end.daemon = True
    end.start()
    try:
        yield
    finally:
        end.cancel()


def _get(connection: HTTPConnection, target: str, bytes_max: int) -> bytes:
    connection.request("GET", target, headers={"Accept": "application/json", "User-Agent": "ortoo"})
    with connection.getresponse() as response:
        if response.status != 200:
            hint = "; name where it leads to" if 300 <= response.status < 400 else ""
            raise FetchError(f"it answered {response.status}{hint}")
        body = response.read(bytes_max + 1)
    if len(body) > bytes_max:
        raise FetchError(f"the answer has more than {bytes_max} bytes")
    return body
