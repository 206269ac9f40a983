"""How much one address may ask of all doors together, so that no single machine takes what is there for everybody.

Connections are counted exactly; there are no more addresses than connections. Requests are counted in buckets that fill up at
the rate that is allowed and hold what may come in one second; of these the last used are kept, and whoever is forgotten begins
with a full one. An IPv6 address stands for its /64, which one customer has whole. Loopback is this machine, or a proxy on it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network, ip_address
from time import monotonic

from ortoo.model.errors import RateLimitedError, TooManyError

from .meters import DoorMeters

BUCKETS_MAX = 16_384


class AddressLimits:
    def __init__(
        self,
        connections: int = 0,
        requests_per_second: float = 0.0,
        *,
        exempts_loopback: bool = True,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """0 means that there is no limit."""
        self._connections_max = connections
        self._rate = requests_per_second
        self._burst = max(1.0, requests_per_second)
        self._exempts_loopback = exempts_loopback
        self._now = now
        self._connections: Counter[str] = Counter()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what was left, and when; last used last

    def enter(self, address: str | None) -> str | None:
        """A connection from there; TooManyError when there are too many. What it is counted under; None if it is not."""
        key = self._key(address)
        if key is not None and self._connections_max:
            if self._connections[key] >= self._connections_max:
                raise TooManyError(
                    f"{self._connections_max} connections from {key} are open already (limits.connections_per_ip); "
                    "close some, or share them"
                )
            self._connections[key] += 1
        return key

    def leave(self, key: str | None) -> None:
        if key is not None and self._connections_max:
            self._connections[key] -= 1
            if not self._connections[key]:
                del self._connections[key]

    def ask(self, key: str | None) -> None:
        """A request; RateLimitedError when it comes too soon after the others."""
        if not self._rate or key is None:
            return
        now = self._now()
        left, at = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        self._buckets[key] = (max(left - 1.0, 0.0) if left >= 1.0 else left, now)
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        if left < 1.0:
            raise RateLimitedError(
                f"{key} may ask {self._rate:g} times a second (limits.requests_per_second_per_ip); try again in a second"
            )

    def _key(self, address: str | None) -> str | None:
        if address is None or not (self._connections_max or self._rate):
            return None
        try:
            found = ip_address(address)
        except ValueError:  # not from a network
            return None
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        if found.is_loopback and self._exempts_loopback:
            return None
        if isinstance(found, IPv6Address):
            return str(IPv6Network((int(found) >> 64 << 64, 64)))
        return str(found)


class Visit:
    """A connection that was let in."""

    __slots__ = ("_key", "_limits", "_meters")

    def __init__(self, limits: AddressLimits, key: str | None, meters: DoorMeters) -> None:
        self._limits = limits
        self._key = key
        self._meters = meters

    @property
    def is_limited(self) -> bool:
        """Whether asking can be refused."""
        return self._key is not None

    def ask(self) -> None:
        """For each request, before anything is done for it. What is under way already is never refused."""
        try:
            self._limits.ask(self._key)
        except RateLimitedError as error:
            self._meters.failed("connect", error)
            raise

    def leave(self) -> None:
        self._meters.connections -= 1
        self._limits.leave(self._key)
