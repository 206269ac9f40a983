"""The queue as users hold it: one interface over a link, which is a broker in this process or a connection to a server."""

from .lazy import Messages
from .queue import Queue
from .sync import SyncQueue
from .transaction import NamedTransaction, Transaction

__all__ = ["Messages", "NamedTransaction", "Queue", "SyncQueue", "Transaction"]
