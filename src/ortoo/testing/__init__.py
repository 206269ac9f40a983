"""For tests: a queue with a clock you move by hand, the contract suites, and the simulator."""

from .clock import ManualClock
from .queue import open_manual

__all__ = ["ManualClock", "open_manual"]
