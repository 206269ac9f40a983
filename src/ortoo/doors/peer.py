"""Whose certificate a connection was opened with."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from ortoo.model.peer import PeerCertificate


def peer_certificate(connection: asyncio.BaseTransport | ssl.SSLObject) -> PeerCertificate | None:
    """None without TLS, and when the client showed no certificate or was not asked for one.

    One that is not trusted does not come here: its handshake fails.
    """
    tls = connection if isinstance(connection, ssl.SSLObject) else connection.get_extra_info("ssl_object")
    found: dict[str, Any] | None = tls.getpeercert() if tls is not None else None
    return to_peer(found) if found else None


def to_peer(found: dict[str, Any]) -> PeerCertificate:
    """As the standard library tells it: names as pairs of kind and value, times as texts."""
    common_names = [value for part in found.get("subject", ()) for kind, value in part if kind == "commonName"]
    others = found.get("subjectAltName", ())
    return PeerCertificate(
        common_names[0] if len(common_names) == 1 else None,
        tuple(value for kind, value in others if kind == "DNS"),
        tuple(value for kind, value in others if kind == "URI"),
        tuple(value for kind, value in others if kind == "email"),
        float(ssl.cert_time_to_seconds(found["notAfter"])),
    )


def address_of(transport: asyncio.BaseTransport) -> str | None:
    """Where a client calls from, without the port."""
    found: Any = transport.get_extra_info("peername")
    return found[0] if isinstance(found, tuple) and found else None
