"""What the certificate of a client is good for, where it shows no token."""

from __future__ import annotations

import msgspec

from ortoo.model.access import ANY, CERTIFICATE_PREFIX, SYSTEM_NAMESPACE, Principal, Scope, make_grant
from ortoo.model.errors import InvalidError, UnauthenticatedError
from ortoo.model.peer import PeerCertificate

NAME = "{name}"
# Whoever signs certificates for tenants need not know that these names are more than names.
_NOBODYS = {ANY: "all namespaces", SYSTEM_NAMESPACE: "the namespace of the server itself"}


class CertificateRules(msgspec.Struct, frozen=True):
    scopes: tuple[Scope, ...]
    namespace: str  # `{name}` stands for the common name

    def to_principal(self, certificate: PeerCertificate) -> Principal:
        """Its name cannot be that of somebody who has a token, and its rights end with it."""
        name = certificate.common_name
        if name is None:
            raise UnauthenticatedError(
                "the certificate has no common name, or several: get one with one, or use a token"
            )
        try:
            grant = make_grant(self.scopes, self.namespace.replace(NAME, name))
        except InvalidError as error:
            raise UnauthenticatedError(f"the common name of the certificate cannot be used: {error}") from None
        if NAME in self.namespace and grant.namespace in _NOBODYS:
            raise UnauthenticatedError(
                f"the common name of the certificate cannot be used: it would mean {_NOBODYS[grant.namespace]}"
            )
        return Principal(f"{CERTIFICATE_PREFIX}{name}", (grant,), expires=certificate.not_after)
