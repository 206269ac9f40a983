"""Every setting of a server, as one frozen tree. `ortoo.app.config` fills it from a file, the environment and flags."""

from __future__ import annotations

from typing import Literal

import msgspec

LOOPBACK = "127.0.0.1"


class TcpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = True
    host: str = LOOPBACK
    port: int = 7632  # 0 takes any free one


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = True
    host: str = LOOPBACK
    port: int = 6632
    max_body_bytes: int = 64 * 1024 * 1024  # of a request, once decompressed
    cors_origins: list[str] = []  # ["*"] allows every site


class TlsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With both files, every door speaks TLS and nothing else."""

    certificate: str | None = None  # a PEM file, with its chain
    key: str | None = None


class LimitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    connections: int = 10_000  # on each door
    in_flight_bytes: int = 512 * 1024 * 1024  # of requests being served, all doors together


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "text", "json"] = "auto"  # auto: text on a terminal, JSON elsewhere


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data: str = "./data"  # the directory; "memory" keeps everything in memory
    auto_create: bool = True  # whether publishing to an unknown topic makes it
    encryption_keys: str | None = None  # file:PATH or command:CMD
    token: str | None = None  # what every client must present, when set
    drain_seconds: float = 10.0  # how long a stopping server lets requests finish
    tcp: TcpSettings = TcpSettings()
    http: HttpSettings = HttpSettings()
    tls: TlsSettings = TlsSettings()
    limits: LimitSettings = LimitSettings()
    log: LogSettings = LogSettings()
