"""Who asks, as the server knows it, and what server that is."""

from __future__ import annotations

import msgspec

from .access import SCOPES, Principal, Scope


class ServerInfo(msgspec.Struct, frozen=True):
    version: str
    started: float  # when the queue was opened, in seconds since 1970
    store: str  # "disk" or "memory"
    tcp_port: int | None = None  # where Python programs connect; None where nothing listens


class Me(msgspec.Struct, frozen=True):
    """Whoever asks. Where nobody needs a token, that is "anyone", who may do everything."""

    principal: str
    scopes: list[Scope]  # that it has somewhere
    namespaces: list[str] | None  # in which it may do something; None: in all
    expires: float | None  # when it has to come again with another token, in seconds since 1970
    needs_token: bool  # whether one has to show who one is
    server: ServerInfo


def describe_principal(principal: Principal, needs_token: bool, server: ServerInfo) -> Me:
    scopes = [scope for scope in SCOPES if any(scope in grant.scopes for grant in principal.grants)]
    namespaces = None if principal.realm is None else list(principal.realm)
    return Me(principal.name, scopes, namespaces, principal.expires, needs_token, server)
