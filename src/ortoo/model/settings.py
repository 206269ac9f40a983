"""Every setting of a server, as one frozen tree. `ortoo.app.config` fills it from a file, the environment and flags.

A setting's description and its bounds stand beside it; docs/configuration.md and error messages are made from them.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

LOOPBACK = "127.0.0.1"
MEMORY = "memory"  # as `data`: nothing is kept on disk

Text = Annotated[str, Meta(min_length=1)]
Host = Annotated[Text, Meta(description="The address to listen on. `0.0.0.0` means all addresses of the machine.")]
Port = Annotated[int, Meta(ge=0, le=65_535, description="The port. 0 picks a free one.")]


class TcpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: Annotated[bool, Meta(description="Whether to serve TCP, which `ortoo.connect` uses.")] = True
    host: Host = LOOPBACK
    port: Port = 7632


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: Annotated[bool, Meta(description="Whether to serve HTTP: REST, WebSocket, health and metrics.")] = True
    host: Host = LOOPBACK
    port: Port = 6632
    max_body_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=1 << 30,
            description=(
                "The largest request body, after decompression. Parsing its JSON blocks all other requests for one or two "
                "milliseconds per MiB."
            ),
        ),
    ] = 16 * 1024 * 1024
    cors_origins: Annotated[
        list[Text], Meta(description="Web sites whose pages may call this server. `*` means any site.")
    ] = []
    allowed_hosts: Annotated[
        list[Text],
        Meta(
            description=(
                "Host names that clients may use for this server, besides `localhost` and IP addresses. `*` means any name."
            )
        ),
    ] = []


class TlsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With both files, every door speaks TLS and nothing else."""

    certificate: Annotated[
        Text | None,
        Meta(description="A PEM file with the certificate and its chain. With it, every door accepts only TLS."),
    ] = None
    key: Annotated[Text | None, Meta(description="A PEM file with the private key of the certificate.")] = None


class LimitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    connections: Annotated[int, Meta(ge=1, le=1_000_000, description="Maximum concurrent connections, per door.")] = (
        10_000
    )
    connections_per_ip: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description=(
                "Maximum concurrent connections from one address, for all doors together; an IPv6 address counts as its /64. "
                "Loopback is not limited. 0 means no limit."
            ),
        ),
    ] = 1_000
    requests_per_second_per_ip: Annotated[
        float,
        Meta(
            ge=0,
            le=1_000_000,
            description="Maximum requests per second from one address, counted in the same way. 0 means no limit.",
        ),
    ] = 0.0
    in_flight_bytes: Annotated[
        int,
        Meta(ge=1024 * 1024, le=1 << 40, description="Maximum bytes of requests in flight, for all doors together."),
    ] = 512 * 1024 * 1024


Secret = Annotated[str, Meta(pattern=r"^[!-~]{16,}$")]


class WebhookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    allow: Annotated[
        list[Text],
        Meta(
            description=(
                "Where webhooks may lead: names, `*.NAMES`, addresses and networks. Without a list, any public address, and none "
                "that is private, local, or for cloud metadata."
            )
        ),
    ] = []
    secret: Annotated[
        Secret | None,
        Meta(description="Signs webhooks, in the header `Ortoo-Signature`.", extra={"secret": True}),
    ] = None
    previous_secret: Annotated[
        Secret | None,
        Meta(
            description="Signs webhooks as well, until all receivers know the new secret.",
            extra={"secret": True},
        ),
    ] = None

    @property
    def secrets(self) -> list[str]:
        return [secret for secret in (self.secret, self.previous_secret) if secret is not None]


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The lowest level that is logged.")
    ] = "info"
    format: Annotated[
        Literal["auto", "text", "json"], Meta(description="`auto` means text on a terminal and JSON otherwise.")
    ] = "auto"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data: Annotated[
        Text, Meta(description="The data directory, created if it does not exist. `memory` keeps nothing on disk.")
    ] = "./data"
    lake: Annotated[
        Text | None,
        Meta(
            description="The lake that `ortoo pipeline archive` writes; its analytics are served at `/v1/analytics/history`."
        ),
    ] = None
    auto_create: Annotated[bool, Meta(description="Whether publishing to a topic that does not exist creates it.")] = (
        True
    )
    encryption_keys: Annotated[
        Annotated[str, Meta(pattern=r"^(file|command):.")] | None,
        Meta(
            description=(
                "Where the keys of encrypted topics come from: `file:PATH` or `command:CMD`. The variable may also hold "
                "the keys themselves."
            )
        ),
    ] = None
    token: Annotated[
        Annotated[str, Meta(pattern=r"^[!-~]+$")] | None,  # what fits into an HTTP header
        Meta(
            description="The token every client must present. Without one, anyone can do anything.",
            extra={"secret": True},
        ),
    ] = None
    insecure: Annotated[
        bool,
        Meta(
            description="Whether to listen on addresses that other machines can reach although no client has to authenticate."
        ),
    ] = False
    drain_seconds: Annotated[
        float,
        Meta(ge=0, le=3600, description="How long requests and webhooks may take to finish when the server stops."),
    ] = 10.0
    tcp: TcpSettings = TcpSettings()
    http: HttpSettings = HttpSettings()
    tls: TlsSettings = TlsSettings()
    limits: LimitSettings = LimitSettings()
    webhooks: WebhookSettings = WebhookSettings()
    log: LogSettings = LogSettings()
