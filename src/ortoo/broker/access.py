"""Who may enter: what every door asks, through its gate. `ortoo.auth` has the answer."""

from __future__ import annotations

from typing import Protocol

from ortoo.model.access import EVERYTHING, Principal
from ortoo.model.peer import PeerCertificate

HOST = Principal("host", (EVERYTHING,))  # what the server does by itself


class Authenticator(Protocol):
    @property
    def needs_token(self) -> bool: ...

    @property
    def version(self) -> int:
        """Another one once what was said of principals may not be true any more: keys came and went, tokens were revoked."""
        ...

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def admit(self, token: str | None, certificate: PeerCertificate | None = None) -> Principal:
        """Whose token or certificate it is; UnauthenticatedError when it is nobody's."""
        ...

    def valid_until(self, principal: Principal) -> float:
        """When one who was admitted must go, by `now`, while `version` stays."""
        ...
