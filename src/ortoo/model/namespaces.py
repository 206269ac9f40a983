"""Namespaces as they are registered: the quota of each, and the records that tell of it.

A namespace comes into being with its first topic. Only those that were created on purpose, or given a quota, are registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from .errors import InvalidError

Limit = Annotated[int, Meta(ge=0, le=2**62)] | None  # None: no limit


class Quota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a namespace may use.

    messages_per_minute, bytes_per_minute  published through the server's doors; bytes of values, keys and headers
    topics, groups                         of all its topics together
    stored_bytes                           in the logs of its topics, with what open transactions have staged
    connections                            of clients whose tokens are for it
    """

    messages_per_minute: Limit = None
    bytes_per_minute: Limit = None
    topics: Limit = None
    groups: Limit = None
    stored_bytes: Limit = None
    connections: Limit = None


QUOTAS: tuple[str, ...] = Quota.__struct_fields__
NO_QUOTA = Quota()


def make_quota(limits: Mapping[str, Any]) -> Quota:
    """Of what users say; InvalidError when that makes no sense."""
    for name in limits.keys() - set(QUOTAS):
        raise InvalidError(f"there is no quota {name!r}; the quotas are {', '.join(QUOTAS)}")
    for name, limit in limits.items():
        if limit is not None and (type(limit) is not int or not 0 <= limit <= 2**62):
            raise InvalidError(f"{name} must be a whole number, 0 or more, or None for no limit, not {limit!r}")
    return Quota(**limits)


class NamespaceChanged(msgspec.Struct, frozen=True, tag=True, gc=False):
    """It is registered from now on, with this quota."""

    at: int
    namespace: str
    quota: Quota


class NamespaceDeleted(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    namespace: str
