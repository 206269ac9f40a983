"""Who is it? Tokens in, principals out: signatures, claims, keys and revocations. What a principal may do is not decided here."""

from .authenticator import HOLDER, Authenticator
from .claims import ClaimRules

__all__ = ["HOLDER", "Authenticator", "ClaimRules"]
