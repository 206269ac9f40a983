"""Where a client of another system is here: its namespace."""

from __future__ import annotations

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model.names import DEFAULT_NAMESPACE


def namespace_of(link: AuthorizedLink) -> str:
    """The one that its token is for; the default one when that is none, or not one only."""
    realm = link.principal.realm
    return realm[0] if realm is not None and len(realm) == 1 else DEFAULT_NAMESPACE
