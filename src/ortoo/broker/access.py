"""Who may enter: the one place that every door asks, through its gate. Whoever is admitted may do everything."""

from __future__ import annotations

from hmac import compare_digest

import msgspec

from ortoo.model.errors import UnauthenticatedError


class Principal(msgspec.Struct, frozen=True):
    """Who asks."""

    name: str


ANYONE = Principal("anyone")
HOLDER = Principal("token")
HOST = Principal("host")


class Access:
    """With a token set, whoever presents it may do everything and nobody else may do anything; without, everyone may."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token

    @property
    def needs_token(self) -> bool:
        return self._token is not None

    def admit(self, token: str | None) -> Principal:
        if self._token is None:
            return ANYONE
        if token is None:
            raise UnauthenticatedError("this server asks for a token: pass token=, or set ORTOO_TOKEN")
        if not compare_digest(token.encode(errors="replace"), self._token.encode()):
            raise UnauthenticatedError("the token is not the one of this server")
        return HOLDER
