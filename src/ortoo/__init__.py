"""Ortoo: a message queue for Python teams. An append-only log with per-message acks, in one package.

import ortoo

async with ortoo.open() as queue:
    await queue.publish("orders", b"hello", key="user-1")
    for message in await queue.lease("orders", wait=5):
        await message.ack()
"""

from typing import TYPE_CHECKING, Any

from .client import NamedTransaction, Queue, SyncQueue, Transaction
from .client.connecting import connect, connect_sync
from .client.handler import Reject
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

if TYPE_CHECKING:
    from .app.embedded import open, open_sync

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


def __getattr__(name: str) -> Any:
    """A program that only connects to a server does not load one."""
    if name in ("open", "open_sync"):
        from .app import embedded

        return getattr(embedded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
