"""Who is at the other end of a connection, as far as its certificate tells."""

from __future__ import annotations

import msgspec


class PeerCertificate(msgspec.Struct, frozen=True):
    """The certificate of a client, which a CA that the server trusts (`tls.client_ca`) has signed."""

    common_name: str | None  # of the subject; None when it has none, or several, for then it names nobody
    dns_names: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()  # such as SPIFFE ids
    emails: tuple[str, ...] = ()
    not_after: float = 0.0  # seconds since 1970
