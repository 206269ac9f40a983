"""Time, as the broker needs it."""

from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall-clock milliseconds. It may jump; the broker never lets time run backwards for decisions."""

    def now_ms(self) -> int: ...

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Alarm:
        """Calls back once `now_ms()` has reached `when_ms`, in the event loop that asked."""
        ...
