"""The real clock."""

import asyncio
import time
from collections.abc import Callable

from ortoo.ports import Alarm


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Alarm:
        # A millisecond more than asked, because the loop may wake a little early and the work would not be due yet.
        return asyncio.get_running_loop().call_later((max(0, delay_ms) + 1) / 1000, callback)
