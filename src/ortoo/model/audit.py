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


class AuditEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    who: str  # the principal's name
    action: str  # the operation, or `Authenticate`
    outcome: str  # `ok`, or the code of the error
    door: str
    address: str | None = None  # of the client
    token: str | None = None  # its id
    target: str | None = None  # what it was done to
    count: int = 1  # how many of the same came in a short time, where there were many

    @property
    def kind(self) -> tuple[str, ...]:
        """What a flood consists of has this in common."""
        return self.who, self.action, self.outcome, self.door, self.address or ""


Audited = Callable[[AuditEvent], None]


def target_of(request: Any) -> str | None:
    """What a command is about, in words."""
    command = unwrap(request)
    for field in ("topic", "message", "copy", "namespace", "transaction"):
        found = getattr(command, field, None)
        if isinstance(found, TopicName | MessageRef | str):
            return str(found)
    return None
