"""Ortoo: a message queue for Python teams. An append-only log with per-message acks, in one package.

import ortoo

async with ortoo.open() as queue:
    await queue.publish("orders", b"hello", key="user-1")
    for message in await queue.lease("orders", wait=5):
        await message.ack()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.embedded import open, open_sync
    from .client import NamedTransaction, Queue, SyncQueue, Transaction
    from .client.connecting import connect, connect_sync
    from .client.handler import Reject, Retry
    from .client.handlers import Handlers
    from .client.lazy import Messages, SentMessages
    from .client.tls import Tls
    from .client.worker import Worker
    from .model.errors import (
        CapacityError,
        ClosedError,
        ConfigError,
        CorruptionError,
        ExistsError,
        ForbiddenError,
        FullError,
        InvalidError,
        InvalidValueError,
        LeaseLostError,
        NoReplyError,
        NotFoundError,
        NotOwnerError,
        OrtooError,
        OutcomeUnknownError,
        ProtocolError,
        RateLimitedError,
        RequestError,
        StoreFailedError,
        TooManyError,
        UnauthenticatedError,
        UnavailableError,
    )
    from .model.history import HistoryEvent
    from .model.message import Message, Received
    from .model.namespaces import Quota
    from .model.replies import (
        GroupInfo,
        KeyCounts,
        KeysFound,
        MessageInfo,
        NamespaceInfo,
        PartitionInfo,
        Sent,
        Stats,
        TopicInfo,
        Trace,
        TraceEvent,
    )
    from .model.series import Series
    from .model.topic import TopicConfig
    from .model.version import __version__

__all__ = [
    "CapacityError",
    "ClosedError",
    "ConfigError",
    "CorruptionError",
    "ExistsError",
    "ForbiddenError",
    "FullError",
    "GroupInfo",
    "Handlers",
    "HistoryEvent",
    "InvalidError",
    "InvalidValueError",
    "KeyCounts",
    "KeysFound",
    "LeaseLostError",
    "Message",
    "MessageInfo",
    "Messages",
    "NamedTransaction",
    "NamespaceInfo",
    "NoReplyError",
    "NotFoundError",
    "NotOwnerError",
    "OrtooError",
    "OutcomeUnknownError",
    "PartitionInfo",
    "ProtocolError",
    "Queue",
    "Quota",
    "RateLimitedError",
    "Received",
    "Reject",
    "RequestError",
    "Retry",
    "Sent",
    "SentMessages",
    "Series",
    "Stats",
    "StoreFailedError",
    "SyncQueue",
    "Tls",
    "TooManyError",
    "TopicConfig",
    "TopicInfo",
    "Trace",
    "TraceEvent",
    "Transaction",
    "UnauthenticatedError",
    "UnavailableError",
    "Worker",
    "__version__",
    "connect",
    "connect_sync",
    "open",
    "open_sync",
]


_HOMES: dict[str, list[str]] = {
    ".app.embedded": ["open", "open_sync"],
    ".client": ["NamedTransaction", "Queue", "SyncQueue", "Transaction"],
    ".client.connecting": ["connect", "connect_sync"],
    ".client.handler": ["Reject", "Retry"],
    ".client.handlers": ["Handlers"],
    ".client.lazy": ["Messages", "SentMessages"],
    ".client.tls": ["Tls"],
    ".client.worker": ["Worker"],
    ".model.errors": [
        "CapacityError",
        "ClosedError",
        "ConfigError",
        "CorruptionError",
        "ExistsError",
        "ForbiddenError",
        "FullError",
        "InvalidError",
        "InvalidValueError",
        "LeaseLostError",
        "NoReplyError",
        "NotFoundError",
        "NotOwnerError",
        "OrtooError",
        "OutcomeUnknownError",
        "ProtocolError",
        "RateLimitedError",
        "RequestError",
        "StoreFailedError",
        "TooManyError",
        "UnauthenticatedError",
        "UnavailableError",
    ],
    ".model.history": ["HistoryEvent"],
    ".model.message": ["Message", "Received"],
    ".model.namespaces": ["Quota"],
    ".model.replies": [
        "GroupInfo",
        "KeyCounts",
        "KeysFound",
        "MessageInfo",
        "NamespaceInfo",
        "PartitionInfo",
        "Sent",
        "Stats",
        "TopicInfo",
        "Trace",
        "TraceEvent",
    ],
    ".model.series": ["Series"],
    ".model.topic": ["TopicConfig"],
    ".model.version": ["__version__"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Each name is imported when it is first used: a program that only connects does not load a server, and starts at once."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
