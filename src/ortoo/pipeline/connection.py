"""Connections to servers, one per process and server: Spark's Python workers live on, so the next batch finds it open."""

from __future__ import annotations

import os
from typing import NamedTuple

from ortoo.client import SyncQueue
from ortoo.client.connecting import connect_sync
from ortoo.client.tls import Tls
from ortoo.model.names import DEFAULT_NAMESPACE

from .options import TLS, Given

DEFAULT_URL = "ortoo://localhost:7632"


class Address(NamedTuple):
    url: str = DEFAULT_URL
    token: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    timeout: float = 30.0  # how long a server that is away is waited for
    tls: Tls | None = None


def to_address(given: Given) -> Address:
    return Address(
        given.text("url") or DEFAULT_URL,
        given.text("token"),
        given.text("namespace") or DEFAULT_NAMESPACE,
        given.seconds("timeout", 30.0),
        Tls(*map(given.text, TLS)) if any(name in given for name in TLS) else None,
    )


def tls_options(tls: Tls | None) -> dict[str, str | None]:
    """The files, as options of the format `ortoo`."""
    files = (None, None, None) if tls is None else (tls.ca, tls.certificate, tls.key)
    return {name: None if file is None else str(file) for name, file in zip(TLS, files, strict=True)}


_open: dict[tuple[int, Address], SyncQueue] = {}


def queue_at(address: Address) -> SyncQueue:
    """Open already, or opened now. A worker is forked, and what its parent had open is not its own."""
    place = (os.getpid(), address)
    queue = _open.get(place)
    if queue is None:
        queue = connect_sync(
            address.url,
            token=address.token,
            namespace=address.namespace,
            tls=address.tls,
            timeout=address.timeout,
        )
        _open[place] = queue
    return queue
