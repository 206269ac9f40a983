"""Our errors as reason codes of MQTT 5, each with its text."""

from __future__ import annotations

from typing import Final

from ortoo.model import errors as e

from .wire.codes import Code

# By the error, or the nearest one above it in the tree. What a client may do about it is in the text.
_CODES: Final[dict[type[e.OrtooError], Code]] = {
    e.OrtooError: Code.UNSPECIFIED,
    e.RequestError: Code.IMPLEMENTATION_SPECIFIC,
    e.NotFoundError: Code.TOPIC_NAME_INVALID,
    e.UnauthenticatedError: Code.NOT_AUTHORIZED,
    e.ForbiddenError: Code.NOT_AUTHORIZED,
    e.CapacityError: Code.QUOTA_EXCEEDED,
    e.UnavailableError: Code.UNSPECIFIED,
    e.ConfigError: Code.IMPLEMENTATION_SPECIFIC,
}


def code_of(error: Exception) -> Code:
    """For a PUBACK, a PUBREC or a SUBACK."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return Code.UNSPECIFIED


def connect_code_of(error: Exception) -> Code:
    """For a CONNACK."""
    if isinstance(error, e.UnauthenticatedError):
        return Code.BAD_USER_OR_PASSWORD
    if isinstance(error, e.RateLimitedError):
        return Code.CONNECTION_RATE_EXCEEDED
    if isinstance(error, e.CapacityError):
        return Code.QUOTA_EXCEEDED
    if isinstance(error, e.UnavailableError):
        return Code.SERVER_UNAVAILABLE
    return code_of(error) if isinstance(error, e.ForbiddenError) else Code.UNSPECIFIED
