"""Who is it? Tokens in, principals out: signatures, claims, keys and revocations. What a principal may do is not decided here."""

from .authenticator import ANYONE, HOLDER, Authenticator
from .claims import ClaimRules

__all__ = ["ANYONE", "HOLDER", "Authenticator", "ClaimRules"]
