"""What the broker needs from the world: a store and a clock. Small on purpose; stores keep bytes, never rules."""

from .clock import Alarm, Clock
from .keys import Keys
from .moving import Contents, Source, Target
from .store import Store, StoredHistory, StoreStatus

__all__ = ["Alarm", "Clock", "Contents", "Keys", "Source", "Store", "StoreStatus", "StoredHistory", "Target"]
