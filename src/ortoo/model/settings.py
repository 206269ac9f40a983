"""Every setting of a server, as one frozen tree. `ortoo.app.config` fills it from a file, the environment and flags.

A setting's description and its bounds stand beside it; docs/configuration.md and error messages are made from them.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from .metrics import MetricsSettings
from .mqtt_settings import MqttSettings
from .names import DEFAULT_NAMESPACE
from .places import LOOPBACK, Host, Port, SocketMode, Text
from .topic_defaults import NO_DEFAULTS, TopicDefaults

MEMORY = "memory"  # as `data`: nothing is kept on disk
NO_SPILL = "none"  # as `spill`

DialectName = Literal["queen", "mqueue", "goqueue", "mqtt-queues"]
QueenGeneration = Literal["auto", "first", "later"]


class TcpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: Annotated[bool, Meta(description="Whether to serve TCP, which `ortoo.connect` uses.")] = True
    host: Host = LOOPBACK
    port: Port = 7632
    socket_mode: SocketMode = "600"


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: Annotated[bool, Meta(description="Whether to serve HTTP: REST, WebSocket, health and metrics.")] = True
    host: Host = LOOPBACK
    port: Port = 6632
    socket_mode: SocketMode = "600"
    dashboard: Annotated[bool, Meta(description="Whether to serve the dashboard at `/`.")] = True
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
    dialects: Annotated[
        list[DialectName],
        Meta(description="APIs of other queues that are served as well, for their clients."),
    ] = msgspec.field(default_factory=lambda: list(get_args(DialectName)))
    dialect_ports: Annotated[
        list[Annotated[str, Meta(pattern=r"^(queen|mqueue|goqueue|mqtt-queues)=\d{1,5}$")]],
        Meta(
            description=(
                "Ports that serve one of these APIs only, and completely, with paths that Ortoo uses elsewhere: "
                "`goqueue=8080`."
            )
        ),
    ] = []
    dialect_cors_origins: Annotated[
        list[Text], Meta(description="Web sites whose pages may call `http.dialect_ports`. `*` means any site.")
    ] = []
    queen_generation: Annotated[
        QueenGeneration,
        Meta(
            description=(
                "How pushes of Queen clients are answered: `first`, as in its documentation; `later`, with a list, as later "
                "clients expect. `auto` tells them apart by what they send."
            )
        ),
    ] = "auto"


class GomqSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: Annotated[bool, Meta(description="Whether to serve the line protocol of GoMQ.")] = False
    host: Host = LOOPBACK
    port: Port = 5672


class TlsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With both files, every door speaks TLS and nothing else."""

    certificate: Annotated[
        Text | None,
        Meta(
            description=(
                "A PEM file with the certificate and its chain. With it, every door accepts only TLS. When a file changes, it "
                "is read again."
            )
        ),
    ] = None
    key: Annotated[Text | None, Meta(description="A PEM file with the private key of the certificate.")] = None
    client_ca: Annotated[
        Text | None,
        Meta(description="A PEM file with the CA certificates that client certificates must be signed by."),
    ] = None
    client_auth: Annotated[
        Literal["none", "optional", "required"] | None,
        Meta(
            description=(
                "Whether clients need a certificate: `required`, the default with `tls.client_ca`, refuses those without one; "
                "`optional` checks it if there is one; `none` requests none."
            )
        ),
    ] = None


class AuthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens that others signed (JWT). Those of `ortoo token create` need no setting."""

    secret: Annotated[
        Annotated[str, Meta(pattern=r"^[!-~]+$")] | None,
        Meta(description="The secret of tokens signed with HS256, of at least 32 bytes.", extra={"secret": True}),
    ] = None
    key_file: Annotated[
        Text | None,
        Meta(description="A PEM file with the public keys of tokens signed with RS256, ES256 or EdDSA."),
    ] = None
    jwks: Annotated[
        Text | None,
        Meta(description="The JSON Web Key Set of an identity provider: an `https://` URL, or a file."),
    ] = None
    jwks_refresh_seconds: Annotated[
        float, Meta(ge=30, le=86_400, description="How often the key set is fetched from its URL.")
    ] = 300.0
    issuer: Annotated[Text | None, Meta(description="The `iss` that a token must have.")] = None
    audience: Annotated[
        Text | None,
        Meta(description="The `aud` that a token must have. Without it, tokens that have one are refused."),
    ] = None
    require_expiry: Annotated[bool, Meta(description="Whether tokens without `exp` are refused.")] = True
    leeway_seconds: Annotated[
        float, Meta(ge=0, le=300, description="How far the clocks of this server and of issuers may differ.")
    ] = 30.0
    default_scope: Annotated[
        Annotated[str, Meta(pattern=r"^(read|write|admin)(,(read|write|admin))*$")] | None,
        Meta(description="What a token without the claim `ortoo` allows. Without it, nothing."),
    ] = None
    default_namespace: Annotated[
        Text, Meta(description="The namespace that `auth.default_scope` applies to. `*` means all.")
    ] = DEFAULT_NAMESPACE
    certificate_scope: Annotated[
        Annotated[str, Meta(pattern=r"^(read|write|admin)(,(read|write|admin))*$")] | None,
        Meta(
            description=(
                "What a client with a certificate of `tls.client_ca` but no token may do. Without it, certificates "
                "alone allow nothing."
            )
        ),
    ] = None
    certificate_namespace: Annotated[
        Text,
        Meta(
            description=(
                "The namespace that `auth.certificate_scope` applies to. `*` means all; `{name}` means the common name of "
                "the certificate."
            )
        ),
    ] = DEFAULT_NAMESPACE


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


class AuditSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: Annotated[
        bool | None,
        Meta(
            description=(
                "Whether to record administrative requests, forbidden requests and failed logins in the "
                "topic `ortoo.audit` of the namespace `system`. Default: if clients need a token."
            )
        ),
    ] = None


Secret = Annotated[str, Meta(pattern=r"^[!-~]{16,}$")]


class WebhookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    allow: Annotated[
        list[Text],
        Meta(
            description=(
                "Where webhooks may go: names, `*.NAME`, addresses and networks. Without a list: any public address, but none "
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
            description="Also signs webhooks, until all receivers have the new secret.",
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
    store: Annotated[
        list[Text],
        Meta(
            description=(
                "Where the messages are kept, in place of the data directory: `postgres://USER@HOST/DATABASE`, or a directory. "
                "Several are shards: each topic is in one of them. Passwords belong in `PGPASSWORD` or `~/.pgpass`."
            ),
            extra={"secret": True},
        ),
    ] = []
    redis: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9+]*://.")] | None,
        Meta(
            description=(
                "A Redis through which servers share quotas and the dedup ids of namespaces: `redis://HOST:PORT`, `rediss://…` "
                "with TLS, or `redis+sentinel://HOST:PORT,HOST:PORT/SERVICE`."
            ),
            extra={"secret": True},
        ),
    ] = None
    spill: Annotated[
        Text | None,
        Meta(
            description=(
                "The folder that takes commits while the database of `store` is unreachable. Default: `spill` in "
                "the data directory. `none`: such commits fail."
            )
        ),
    ] = None
    spill_bytes: Annotated[
        int, Meta(ge=1 << 20, description="Maximum size of the spill of a shard. Beyond it, publishing is refused.")
    ] = 1 << 30
    buffer: Annotated[
        Literal["redis"] | None,
        Meta(
            description="`redis`: commits are confirmed when the Redis of `redis` has them, before a PostgreSQL `store` has."
        ),
    ] = None
    buffer_bytes: Annotated[int, Meta(ge=1 << 20, description="Maximum size of a shard's buffer.")] = 64 << 20
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
            description="A token that allows everything. Without one, and without other authentication, anyone can do anything.",
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
    mqtt: MqttSettings = MqttSettings()
    gomq: GomqSettings = GomqSettings()
    tls: TlsSettings = TlsSettings()
    auth: AuthSettings = AuthSettings()
    limits: LimitSettings = LimitSettings()
    audit: AuditSettings = AuditSettings()
    webhooks: WebhookSettings = WebhookSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()
    new_topics: TopicDefaults = NO_DEFAULTS  # [topic_defaults] and its like, which app/new_topics.py reads
