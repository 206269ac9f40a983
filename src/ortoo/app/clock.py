"""The real clock."""

import asyncio
import time
from collections.abc import Callable

from ortoo.ports import Alarm


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Alarm:
        # A millisecond more than asked, because the loop may wake a little early and the work would not be due yet.
        delay = max(0, when_ms - self.now_ms()) + 1
        return asyncio.get_running_loop().call_later(delay / 1000, callback)
