"""The settings of the MQTT door; see settings.py."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from .places import LOOPBACK, Host


class MqttSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: Annotated[bool, Meta(description="Whether to serve MQTT, also over WebSocket at `/mqtt` of HTTP.")] = True
    host: Host = LOOPBACK
    port: Annotated[
        Annotated[int, Meta(ge=0, le=65_535)] | None,
        Meta(
            description=(
                "The port. 0 picks a free one. When not set: 1883, or 8883 with TLS; if that is taken, the server starts without "
                "it."
            )
        ),
    ] = None
    max_packet_bytes: Annotated[
        int, Meta(ge=1024, le=256 * 1024 * 1024, description="The largest packet that clients may send.")
    ] = 1024 * 1024
    receive_maximum: Annotated[
        int, Meta(ge=1, le=65_535, description="Messages of one client that may be in flight, unacknowledged.")
    ] = 1_024
    max_keep_alive: Annotated[
        int,
        Meta(ge=1, le=65_535, description="Maximum keep-alive, in seconds; clients that ask for more get this."),
    ] = 3_600
    max_session_expiry: Annotated[
        int,
        Meta(
            ge=0,
            le=0xFFFF_FFFE,
            description="Maximum seconds that a session is kept after its client disconnected.",
        ),
    ] = 7 * 86_400
    max_queued: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000_000,
            description="Maximum messages queued for a disconnected client; any more are dropped. `$queue` drops none.",
        ),
    ] = 100_000
    max_retained: Annotated[int, Meta(ge=0, le=100_000_000, description="Retained messages of one namespace.")] = (
        100_000
    )
    max_retained_bytes: Annotated[
        int, Meta(ge=0, le=1 << 40, description="The same in bytes, in memory and on disk.")
    ] = 256 * 1024 * 1024
    capture: Annotated[
        list[Annotated[str, Meta(pattern=r"^[^=]+=[^=]+$")]],
        Meta(
            description=(
                "Ordinary topics whose messages are copied to a durable topic: `FILTER=TOPIC`, as in `sensors/#=sensors`; "
                "or `FILTER=NAMESPACE:TOPIC`."
            )
        ),
    ] = []
