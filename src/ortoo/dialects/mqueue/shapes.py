"""What goes in and out, with the names that mqueue gives it: its own in requests, those of its Go fields in answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from ortoo.model import limits
from ortoo.model.errors import InvalidError

LIMIT_DEFAULT = 10
LIMIT_MAX = 1_000  # items of one answer; more are asked for with more requests
_UPPER = {"id": "ID", "ttl": "TTL"}


class NewItem(msgspec.Struct, gc=False):
    """One of those to be enqueued. What Go's zero values stand for is the default."""

    namespace: str = ""
    topic: str = ""
    idempotency_key: str | None = None
    priority: int = 0
    payload: bytes | None = None  # base64
    metadata: Annotated[dict[str, Raw], Meta(max_length=limits.HEADERS_MAX)] | None = None
    deliver_after: datetime | None = None

    def __post_init__(self) -> None:
        check_place(self.namespace, self.topic)


class NamedItem(msgspec.Struct, frozen=True):
    """An item by its id."""

    id: int
    namespace: str = ""
    topic: str = ""
    error: str = ""

    def __post_init__(self) -> None:
        check_place(self.namespace, self.topic)


class TopicQuery(msgspec.Struct, frozen=True):
    namespace: str = ""
    topic: str = ""
    limit: str = ""

    @property
    def count(self) -> int:
        """How many are wanted. What is no number counts as none given, as it does in mqueue."""
        text = self.limit
        wanted = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
        return min(wanted or LIMIT_DEFAULT, LIMIT_MAX)


class NamespaceQuery(msgspec.Struct, frozen=True):
    namespace: str = ""


def check_place(namespace: str, topic: str) -> None:
    if not namespace or not topic:
        raise InvalidError("Missing namespace or topic")


def _go_name(name: str) -> str:
    return "".join(_UPPER.get(part) or part.capitalize() for part in name.split("_"))


class Item(msgspec.Struct, rename=_go_name, gc=False):
    """A delivery."""

    id: int
    namespace: str
    topic: str
    idempotency_key: str | None
    priority: int
    payload: bytes
    metadata: dict[str, Any] | None
    deliver_after: str
    lease_expires_at: str | None
    lease_owner: str | None
    status: str
    retries: int
    created_at: str
    updated_at: str
    first_failed_at: str | None = None
    last_error: str | None = None
    ttl: str | None = None


class DeadItem(Item, rename=_go_name, kw_only=True, gc=False):
    original_id: int
    moved_at: str
