"""Time, as the broker needs it."""

from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970. They may jump; the broker never lets time run backwards for decisions."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some instant; they never jump. What waits, waits on these."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Alarm:
        """Calls back once `monotonic_ms()` has grown by `delay_ms`, in the event loop that asked."""
        ...
