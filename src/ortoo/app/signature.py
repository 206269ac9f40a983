"""What proves to a receiver that a webhook came from this server, and when: an HMAC over the time and the body."""

from __future__ import annotations

import hmac
from collections.abc import Sequence


def sign(secrets: Sequence[str], body: bytes, at: int) -> str | None:
    """`t=TIME,v1=HEX`, with a `v1` for each secret: while they are changed, a receiver may know the old one or the new."""
    if not secrets:
        return None
    signed = b"%d." % at + body
    return ",".join([f"t={at}", *(f"v1={hmac.digest(secret.encode(), signed, 'sha256').hex()}" for secret in secrets)])
