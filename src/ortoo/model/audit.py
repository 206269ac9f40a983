"""What an auditor wants to know: who did what, from where, and how it ended. Never a value, a key or a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .access import SYSTEM_NAMESPACE
from .commands import unwrap
from .names import MessageRef, TopicName

AUDIT_TOPIC = TopicName(SYSTEM_NAMESPACE, "ortoo.audit")
OK = "ok"
UNKNOWN = "unknown"  # whoever asked has gone before it was known
_TARGET_CHARS_MAX = 300


class AuditEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    who: str  # the principal's name
    action: str  # the operation, or `Authenticate`
    outcome: str  # `ok`, or the code of the error
    door: str
    address: str | None = None  # of the client
    token: str | None = None  # its id
    namespace: str | None = None  # of the target
    target: str | None = None  # what it was done to: a topic, a message, a transaction
    group: str | None = None  # of the topic, where it was done to one
    count: int = 1  # how many of the same came in a short time, where there were many

    @property
    def kind(self) -> tuple[str, ...]:
        """What a flood consists of has this in common."""
        return self.who, self.action, self.outcome, self.door, self.address or ""


Audited = Callable[[AuditEvent], None]


def target_of(request: Any) -> tuple[str | None, str | None]:
    """What a command is about, in words: a namespace, and what in it. Whatever a client sends as a name, it is short."""
    command = unwrap(request)
    namespace = getattr(command, "namespace", None)
    for field in ("topic", "message", "copy", "transaction", "key"):
        found = getattr(command, field, None)
        if isinstance(found, TopicName):
            return _short(found.namespace), _short(found.name)
        if isinstance(found, MessageRef | str):
            return _short(namespace), _short(str(found))
    return _short(namespace), None


def group_of(request: Any) -> str | None:
    group = getattr(unwrap(request), "group", None)
    return _short(group) if isinstance(group, str) else None


def _short(text: str | None) -> str | None:
    return text[:_TARGET_CHARS_MAX] if isinstance(text, str) else None
