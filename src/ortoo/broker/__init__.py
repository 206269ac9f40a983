"""The shell around the engine: time, storage, waiting. One writer, no locks, no await between reading state and changing it."""

from .access import Authenticator
from .addresses import AddressLimits
from .authorized import AuthorizedLink
from .broker import Broker
from .budget import Budget, Share
from .gate import Gate
from .presence import Presence
from .sampler import Sampler
from .series import SeriesReader
from .subscription import Subscription
from .throttle import Throttle

__all__ = [
    "AddressLimits",
    "Authenticator",
    "AuthorizedLink",
    "Broker",
    "Budget",
    "Gate",
    "Presence",
    "Sampler",
    "SeriesReader",
    "Share",
    "Subscription",
    "Throttle",
]
