"""What a server shares with others through a Redis. Without it each server counts and remembers for itself, which is reported."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ortoo.broker import Broker
from ortoo.broker.claiming import Claiming
from ortoo.broker.shared_rates import SharedRates
from ortoo.model.errors import ConfigError
from ortoo.model.metrics import RedisFigures

if TYPE_CHECKING:
    from ortoo.stores.redis import RedisConnection

_INSTEAD = (
    "quotas count on each server by itself, and dedup ids of a namespace are known only where they were published"
)


class Sharing:
    def __init__(self, redis: RedisConnection, brokers: Sequence[Broker]) -> None:
        """Of the shards of one server, whose doors share one throttle."""
        from ortoo.stores.redis import RedisClaims, RedisRates

        self._redis = redis
        self._rates, self._claims = RedisRates(redis), RedisClaims(redis)
        throttle = next((broker.meters.throttle for broker in brokers if broker.meters.throttle is not None), None)
        self._shared = None if throttle is None else SharedRates(throttle, self._rates)
        self._claiming = [Claiming(broker, self._claims) for broker in brokers]
        for broker, claiming in zip(brokers, self._claiming, strict=True):
            broker.publishing.claiming = claiming
            broker.meters.redis = self.figures
        brokers[0].problem_sources.append(self.problems)

    async def start(self) -> None:
        await self._redis.start()
        self._claims.start()
        if self._shared is not None:
            self._shared.start()

    async def stop(self) -> None:
        if self._shared is not None:
            await self._shared.stop()
        for claiming in self._claiming:
            await claiming.stop()
        await self._claims.stop()
        await self._redis.stop()

    def problems(self) -> list[str]:
        problem = self._redis.problem()
        return [] if problem is None else [f"{problem}; until it is back, {_INSTEAD}"]

    def figures(self) -> RedisFigures:
        return RedisFigures(
            is_up=self._redis.is_up,
            calls=self._redis.calls,
            failures=self._redis.failures,
            fallbacks={"quota": self._rates.fallbacks, "dedup": self._claims.fallbacks},
        )


def open_sharing(url: str | None, *brokers: Broker) -> Sharing | None:
    """None without a URL. The gates must have been made: the throttle is theirs."""
    if url is None:
        return None
    if find_spec("redis") is None:
        raise ConfigError("to share through Redis needs the package redis; run: pip install 'ortoo[redis]'")
    from ortoo.stores.redis import RedisConnection, parse_address

    return Sharing(RedisConnection(parse_address(url)), brokers)
