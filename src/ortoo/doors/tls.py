"""The server's side of a TLS handshake: what is told to a client that is refused.

The event loops end a handshake that fails without a word, and the client sees no more than a lost connection. The word,
an alert, is in the buffer of what was to be sent; here it is taken from there, for the listener to send.
"""

from __future__ import annotations

import ssl
from typing import Any


class RefusedError(ssl.SSLError):
    """The handshake failed. `alert` is what the client is to be told: bytes of TLS, none when it is the client who gave up."""

    def __init__(self, error: ssl.SSLError, alert: bytes) -> None:
        super().__init__(*error.args)
        self.alert = alert
        self.why = getattr(error, "verify_message", "") or error.reason or str(error)


class _Handshake(ssl.SSLObject):
    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            raise RefusedError(error, self.outgoing.read()) from None


class ServerContext(ssl.SSLContext):
    """TLS 1.2 and newer."""

    def __new__(cls) -> ServerContext:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self) -> None:
        self.minimum_version = ssl.TLSVersion.TLSv1_2
        self.sslobject_class = _Handshake

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *args, **options)
        assert isinstance(made, _Handshake)
        made.outgoing = outgoing
        return made
