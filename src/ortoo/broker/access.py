"""Who may enter: what every door asks, through its gate. `Access` is the simplest answer; `ortoo.auth` has the others."""

from __future__ import annotations

from hmac import compare_digest
from typing import Protocol

from ortoo.model.access import EVERYTHING, Principal
from ortoo.model.errors import UnauthenticatedError
from ortoo.model.peer import PeerCertificate

ANYONE = Principal("anyone", (EVERYTHING,))
HOLDER = Principal("token", (EVERYTHING,))
HOST = Principal("host", (EVERYTHING,))


class Authenticator(Protocol):
    @property
    def needs_token(self) -> bool: ...

    def admit(self, token: str | None, certificate: PeerCertificate | None = None) -> Principal:
        """Whose token or certificate it is; UnauthenticatedError when it is nobody's."""
        ...

    def is_valid(self, principal: Principal) -> bool:
        """Whether one who was admitted still is: its token may have expired or been revoked since."""
        ...


class Access:
    """With a token set, whoever presents it may do everything and nobody else may do anything; without, everyone may."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token

    @property
    def needs_token(self) -> bool:
        return self._token is not None

    def admit(self, token: str | None, certificate: PeerCertificate | None = None) -> Principal:
        if self._token is None:
            return ANYONE
        if token is None:
            raise UnauthenticatedError("this server asks for a token: pass token=, or set ORTOO_TOKEN")
        if not compare_digest(token.encode(errors="replace"), self._token.encode()):
            raise UnauthenticatedError("the token is not the one of this server")
        return HOLDER

    def is_valid(self, principal: Principal) -> bool:
        return True
