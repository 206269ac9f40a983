"""What proves to a receiver that a webhook came from this server, and when: an HMAC over the time and the body.

Whoever can check such a signature can make one. So each namespace has a key of its own, derived from the secret: a receiver that
was given only that can forge nothing for the receivers of other namespaces. The secret itself signs, too, for those who have no
tenants and one key for all.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence


def namespace_key(secret: str, namespace: str) -> str:
    # What is signed begins with a digit, so that no signature is the key of a namespace.
    return hmac.digest(secret.encode(), f"namespace:{namespace}".encode(), "sha256").hex()


def sign(secrets: Sequence[str], body: bytes, at: int, namespace: str) -> str | None:
    """`t=TIME,v1=HEX`, with a `v1` for each key that a receiver may know: each secret and what is derived from it. There are
    two secrets while they are changed."""
    if not secrets:
        return None
    signed = b"%d." % at + body
    keys = [key for secret in secrets for key in (secret, namespace_key(secret, namespace))]
    return ",".join([f"t={at}", *(f"v1={hmac.digest(key.encode(), signed, 'sha256').hex()}" for key in keys)])
