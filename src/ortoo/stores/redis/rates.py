"""Rates that servers share, in Redis: a token bucket each, which fills by Redis's own clock.

ortoo:rate:NAMESPACE\\0RATE     INSTANT TOKENS     gone after ten minutes without use
"""

from __future__ import annotations

from collections.abc import Sequence

from ortoo.ports.rates import RateUse

from .connection import AwayError, RedisConnection

KEPT_MS = 600_000

_REPORT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local levels = {}
for i, key in ipairs(KEYS) do
  local limit, used, left = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
  local saved = redis.call('GET', key)
  if saved then
    local at, tokens = string.match(saved, '^(%S+) (%S+)$')
    left = math.min(limit, tonumber(tokens) + limit * math.max(0, now - tonumber(at)) / 60000) - used
  end
  local level = string.format('%.4f', left)
  if used > 0 or (not saved and left < limit) then
    redis.call('SET', key, string.format('%.0f', now) .. ' ' .. level, 'PX', ARGV[1])
  end
  levels[i] = level
end
return levels
"""


class RedisRates:
    def __init__(self, redis: RedisConnection) -> None:
        self._redis = redis
        self.fallbacks = 0  # reports that nobody took

    async def report(self, uses: Sequence[RateUse]) -> list[float] | None:
        keys = [f"ortoo:rate:{use.namespace}\0{use.rate}" for use in uses]
        numbers = [part for use in uses for part in (use.limit, use.used, use.left)]
        try:
            levels = await self._redis.call(_REPORT, keys, KEPT_MS, *numbers)
        except AwayError:
            self.fallbacks += 1
            return None
        return [float(level) for level in levels]
